// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title What a consumer reads of the QoS oracle
/// @notice A score is a QoS from 0 to 10000 (10000 = 1.0). One round of scores is accepted at a time. A consumer that
/// draws nodes by weight needs `weightOf` alone: it knows of exclusions, expulsions, newcomers and scores too old.
/// @dev A score speaks of quality, not of membership: who is a member, the network itself knows first hand. So an
/// address that the oracle has never heard of is a newcomer here: selectable, with the newcomer's weight.
interface IQoSOracle {
    /// @notice `index` was given to `node` in the round accepted by the same transaction, together with its first score.
    event NodeRegistered(uint256 indexed index, address indexed node);

    /// @notice `index` was taken from `node`, whose lane an earlier round had closed. NodeRegistered tells to whom it goes.
    event NodeReleased(uint256 indexed index, address indexed node);

    /// @notice One round of scores was accepted.
    /// @param round the round, one more than the one before
    /// @param asOf number of the block whose state the scores tell
    /// @param asOfHash hash of that block, checked against the chain
    /// @param dataHash keccak256 of the call's `data`; nodes and words are rebuilt from the call's input
    /// @param digest EIP-712 digest that was signed; the next report names it as `prev`
    /// @param config digest of chain, contract, signers, quorum and rules that it was signed under; see ConfigSet
    /// @param signers bitmap of the signers, bit i = signers()[i] of that configuration
    /// @param transmitter who sent the transaction; has no rights
    event RoundAccepted(
        uint32 indexed round,
        uint48 asOf,
        bytes32 asOfHash,
        bytes32 dataHash,
        bytes32 digest,
        bytes32 config,
        uint256 signers,
        address transmitter
    );

    /// @notice What a node weighs in a draw: everything below in one number.
    /// @return weight 0 = must not be selected: expelled, however old the scores, or excluded by a fresh round.
    /// 5000 = nothing is known that could be trusted: a newcomer, or the scores are too old. Else QoS + 1, 1 to 10001
    function weightOf(address node) external view returns (uint256 weight);

    /// @notice The score of a node, and how old it is.
    /// @param node address of the node
    /// @return known a report has spoken about this node
    /// @return selectable see isSelectable
    /// @return qos 0 to 10000; 0 also when not known, excluded or expelled
    /// @return round the last accepted round, 0 = none yet
    /// @return age seconds since the last accepted round (since 1970 when there was none), pauses included
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age);

    /// @notice Whether work may be given to the node. False for an expelled one, however old the scores; false for one
    /// that a fresh round excludes. True for a newcomer, for a QoS of 0, and for all who are not expelled once the
    /// scores are too old (a dead oracle excludes nobody). It does not tell whether the address is a member.
    function isSelectable(address node) external view returns (bool);

    /// @notice Kicked out by this oracle, whether or not the network has carried it out, until readmitted or the
    /// expulsion's time is over (as a rule it has no end).
    function isExpelled(address node) external view returns (bool);

    /// @notice A kickout of this node is proposed and can still be executed: neither executed, cancelled, too late, nor
    /// proposed by signers or rules that were replaced since. A network treats who leaves now as kicked out.
    function isKickPending(address node) external view returns (bool);

    /// @notice The last round is at most `limits().maxAgeSeconds` old, pauses that began while it was so not counted.
    function isFresh() external view returns (bool);

    /// @notice Packed lanes for bulk readers: 16 lanes of 16 bits a word, lane of index i in word i / 16 at bit 16 * (i % 16).
    /// @dev A lane: 0 = index not given, 1 = do not select, 2 to 10002 = QoS + 2.
    /// @param from first word
    /// @param count how many words; words past the last node are 0
    function wordsAt(uint256 from, uint256 count) external view returns (uint256[] memory words);

    /// @notice One lane: 0 = index not given, 1 = do not select, 2 to 10002 = QoS + 2.
    function laneAt(uint256 index) external view returns (uint16 lane);

    /// @notice The index that a node has now; reverts NotRegistered when it has none.
    function indexOf(address node) external view returns (uint256 index);
}
