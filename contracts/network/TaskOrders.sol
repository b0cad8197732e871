// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Creating, queueing, cancelling and dropping tasks
abstract contract TaskOrders is Tasks {
    /// @notice Order of a task; units as in TaskCreated.
    /// @param id chosen by the creator, which has never used it before
    /// @param groupId chosen by the creator, 0 = no group
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

    /// @dev Maximum timeout of a task, seconds.
    uint32 internal constant MAX_TIMEOUT = 1 days;

    /// @notice Seconds of waiting after which a task is cancelled without a toll.
    uint256 public constant CANCEL_WAIT = 1 days;

    /// @dev Maximum tasks of a group.
    uint8 internal constant MAX_GROUP = 16;

    /// @notice The creator has used this id before.
    error TaskExists(bytes32 task);

    /// @notice The size is 0.
    error BadSize();

    /// @notice The timeout is below the minimum, leastTimeout(kind, size), or above MAX_TIMEOUT.
    error BadTimeout(uint32 timeout, uint256 least);

    /// @notice The fee is below the minimum, leastFee(kind, size).
    error FeeTooLow(uint256 fee, uint256 least);

    /// @notice The group size is not 2 to MAX_GROUP, differs from the group's first task, or is not 0 without a group.
    error BadGroupSize(uint8 size);

    /// @notice The order differs from those of the group's other tasks.
    error OrderDiffers(bytes32 group);

    /// @notice The group already has all its tasks.
    error GroupFull(bytes32 group);

    /// @notice The reason is neither Timeout (1) nor FeeTooLow (4).
    error BadReason(uint8 reason);

    /// @notice A task of the group was started: the group can no longer be cancelled or dropped.
    error GroupRuns(bytes32 group);

    // --- Creator calls ---

    /// @notice Creates a task with the ether sent as its fee; if the task times out, the minimum fee is lost.
    /// @return key the task's key in the events
    function createTask(Order calldata order) external payable returns (bytes32 key) {
        return _create(order, order.id, msg.value);
    }

    /// @notice Cancels a task that was not started on a node. The creator loses the toll, unless the task waited for more
    /// than CANCEL_WAIT: a creator that cancels to get another draw pays for each draw. A task of a group can be
    /// cancelled only if it can never start; this costs no toll.
    function cancelTask(bytes32 key) external {
        Task storage task = _own(key);
        bool isAlone = _checkTakeable(key, task);
        _cancel(key, task, Reason.Cancelled, isAlone);
    }

    /// @notice Cancels a whole group of which no task was started; each task costs the same as in cancelTask.
    /// @param keys keys of all tasks that the group has until now, and of no others, in any order
    function cancelGroup(bytes32[] calldata keys) external {
        // All tasks of a group have the same creator.
        if (keys.length != 0) _own(keys[0]);
        _takeBack(keys, Reason.Cancelled);
    }

    // --- Dispatcher calls ---

    /// @notice Marks a task as queued, because no node is free for it.
    function queueTask(bytes32 key) external onlyDispatcher {
        _expect(key, Status.Created).status = Status.Queued;
        emit TaskQueued(key);
    }

    /// @notice Aborts a task that was not started on a node: it waited too long (reason 1), or it pays too little (4). A
    /// task of a group can be dropped only if it can never start.
    function dropTask(bytes32 key, uint8 reason) external onlyDispatcher {
        Task storage task = _tasks[key];
        _checkTakeable(key, task);
        _cancel(key, task, _dropReason(reason), false);
    }

    /// @notice Aborts all tasks of a group of which no task was started.
    /// @param keys keys of exactly the tasks that the group has until now, in any order
    function dropGroup(bytes32[] calldata keys, uint8 reason) external onlyDispatcher {
        _takeBack(keys, _dropReason(reason));
    }

    // --- Internal functions ---

    function _dropReason(uint8 reason) private pure returns (Reason) {
        if (reason != uint8(Reason.Timeout) && reason != uint8(Reason.FeeTooLow)) revert BadReason(reason);
        return Reason(reason);
    }

    /// @dev Reverts unless the task waits and may end on its own: it is in no group, or its group can never start it.
    function _checkTakeable(bytes32 key, Task storage task) private view returns (bool isAlone) {
        _requireStatus(_isWaiting(task), key, task);
        isAlone = task.group == 0;
        if (!isAlone && !_isDead(_groups[task.group])) revert InGroup(key, task.group);
    }

    function _cancel(bytes32 key, Task storage task, Reason reason, bool costs) private {
        costs = costs && block.timestamp <= uint256(task.createdAt) + CANCEL_WAIT;
        _abort(key, reason, costs ? treasury : task.creator, task.creator);
    }

    function _takeBack(bytes32[] calldata keys, Reason reason) private {
        bytes32 key = keys.length == 0 ? bytes32(0) : _tasks[keys[0]].group;
        if (key == 0) revert WrongMembers(key);
        Group storage group = _groups[key];
        if (group.standing != GroupStanding.Open) revert GroupClosed(key);
        if (group.latestDeadline != 0) revert GroupRuns(key);
        _checkMembers(key, group.created, keys);
        group.standing = GroupStanding.Lapsed;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 member = keys[i];
            _cancel(member, _tasks[member], reason, reason == Reason.Cancelled);
        }
    }

    /// @param id task id; replaces the id in the order
    /// @param fee in wei, already received
    function _create(Order calldata order, bytes32 id, uint256 fee) internal returns (bytes32 key) {
        key = keyOf(msg.sender, id);
        if (_tasks[key].status != Status.Unknown) revert TaskExists(key);
        uint256 minTimeout = _checkOrder(order);
        uint256 toll = leastFee(order.kind, order.size);
        if (fee < toll) revert FeeTooLow(fee, toll);
        bytes32 group = order.groupId == 0 ? bytes32(0) : keyOf(msg.sender, order.groupId);
        uint8 place = _joinGroup(group, order);
        _write(key, order, group, place);
        // No chain has 2^128 wei.
        (_tasks[key].fee, _tasks[key].toll) = (uint128(fee), uint128(toll));
        // At most the order's timeout.
        _tasks[key].minTimeout = uint32(minTimeout);
        _announce(key, order, group, fee);
    }

    /// @return least minimum timeout of the order
    function _checkOrder(Order calldata order) private view returns (uint256 least) {
        if (order.kind > LAST_KIND) revert BadKind(order.kind);
        if (order.size == 0) revert BadSize();
        least = leastTimeout(order.kind, order.size);
        if (order.timeout < least || order.timeout > MAX_TIMEOUT) revert BadTimeout(order.timeout, least);
        if (bytes(order.requiredGpu).length != 0) _checkName(order.requiredGpu);
        _checkModels(order.models);
    }

    /// @dev Adds a task to its group.
    /// @return place index of the task in the group, from 0
    function _joinGroup(bytes32 groupKey, Order calldata order) private returns (uint8 place) {
        uint8 size = order.groupSize;
        if (groupKey == 0) {
            if (size != 0) revert BadGroupSize(size);
            return 0;
        }
        Group storage group = _groups[groupKey];
        bytes32 orderHash = _hashOf(order);
        if (group.standing == GroupStanding.Unknown) {
            if (size < 2 || size > MAX_GROUP) revert BadGroupSize(size);
            (group.standing, group.size, group.orderHash) = (GroupStanding.Open, size, orderHash);
            group.byPoints = paysByPoints;
        }
        if (group.standing != GroupStanding.Open) revert GroupClosed(groupKey);
        if (size != group.size) revert BadGroupSize(size);
        if (orderHash != group.orderHash) revert OrderDiffers(groupKey);
        place = group.created;
        if (place == size) revert GroupFull(groupKey);
        group.created = place + 1;
    }

    /// @dev Hashes everything that a node needs for the work, except the ids.
    function _hashOf(Order calldata order) private pure returns (bytes32) {
        bytes32 machine = keccak256(
            abi.encode(order.minVram, order.requiredGpu, order.requiredGpuVram, order.models)
        );
        return keccak256(
            abi.encode(machine, order.kind, order.major, order.minor, order.patch, order.size, order.timeout)
        );
    }

    function _write(bytes32 key, Order calldata order, bytes32 group, uint8 place) private {
        Task storage task = _tasks[key];
        (task.creator, task.place, task.status) = (msg.sender, place, Status.Created);
        (task.createdAt, task.group) = (uint40(block.timestamp), group);
        if (bytes(order.requiredGpu).length != 0) task.requiredGpu = keccak256(bytes(order.requiredGpu));
        (task.requiredGpuVram, task.minVram) = (order.requiredGpuVram, order.minVram);
        (task.major, task.minor, task.patch) = (order.major, order.minor, order.patch);
        (task.timeout, task.serial) = (order.timeout, _taskCount);
        _taskCount += 1;
    }

    function _announce(bytes32 key, Order calldata order, bytes32 group, uint256 fee) private {
        emit TaskCreated(
            key,
            msg.sender,
            group,
            fee,
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
}
