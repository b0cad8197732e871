// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title What the oracle asks of the network
interface ITaskNetwork {
    /// @notice How many nodes are members now: joined, and neither quit, slashed nor kicked out. Paused ones count.
    function activeCount() external view returns (uint256);

    /// @notice Whether `node` is a member now.
    function isMember(address node) external view returns (bool);

    /// @notice Ends the membership of `node` for a lasting low score; only the oracle contract may call it.
    /// A task that it runs is aborted, its whole stake is credited to it for withdrawal, and no ether moves,
    /// so that no receiver can stand in the way. Reverts with NotMember when `node` is no member.
    /// @param node who is kicked out
    /// @param evidence hash of the public evidence, never zero; only passed on to the event
    function kickOut(address node, bytes32 evidence) external;
}
