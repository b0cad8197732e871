// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {ITaskNetwork} from "../ITaskNetwork.sol";

/// @title An oracle without scores: numbers the nodes as they join, and kicks out whom it is told to
/// @notice Only for tests of the network.
contract PlainOracle {
    /// @notice How often each node has joined.
    mapping(address node => uint256 times) public joins;

    uint256 private _count;

    /// @notice Numbers a node.
    function register(address node) external returns (uint256 index) {
        joins[node] += 1;
        index = _count++;
    }

    /// @notice Kicks a node out of a network.
    function kick(ITaskNetwork network, address node, bytes32 evidence) external {
        network.kickOut(node, evidence);
    }
}
