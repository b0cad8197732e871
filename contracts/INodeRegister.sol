// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title What the network asks of the oracle
interface INodeRegister {
    /// @notice Gives a joining node its index: a new one at the first join; the same one again if no report has
    /// written its lane; else the old one is retired and a new one given. Only the network may call it; it works
    /// while the oracle is paused, so that nobody is kept from joining.
    /// @param node the node that joins
    /// @return index its index from now on
    function register(address node) external returns (uint256 index);
}
