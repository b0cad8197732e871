// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CrynuxNode} from "./crynux/CrynuxNode.sol";
import {ModelNodes} from "./crynux/ModelNodes.sol";
import {CrynuxQos} from "./CrynuxQos.sol";

/// @title Node contract of a network with validation groups, to test the profile `crynux-vss` and its adapter
/// @notice Selectors, events, texts, roles and the order of logs are those of Crynux's second generation
/// (crynux-contracts 0c10b81); the code was written for these tests. Only kickouts and slashes emit events. A node
/// proves its key when it joins, so no contract is a node, and its models are stored at every start and end of a task.
contract VssNode is CrynuxNode {
    using ModelNodes for ModelNodes.Nodes;

    struct GPUInfo {
        string name;
        uint256 vram;
    }

    struct NodeInfo {
        Status status;
        bytes32 gpuID;
        GPUInfo gpu;
        uint256 score;
        uint256[3] version;
        bytes publicKey;
        string[] lastModelIDs;
        string[] localModelIDs;
    }

    mapping(address => NodeInfo) private _infos;
    mapping(bytes32 => ModelNodes.Nodes) private _with;
    mapping(bytes32 => ModelNodes.Nodes) private _freeWith;

    error OwnableUnauthorizedAccount(address account);
    error OwnableInvalidOwner(address owner);

    constructor(CrynuxQos qos) CrynuxNode(qos) {}

    function join(
        string calldata gpuName,
        uint256 gpuVram,
        uint256[3] calldata version,
        bytes calldata publicKey,
        string[] calldata modelIDs
    ) external payable {
        require(publicKey.length == 64, "Invalid public key length");
        require(address(uint160(uint256(keccak256(publicKey)))) == msg.sender, "Public key mismatch");
        // For a member _join reverts, and all of this with it.
        NodeInfo storage info = _infos[msg.sender];
        info.gpuID = keccak256(abi.encodePacked(gpuName, gpuVram));
        info.gpu = GPUInfo(gpuName, gpuVram);
        info.version = version;
        info.publicKey = publicKey;
        info.localModelIDs = modelIDs;
        _join();
    }

    function updateVersion(uint256[3] calldata version) external {
        require(_statusOf(msg.sender) != Status.Quit, "Node has quitted");
        _infos[msg.sender].version = version;
    }

    function reportModelDownloaded(string calldata modelID) external {
        require(_statusOf(msg.sender) != Status.Quit, "Node has quitted");
        bytes32 model = keccak256(bytes(modelID));
        if (_with[model].has(msg.sender)) return;
        _with[model].add(msg.sender);
        _infos[msg.sender].localModelIDs.push(modelID);
    }

    function startTask(address nodeAddress, string[] calldata modelIDs) external {
        _begin(nodeAddress);
        _infos[nodeAddress].lastModelIDs = modelIDs;
    }

    function getNodeStatus(address nodeAddress) external view returns (Status) {
        return _statusOf(nodeAddress);
    }

    function getNodeInfo(address nodeAddress) external view returns (NodeInfo memory info) {
        info = _infos[nodeAddress];
        info.status = _statusOf(nodeAddress);
        info.score = _qos.getTaskScore(nodeAddress);
    }

    function nodeContainsModelID(address nodeAddress, string calldata modelID) external view returns (bool) {
        require(_statusOf(nodeAddress) != Status.Quit, "Node has quitted");
        return _with[keccak256(bytes(modelID))].has(nodeAddress);
    }

    function modelAvailableNodesCount(string calldata modelID) external view returns (uint256) {
        return _freeWith[keccak256(bytes(modelID))].list.length;
    }

    function _added(address nodeAddress) internal override {
        bytes32[] memory models = _models(nodeAddress);
        for (uint256 place; place < models.length; ++place) {
            _with[models[place]].add(nodeAddress);
        }
    }

    function _removed(address nodeAddress) internal override {
        bytes32[] memory models = _models(nodeAddress);
        for (uint256 place; place < models.length; ++place) {
            _with[models[place]].remove(nodeAddress);
        }
        delete _infos[nodeAddress];
    }

    function _freed(address nodeAddress) internal override {
        bytes32[] memory models = _models(nodeAddress);
        for (uint256 place; place < models.length; ++place) {
            _freeWith[models[place]].add(nodeAddress);
        }
    }

    function _taken(address nodeAddress) internal override {
        bytes32[] memory models = _models(nodeAddress);
        for (uint256 place; place < models.length; ++place) {
            _freeWith[models[place]].remove(nodeAddress);
        }
    }

    function _refuseCaller() internal view override {
        revert OwnableUnauthorizedAccount(msg.sender);
    }

    function _refuseOwner() internal pure override {
        revert OwnableInvalidOwner(address(0));
    }

    function _models(address nodeAddress) private view returns (bytes32[] memory models) {
        string[] storage names = _infos[nodeAddress].localModelIDs;
        models = new bytes32[](names.length);
        for (uint256 place; place < names.length; ++place) {
            models[place] = keccak256(bytes(names[place]));
        }
    }
}
