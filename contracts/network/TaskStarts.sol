// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {AsOfBlock, IArbSys} from "../roots/core/AsOfBlock.sol";
import {Tasks} from "./Tasks.sol";

/// @title Starting tasks on nodes
/// @notice The dispatcher chooses the node; the contract checks it: a member that has no task, fits, and is selectable
/// for the oracle. A group starts when all its tasks exist, so that no node waits for tasks that are never ordered.
abstract contract TaskStarts is Tasks {
    /// @dev Source of block hashes.
    bool private immutable ON_ARBITRUM;

    /// @dev Whether a task of the group was started on the node: no node gives a second opinion on its own result.
    mapping(bytes32 group => mapping(address node => bool)) private _tookPart;

    /// @notice The group has `created` of its `size` tasks; it can start when all tasks are created.
    error GroupIncomplete(uint8 created, uint8 size);

    /// @notice The node has a task.
    error NodeBusy(address node, bytes32 task);

    /// @notice The node is paused.
    error NodeIsPaused(address node);

    /// @notice The oracle returns that the node is not selectable.
    error NotSelectable(address node);

    /// @notice The node's GPU or GPU memory does not meet the task's requirements.
    error WrongGpu(address node, bytes32 task);

    /// @notice The node's version is not compatible with the task's.
    error WrongVersion(address node, bytes32 task);

    /// @notice The node already got another task of this group, or a task of the group whose work is repeated.
    error TookPart(address node, bytes32 group);

    /// @notice The block of the draw is not in the past.
    error StaleAsOf(uint256 asOf);

    /// @notice The hash of the block of the draw is no longer available on the chain.
    error AsOfTooOld(uint256 asOf);

    /// @notice The block of the draw has another hash here, `found`: it was reorged.
    error Reorged(uint256 asOf, bytes32 asOfHash, bytes32 found);

    /// @dev Only an Arbitrum chain returns a block number from that address.
    constructor() {
        (bool answered, bytes memory answer) = address(100).staticcall(abi.encodeCall(IArbSys.arbBlockNumber, ()));
        ON_ARBITRUM = answered && answer.length == 32;
    }

    /// @notice Starts the task on a node that can run it.
    function startTask(bytes32 key, address account) external onlyDispatcher {
        _start(key, account);
    }

    /// @notice Starts the task on the node that was drawn for it by the hash of an earlier block. Reverts if that block
    /// is not of this chain, so that a draw never survives a reorg; anyone can verify the draw from TaskDrawn.
    /// @param asOf the block, at most 8191 back (256 if the chain has no history contract, and on Arbitrum)
    /// @param asOfHash its hash, as used for the draw
    function startTaskAsOf(bytes32 key, address account, uint256 asOf, bytes32 asOfHash) external onlyDispatcher {
        _checkAsOf(asOf, asOfHash);
        emit TaskDrawn(key, account, asOf);
        _start(key, account);
    }

    /// @notice Starts every task of a group on the node that was drawn for it by the hash of an earlier block. Reverts
    /// if a task cannot start, or the block is not of this chain.
    /// @param keys all the group's tasks
    /// @param accounts their nodes, in the order of the tasks
    /// @param asOf the block, as far back as with startTaskAsOf; 0: no block is checked, as with startTask
    /// @param asOfHash its hash, as used for the draw
    function startGroup(bytes32[] calldata keys, address[] calldata accounts, uint256 asOf, bytes32 asOfHash)
        external
        onlyDispatcher
    {
        if (asOf != 0) _checkAsOf(asOf, asOfHash);
        bytes32 group = keys.length == 0 ? bytes32(0) : _tasks[keys[0]].group;
        if (group == 0 || accounts.length != keys.length) revert WrongMembers(group);
        _checkMembers(group, _groups[group].size, keys);
        // Everything that a node can change by itself is checked before anything is written: a member that pauses first
        // must not cost the dispatcher the starts of the others.
        for (uint256 i = 0; i < keys.length; ++i) {
            _checkStart(keys[i], accounts[i]);
        }
        emit GroupStarted(group, keys, accounts);
        for (uint256 i = 0; i < keys.length; ++i) {
            // A node that is listed twice reverts here with TookPart.
            (bytes32 key, address account) = (keys[i], accounts[i]);
            if (asOf != 0) emit TaskDrawn(key, account, asOf);
            _give(key, account);
        }
    }

    // --- Internal functions ---

    function _start(bytes32 key, address account) internal {
        _checkStart(key, account);
        _give(key, account);
    }

    /// @dev Returns the member; reverts if it has a task or a pending quit, or is paused.
    function _requireIdleMember(address account) internal view returns (Node storage node) {
        node = _member(account);
        if (node.task != 0) revert NodeBusy(account, node.task);
        if (node.quits) revert QuitPending(account);
        if (node.standing == Standing.Paused) revert NodeIsPaused(account);
    }

    function _give(bytes32 key, address account) private {
        Task storage task = _tasks[key];
        if (!_isSelectable(account)) revert NotSelectable(account);
        uint32 own = type(uint32).max - _nodes[account].lessTime;
        // A node's own timeout below the minimum would end tasks at once, and their creators would lose the toll.
        if (own < task.minTimeout) own = task.minTimeout;
        if (own < task.timeout) task.timeout = own;
        (task.status, task.node, task.startedAt) = (Status.Started, account, uint40(block.timestamp));
        _takePart(task.group, account, uint40(block.timestamp) + task.timeout);
        _nodes[account].task = key;
        emit TaskStarted(key, account);
    }

    function _checkAsOf(uint256 asOf, bytes32 asOfHash) private view {
        uint256 current = AsOfBlock.current(ON_ARBITRUM);
        if (asOf >= current) revert StaleAsOf(asOf);
        if (current - asOf > (ON_ARBITRUM ? AsOfBlock.NEAR : AsOfBlock.FAR)) revert AsOfTooOld(asOf);
        bytes32 found = AsOfBlock.hashOf(asOf, ON_ARBITRUM);
        if (found == 0) revert AsOfTooOld(asOf);
        if (found != asOfHash) revert Reorged(asOf, asOfHash, found);
    }

    /// @dev If the task names a GPU, name and memory must match exactly; otherwise the node's memory must suffice.
    function _checkStart(bytes32 key, address account) private view {
        Task storage task = _tasks[key];
        _requireStatus(_isWaiting(task), key, task);
        Node storage node = _requireIdleMember(account);
        bool fits = task.requiredGpu == 0
            ? node.gpuVram >= task.minVram
            : node.gpuName == task.requiredGpu && node.gpuVram == task.requiredGpuVram;
        if (!fits) revert WrongGpu(account, key);
        bool later = node.minor == task.minor ? node.patch >= task.patch : node.minor > task.minor;
        if (node.major != task.major || !later) revert WrongVersion(account, key);
    }

    function _takePart(bytes32 key, address account, uint40 deadline) private {
        if (key == 0) return;
        Group storage group = _groups[key];
        if (_isDead(group)) revert GroupClosed(key);
        if (group.created != group.size) revert GroupIncomplete(group.created, group.size);
        if (_tookPart[key][account]) revert TookPart(account, key);
        if (_tookPart[group.peer][account]) revert TookPart(account, group.peer);
        _tookPart[key][account] = true;
        if (deadline > group.latestDeadline) group.latestDeadline = deadline;
    }
}
