// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Consumer interface of the QoS oracle: one Merkle root for each round, and the expelled nodes
/// @notice A root proves the score of every node, and the absence of every other address, to any contract (QoSProof).
interface IQoSRoots {
    /// @notice A round was accepted.
    /// @param round the round, one more than the previous round
    /// @param asOf number of the block at which the leaves were computed
    /// @param asOfHash hash of that block, checked against the chain
    /// @param root root of the round's tree; the next report names it as `prev`
    /// @param config digest of the chain, contract, signers, quorum and rules it was signed under; see ConfigSet
    /// @param signers bitmap of the signers, bit i = signers()[i] of that configuration
    event RoundAccepted(
        uint32 indexed round, uint48 asOf, bytes32 asOfHash, bytes32 root, bytes32 config, uint256 signers
    );

    /// @notice The roots of the rounds `from` to `to` were struck: nothing can be proven with them.
    event RoundsStruck(uint32 from, uint32 to);

    /// @notice The root of this round is no longer kept, was struck, or was never accepted.
    error NoRoot(uint32 round);

    /// @notice Returns the last accepted round.
    /// @return round the round, 0 = none yet
    /// @return asOf number of the block at which its leaves were computed
    /// @return pushedAt unix seconds of its acceptance
    function last() external view returns (uint32 round, uint48 asOf, uint40 pushedAt);

    /// @notice Returns the root of one of the last KEPT rounds; reverts with NoRoot for any other, and if the round was
    /// struck.
    function rootOf(uint32 round) external view returns (bytes32 root);

    /// @notice Returns the number of rounds whose roots are kept.
    // solhint-disable-next-line func-name-mixedcase -- an immutable, as all others in capitals
    function KEPT() external view returns (uint32);

    /// @notice Returns the number of newer rounds that a consumer with money at stake should wait for before it uses a
    /// root, so that a wrong root can be struck before. It is less than KEPT.
    // solhint-disable-next-line func-name-mixedcase -- an immutable, as all others in capitals
    function LAG() external view returns (uint32);

    /// @notice Returns whether the last round is at most `limits().maxAgeSeconds` old; pauses that began while it was
    /// younger are not counted.
    function isFresh() external view returns (bool);

    /// @notice Returns whether this oracle has expelled the node, whether or not the network has ended its membership,
    /// until it is readmitted or the expulsion ends (by default never).
    function isExpelled(address node) external view returns (bool);

    /// @notice Returns whether this node is accused, so that it can be kicked out while the last round still names the
    /// accused interval. A network treats a node that leaves now as kicked out.
    function isKickPending(address node) external view returns (bool);
}
