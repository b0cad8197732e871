// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {AsOfBlock, IArbSys} from "../oracle/AsOfBlock.sol";
import {Tasks} from "./Tasks.sol";

/// @title From the creation of a task to the node's answer
abstract contract TaskWork is Tasks {
    /// @notice What a creator asks for; units as in TaskCreated.
    /// @param id the creator's own, never used by it before
    /// @param groupId the creator's own, 0 = no group
    /// @param groupSize 2 to MAX_GROUP, the same for all tasks of the group; 0 = no group
    struct Order {
        bytes32 id;
        bytes32 groupId;
        uint8 groupSize;
        uint8 kind;
        uint32 minVram;
        string requiredGpu;
        uint32 requiredGpuVram;
        string[] models;
        uint16 major;
        uint16 minor;
        uint16 patch;
        uint32 size;
        uint32 timeout;
    }

    /// @notice Longest time that a task may give a node, seconds.
    uint32 public constant MAX_TIMEOUT = 1 days;

    /// @notice Most tasks of one group.
    uint8 public constant MAX_GROUP = 16;

    uint8 private constant LAST_KIND = 2;

    /// @dev Where the hashes of blocks come from.
    bool private immutable ON_ARBITRUM;

    /// @dev Whether the node was given a task of the group: nobody gives a second opinion on its own result.
    mapping(bytes32 group => mapping(address node => bool)) private _tookPart;

    /// @notice The creator has used this id before.
    error TaskExists(bytes32 task);

    /// @notice The kind is none of TaskCreated's.
    error BadKind(uint8 kind);

    /// @notice The size is 0.
    error BadSize();

    /// @notice The timeout is 0 or above MAX_TIMEOUT.
    error BadTimeout(uint32 timeout);

    /// @notice The size is not 2 to MAX_GROUP, not that of the group's first task, or not 0 without a group.
    error BadGroupSize(uint8 size);

    /// @notice The group has all its tasks.
    error GroupFull(bytes32 group);

    /// @notice The node has a task.
    error NodeBusy(address node, bytes32 task);

    /// @notice The node is paused.
    error NodeIsPaused(address node);

    /// @notice The oracle does not let the node be selected.
    error NotSelectable(address node);

    /// @notice The node's GPU or its memory is not what the task requires.
    error WrongGpu(address node, bytes32 task);

    /// @notice The node's version is not compatible with the task's.
    error WrongVersion(address node, bytes32 task);

    /// @notice The node was given another task of the group.
    error TookPart(address node, bytes32 group);

    /// @notice The task is not with this node.
    error NotItsTask(address sender, bytes32 task);

    /// @notice 0 is not the hash of a result.
    error ZeroResult();

    /// @notice The node's time was over at `deadline`; an answer counts up to and with that second.
    error TooLate(bytes32 task, uint256 deadline);

    /// @notice The node has time up to and with `deadline`.
    error TooEarly(bytes32 task, uint256 deadline);

    /// @notice A task is dropped for Timeout or FeeTooLow.
    error BadReason(uint8 reason);

    /// @notice The block of the draw has not passed yet.
    error StaleAsOf(uint256 asOf);

    /// @notice The chain does not tell the hash of the block of the draw any more.
    error AsOfTooOld(uint256 asOf);

    /// @notice The block of the draw has another hash here, `found`: it was reorged.
    error Reorged(uint256 asOf, bytes32 asOfHash, bytes32 found);

    /// @dev Only an Arbitrum chain answers this question at that address.
    constructor() {
        (bool answered, bytes memory answer) = address(100).staticcall(abi.encodeCall(IArbSys.arbBlockNumber, ()));
        ON_ARBITRUM = answered && answer.length == 32;
    }

    // --- The creator ---

    /// @notice Creates a task with the ether sent as its fee.
    /// @return key the task's name in the events
    function createTask(Order calldata order) external payable returns (bytes32 key) {
        key = keyOf(msg.sender, order.id);
        if (_tasks[key].status != Status.Unknown) revert TaskExists(key);
        _checkOrder(order);
        bytes32 group = order.groupId == 0 ? bytes32(0) : keyOf(msg.sender, order.groupId);
        uint8 place = _enrol(group, order.groupSize);
        _write(key, order, group, place);
        _announce(key, order, group);
    }

    /// @notice Takes back a task that no node has; the fee is credited to the creator.
    function cancelTask(bytes32 key) external {
        Task storage task = _own(key);
        if (!_isWaiting(task)) revert WrongStatus(key, task.status);
        _abort(key, Reason.Cancelled, task.creator);
    }

    // --- The dispatcher ---

    /// @notice Says that no node is free for the task.
    function queueTask(bytes32 key) external onlyDispatcher {
        _expect(key, Status.Created).status = Status.Queued;
        emit TaskQueued(key);
    }

    /// @notice Aborts a task that no node has: it waited too long (1), or it pays too little (4).
    function dropTask(bytes32 key, uint8 reason) external onlyDispatcher {
        Task storage task = _tasks[key];
        if (!_isWaiting(task)) revert WrongStatus(key, task.status);
        if (reason != uint8(Reason.Timeout) && reason != uint8(Reason.FeeTooLow)) revert BadReason(reason);
        _abort(key, Reason(reason), task.creator);
    }

    /// @notice Gives the task to a node that can run it.
    function startTask(bytes32 key, address account) external onlyDispatcher {
        _start(key, account);
    }

    /// @notice Gives the task to the node that was drawn for it by the hash of an earlier block. It fails where that
    /// block is not of this chain, so that a draw never outlives a reorg; anyone can then draw again from TaskDrawn.
    /// @param asOf the block, at most 8191 back (256 where the chain has no history contract, and on Arbitrum)
    /// @param asOfHash its hash, as the draw took it
    function startTaskAsOf(bytes32 key, address account, uint256 asOf, bytes32 asOfHash) external onlyDispatcher {
        _checkAsOf(asOf, asOfHash);
        emit TaskDrawn(key, account, asOf);
        _start(key, account);
    }

    // --- The node ---

    /// @notice Answers with the hash of the result, in time.
    function submitResult(bytes32 key, bytes32 resultHash) external {
        if (resultHash == 0) revert ZeroResult();
        _answer(key, Status.Submitted).resultHash = resultHash;
        emit TaskSubmitted(key, msg.sender, resultHash);
    }

    /// @notice Answers, in time, that the task cannot be run.
    function reportError(bytes32 key) external {
        _answer(key, Status.ErrorReported);
        emit TaskErrorReported(key, msg.sender);
    }

    // --- Anyone ---

    /// @notice Ends a task whose node did not answer in time; the fee is credited to the creator.
    function timeOutTask(bytes32 key) external {
        uint256 deadline = _deadline(_expect(key, Status.Started));
        if (block.timestamp <= deadline) revert TooEarly(key, deadline);
        _timeOut(key);
    }

    // --- Inside ---

    function _start(bytes32 key, address account) private {
        Task storage task = _tasks[key];
        if (!_isWaiting(task)) revert WrongStatus(key, task.status);
        Node storage node = _member(account);
        if (node.task != 0) revert NodeBusy(account, node.task);
        if (node.standing == Standing.Paused) revert NodeIsPaused(account);
        if (!_isSelectable(account)) revert NotSelectable(account);
        _checkFit(key, task, account, node);
        _takePart(task.group, account);
        (task.status, task.node, task.startedAt) = (Status.Started, account, uint40(block.timestamp));
        node.task = key;
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

    function _checkOrder(Order calldata order) private pure {
        if (order.kind > LAST_KIND) revert BadKind(order.kind);
        if (order.size == 0) revert BadSize();
        if (order.timeout == 0 || order.timeout > MAX_TIMEOUT) revert BadTimeout(order.timeout);
        if (bytes(order.requiredGpu).length != 0) _checkName(order.requiredGpu);
        _checkModels(order.models);
    }

    /// @dev One more task of the group.
    /// @return place of the task in it, from 0
    function _enrol(bytes32 key, uint8 size) private returns (uint8 place) {
        if (key == 0) {
            if (size != 0) revert BadGroupSize(size);
            return 0;
        }
        Group storage group = _groups[key];
        if (group.standing == GroupStanding.Unknown) {
            if (size < 2 || size > MAX_GROUP) revert BadGroupSize(size);
            (group.standing, group.size) = (GroupStanding.Open, size);
        }
        if (group.standing != GroupStanding.Open) revert GroupClosed(key);
        if (size != group.size) revert BadGroupSize(size);
        place = group.created;
        if (place == size) revert GroupFull(key);
        group.created = place + 1;
    }

    function _write(bytes32 key, Order calldata order, bytes32 group, uint8 place) private {
        Task storage task = _tasks[key];
        (task.creator, task.place, task.status) = (msg.sender, place, Status.Created);
        (task.group, task.fee) = (group, msg.value);
        if (bytes(order.requiredGpu).length != 0) task.requiredGpu = keccak256(bytes(order.requiredGpu));
        (task.requiredGpuVram, task.minVram) = (order.requiredGpuVram, order.minVram);
        (task.major, task.minor, task.patch) = (order.major, order.minor, order.patch);
        (task.timeout, task.serial) = (order.timeout, _taskCount);
        _taskCount += 1;
    }

    function _announce(bytes32 key, Order calldata order, bytes32 group) private {
        emit TaskCreated(
            key,
            msg.sender,
            group,
            msg.value,
            order.kind,
            order.minVram,
            order.requiredGpu,
            order.requiredGpuVram,
            order.models,
            order.major,
            order.minor,
            order.patch,
            order.size,
            order.timeout,
            order.groupSize
        );
    }

    /// @dev A named GPU must be there exactly, name and memory; without a name the memory must suffice.
    function _checkFit(bytes32 key, Task storage task, address account, Node storage node) private view {
        bool fits = task.requiredGpu == 0
            ? node.gpuVram >= task.minVram
            : node.gpuName == task.requiredGpu && node.gpuVram == task.requiredGpuVram;
        if (!fits) revert WrongGpu(account, key);
        bool later = node.minor == task.minor ? node.patch >= task.patch : node.minor > task.minor;
        if (node.major != task.major || !later) revert WrongVersion(account, key);
    }

    function _takePart(bytes32 key, address account) private {
        if (key == 0) return;
        if (_groups[key].standing != GroupStanding.Open) revert GroupClosed(key);
        if (_tookPart[key][account]) revert TookPart(account, key);
        _tookPart[key][account] = true;
    }

    function _answer(bytes32 key, Status status) private returns (Task storage task) {
        task = _expect(key, Status.Started);
        if (task.node != msg.sender) revert NotItsTask(msg.sender, key);
        uint256 deadline = _deadline(task);
        if (block.timestamp > deadline) revert TooLate(key, deadline);
        (task.status, task.finishedAt) = (status, uint40(block.timestamp));
        _settleMember(task.group);
    }

    function _deadline(Task storage task) private view returns (uint256) {
        return uint256(task.startedAt) + task.timeout;
    }
}
