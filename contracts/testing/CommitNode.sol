// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CrynuxNode} from "./crynux/CrynuxNode.sol";
import {CrynuxQos} from "./CrynuxQos.sol";

/// @title Node contract of a commit/disclose network, to test the profile `crynux-commit` and its adapter
/// @notice Selectors, events, texts, roles and the order of logs are those of Crynux's first generation
/// (crynux-contracts a317516); the code was written for these tests. Only kickouts and slashes emit events. A contract
/// may be a node.
contract CommitNode is CrynuxNode {
    constructor(CrynuxQos qos) CrynuxNode(qos) {}

    function join(string calldata gpuName, uint256 gpuVram) external payable {
        require(bytes(gpuName).length > 0 && gpuVram > 0, "GPU not given");
        _join();
    }

    function startTask(address nodeAddress) external {
        _begin(nodeAddress);
    }

    function getNodeStatus(address nodeAddress) external view returns (uint256) {
        return uint256(_statusOf(nodeAddress));
    }

    function _refuseCaller() internal pure override {
        revert("Ownable: caller is not the owner");
    }

    function _refuseOwner() internal pure override {
        revert("Ownable: new owner is the zero address");
    }
}
