// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Adapter} from "./Adapter.sol";
import {NodeAdapter} from "./NodeAdapter.sol";

/// @notice Task start in Crynux's commit contracts (2024).
interface ICommitNode {
    function startTask(address node) external;
}

/// @title Kick target for Crynux's commit contracts (2024; crynux-contracts a317516)
contract CommitTaskAdapter is NodeAdapter {
    constructor(address oracle, address firstOwner, address node, address qos, address task)
        Adapter(oracle, firstOwner)
        NodeAdapter(node, qos, task)
    {}

    function _start(address node) internal override {
        ICommitNode(address(NODE)).startTask(node);
    }
}
