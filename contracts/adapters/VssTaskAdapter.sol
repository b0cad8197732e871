// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Adapter} from "./Adapter.sol";
import {NodeAdapter} from "./NodeAdapter.sol";

/// @notice Task start in Crynux's VSSTask contracts (2025).
interface IVssNode {
    function startTask(address node, string[] calldata modelIDs) external;
}

/// @title Kick target for Crynux's VSSTask contracts (2025; crynux-contracts 0c10b81)
contract VssTaskAdapter is NodeAdapter {
    constructor(address oracle, address firstOwner, address node, address qos, address task)
        Adapter(oracle, firstOwner)
        NodeAdapter(node, qos, task)
    {}

    function _start(address node) internal override {
        IVssNode(address(NODE)).startTask(node, new string[](0));
    }
}
