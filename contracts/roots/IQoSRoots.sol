// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Consumer interface of the QoS oracle: one Merkle root for each round, and the expelled nodes
/// @notice A root proves the score of every node, and the absence of every other address, to any contract (QoSProof).
interface IQoSRoots {
    /// @notice Returns the last accepted round.
    /// @return round the round, 0 = none yet
    /// @return asOf number of the block at which the scores were computed
    /// @return pushedAt unix seconds of its acceptance
    function last() external view returns (uint32 round, uint48 asOf, uint40 pushedAt);

    /// @notice Returns the root of a round; reverts if the round is not kept any more, was struck, or was never
    /// accepted.
    function rootOf(uint32 round) external view returns (bytes32 root);

    /// @notice Returns whether the last round is at most `limits().maxAgeSeconds` old, not counting pauses that began
    /// while it was.
    function isFresh() external view returns (bool);

    /// @notice Returns whether this oracle has expelled the node, whether or not the network has ended its membership,
    /// until it is readmitted or the expulsion ends (by default never).
    function isExpelled(address node) external view returns (bool);

    /// @notice Returns whether this node is accused and can still be kicked out. A network treats a node that leaves
    /// now as kicked out.
    function isKickPending(address node) external view returns (bool);
}
