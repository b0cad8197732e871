// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title What a consumer reads of the QoS oracle
/// @notice A score is a QoS from 0 to 10000 (10000 = 1.0). One round of scores is accepted at a time; every
/// answer tells how old the last round is, so that a consumer may refuse what is too old for it.
/// @dev A score speaks of quality, not of membership: who is a member, the network itself knows first hand.
interface IQoSOracle {
    /// @notice A new index was given to `node`: at its first join, or at a re-join after its lane was written.
    event NodeRegistered(uint256 indexed index, address indexed node);

    /// @notice `index` belongs to nobody any more: `node` joined again and takes a new one (its old score is not its new one).
    event NodeIndexRetired(uint256 indexed index, address indexed node);

    /// @notice One round of scores was accepted.
    /// @param round the round, one more than the one before
    /// @param asOf number of the block whose state the scores tell
    /// @param asOfHash hash of that block, checked against the chain
    /// @param dataHash keccak256 of the records in the call's `data`; the words are rebuilt from the call's input
    /// @param digest EIP-712 digest that was signed; the next report names it as `prev`
    /// @param rules counter of the scoring rules, see RulesSet for their hash
    /// @param signers bitmap of the signers, bit i = signers()[i]
    /// @param transmitter who sent the transaction; has no rights
    event RoundAccepted(
        uint32 indexed round,
        uint48 asOf,
        bytes32 asOfHash,
        bytes32 dataHash,
        bytes32 digest,
        uint16 rules,
        uint256 signers,
        address transmitter
    );

    /// @notice The score of a node, and how old it is.
    /// @param node address of the node
    /// @return known a report has spoken about this node since its last join
    /// @return selectable false = do not give work to it. A node before its first report is selectable; so is every
    /// registered node once the last round is older than `limits().maxAgeSeconds` (a dead oracle excludes nobody).
    /// False for an address that never joined.
    /// @return qos 0 to 10000; 0 also when not known or not to be selected
    /// @return round the last accepted round, 0 = none yet
    /// @return age seconds since the last accepted round (since 1970 when there was none)
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age);

    /// @notice The `selectable` of scoreOf alone. A QoS of 0 is selectable; an address that never joined is not.
    function isSelectable(address node) external view returns (bool);

    /// @notice The last round is at most `limits().maxAgeSeconds` old.
    function isFresh() external view returns (bool);

    /// @notice Packed lanes for bulk readers: 16 lanes of 16 bits a word, lane of index i in word i / 16 at bit 16 * (i % 16).
    /// @dev A lane: 0 = no report yet, 1 = do not select, 2 to 10002 = QoS + 2.
    /// @param from first word
    /// @param count how many words; words past the last node are 0
    function wordsAt(uint256 from, uint256 count) external view returns (uint256[] memory words);

    /// @notice One lane: 0 = no report yet, 1 = do not select, 2 to 10002 = QoS + 2. Retired indexes keep theirs.
    function laneAt(uint256 index) external view returns (uint16 lane);

    /// @notice The current index of a node; reverts NotRegistered when it never joined.
    function indexOf(address node) external view returns (uint256 index);

    /// @notice The node an index was given to, zero when it was given to nobody. Retired if indexOf(node) differs.
    function nodeAt(uint256 index) external view returns (address node);
}
