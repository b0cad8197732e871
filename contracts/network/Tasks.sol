// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Floors} from "./Floors.sol";
import {Members} from "./Members.sol";

/// @title Storage of tasks and groups, and the effects of a task's end
/// @notice A task is open from its creation to its end; its fee is held here in that time. TaskOrders to Contests
/// decide when a task ends; this contract implements the effects on money, node and group.
abstract contract Tasks is Members, Floors {
    /// @notice State of a task; Succeeded and later have ended. Only in groups an answer is committed first, and
    /// submitted, or reported as an error, when it is revealed.
    enum Status {
        Unknown,
        Created,
        Queued,
        Started,
        Committed,
        Submitted,
        ErrorReported,
        Validated,
        Succeeded,
        Refunded,
        Invalidated,
        Aborted,
        TimedOut
    }

    /// @notice Why a task was aborted; the numbers are those of TaskAborted.
    enum Reason {
        None,
        Timeout,
        ModelDownloadFailed,
        IncorrectResult,
        FeeTooLow,
        Cancelled,
        GroupTimeout,
        ErrorReported,
        CreatorValidationTimeout,
        ResultUploadTimeout,
        Unknown
    }

    /// @notice State of a group. Contested: it was compared, and the result of a second group may slash its nodes that
    /// gave another answer or did not reveal. Lapsed: its creator cancelled it before the start, or did not have it
    /// compared in time; or it was dropped. GivenUp: it was not complete in time.
    enum GroupStanding {
        Unknown,
        Open,
        Contested,
        Validated,
        Lapsed,
        GivenUp
    }

    /// @param creator pays for the task and validates it
    /// @param place index of the task in its group, from 0
    /// @param status the task's state
    /// @param held whether the task has ended but its node's stake is still held for it: in a contest, or because the
    /// node did not reveal its answer and the group is not compared yet
    /// @param points sum of the points for its ranks among the commitments and among the reveals of its group
    /// @param createdAt unix seconds
    /// @param node the node on which the task was started, 0 = none
    /// @param startedAt unix seconds, 0 = not started
    /// @param finishedAt time of the answer or the commitment, unix seconds, 0 = none yet
    /// @param group 0 = none
    /// @param fee wei
    /// @param toll part of the fee that the creator loses at a timeout, a cancellation or in an undecided group, wei
    /// @param answer the commitment until it is revealed, then the answer; 0 = none or an error report
    /// @param requiredGpu keccak256 of the GPU's name, 0 = any
    /// @param requiredGpuVram GB
    /// @param minVram GB
    /// @param major version that the node must have, with minor and patch
    /// @param timeout seconds from the start; from the start on, the node's own timeout if that is shorter
    /// @param minTimeout minimum timeout of such a task at its creation, seconds; it takes precedence over a shorter
    /// timeout of the node
    /// @param serial number of tasks created before it
    struct Task {
        address creator;
        uint8 place;
        Status status;
        bool held;
        uint8 points;
        uint40 createdAt;
        address node;
        uint40 startedAt;
        uint40 finishedAt;
        bytes32 group;
        uint128 fee;
        uint128 toll;
        bytes32 answer;
        bytes32 requiredGpu;
        uint32 requiredGpuVram;
        uint32 minVram;
        uint16 major;
        uint16 minor;
        uint16 patch;
        uint32 timeout;
        uint32 minTimeout;
        uint64 serial;
    }

    /// @param standing the group's state
    /// @param size final number of its tasks
    /// @param created number of its tasks until now
    /// @param settled number of tasks whose answer was committed or that have ended
    /// @param shown number of tasks whose answer was revealed or that have ended
    /// @param commits number of commitments
    /// @param reveals number of reveals in time
    /// @param revealsFrom start of the reveals, when all tasks are settled or the group is given up; unix seconds, 0 = not
    /// yet
    /// @param readyAt time at which `shown` reached `size`, unix seconds, 0 = not yet
    /// @param contestedAt time at which it was contested, unix seconds, 0 = never
    /// @param latestDeadline last second for the answer of any of its started tasks, unix seconds, 0 = none was started
    /// @param decided whether the comparison found a majority
    /// @param byPoints whether its fee is shared by points; otherwise the fastest node gets all
    /// @param isSecond whether it repeats the work of `peer`
    /// @param peer the group that repeats this group's work, or whose work this group repeats; 0 = none
    /// @param orderHash hash of the order of its tasks
    /// @param verdict answer of the majority, if `decided`
    struct Group {
        GroupStanding standing;
        uint8 size;
        uint8 created;
        uint8 settled;
        uint8 shown;
        uint8 commits;
        uint8 reveals;
        uint40 revealsFrom;
        uint40 readyAt;
        uint40 contestedAt;
        uint40 latestDeadline;
        bool decided;
        bool isSecond;
        bool byPoints;
        bytes32 peer;
        bytes32 orderHash;
        bytes32 verdict;
    }

    /// @dev The widths of Task's and Group's fields, for _returnFields.
    bytes32 private immutable TASK_FIELDS = bytes32(bytes22(hex"140101010105940505a09010a0a08404020202040408"));
    bytes32 private immutable GROUP_FIELDS = bytes32(bytes17(hex"0101010101010105050505010101a0a0a0"));

    uint64 internal _taskCount;
    mapping(bytes32 => Task) internal _tasks;
    mapping(bytes32 => Group) internal _groups;

    /// @notice The task's status does not allow this call.
    error WrongStatus(bytes32 task, Status status);

    /// @notice The sender did not create the task.
    error NotCreator(bytes32 task, address sender);

    /// @notice The group's state does not allow this call; for example, it was compared or given up.
    error GroupClosed(bytes32 group);

    /// @notice The list does not contain each task of the group once.
    error WrongMembers(bytes32 group);

    /// @notice The task is in a group.
    error InGroup(bytes32 task, bytes32 group);

    // --- Views ---

    /// @notice Returns the key in events and calls of the task, or group, with the id `id` of `creator`.
    function keyOf(address creator, bytes32 id) public pure returns (bytes32) {
        return keccak256(abi.encode(creator, id));
    }

    /// @notice Returns the record of a task.
    function taskOf(bytes32 task) external view returns (Task calldata found) {
        Task storage kept = _tasks[task];
        uint256 slot;
        // Never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, TASK_FIELDS);
    }

    /// @notice Returns the record of a group.
    function groupOf(bytes32 group) external view returns (Group calldata found) {
        Group storage kept = _groups[group];
        uint256 slot;
        // Never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, GROUP_FIELDS);
    }

    // --- Internal functions ---

    function _own(bytes32 key) internal view returns (Task storage task) {
        task = _tasks[key];
        if (task.creator != msg.sender) revert NotCreator(key, msg.sender);
    }

    function _expect(bytes32 key, Status status) internal view returns (Task storage task) {
        task = _tasks[key];
        _requireStatus(task.status == status, key, task);
    }

    function _requireStatus(bool isAllowed, bytes32 key, Task storage task) internal view {
        if (!isAllowed) revert WrongStatus(key, task.status);
    }

    /// @dev Returns whether the task still waits for a node.
    function _isWaiting(Task storage task) internal view returns (bool) {
        return task.status == Status.Created || task.status == Status.Queued;
    }

    /// @dev Returns whether the node's answer, a result or an error report, is revealed and not judged.
    function _isAnswered(Task storage task) internal view returns (bool) {
        return task.status == Status.Submitted || task.status == Status.ErrorReported;
    }

    /// @dev Returns whether its node committed to an answer and timed out without revealing it, and its stake is held
    /// for it.
    function _isHidden(Task storage task) internal view returns (bool) {
        return task.held && task.status == Status.TimedOut;
    }

    /// @param group key of exactly these tasks' group
    /// @param size number of its tasks
    function _checkMembers(bytes32 group, uint8 size, bytes32[] calldata keys) internal view {
        if (keys.length != size) revert WrongMembers(group);
        uint256 seen = 0;
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.group != group) revert WrongMembers(group);
            seen |= 1 << task.place;
        }
        // There are as many different indexes as tasks, so no task is listed twice.
        if (seen != (1 << uint256(size)) - 1) revert WrongMembers(group);
    }

    /// @dev Returns whether no waiting task of the group can start: the group is closed, or so many of its tasks have
    /// ended that the others are no majority. While a task waits, no answer is revealed, so `shown` is the number of
    /// ended tasks.
    function _isDead(Group storage group) internal view returns (bool) {
        return group.standing != GroupStanding.Open || uint256(group.shown) * 2 >= group.size;
    }

    function _checkAlone(bytes32 key, Task storage task) internal view {
        if (task.group != 0) revert InGroup(key, task.group);
    }

    /// @dev Counts a group member whose answer was committed or whose task ended. When all members are counted, the
    /// answers may be revealed.
    function _settleMember(bytes32 key) internal {
        if (key == 0) return;
        Group storage group = _groups[key];
        if (++group.settled == group.size && group.revealsFrom == 0) group.revealsFrom = uint40(block.timestamp);
    }

    /// @dev Counts a group member whose answer was revealed or whose task ended. When all members are counted, the
    /// group is ready for the verdict.
    function _showMember(bytes32 key) internal {
        if (key == 0) return;
        Group storage group = _groups[key];
        if (++group.shown == group.size) group.readyAt = uint40(block.timestamp);
    }

    function _succeed(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Succeeded);
        emit TaskSucceeded(key, task.node);
        _credit(task.node, task.fee);
        _settle(task.node);
    }

    function _refund(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Refunded);
        emit TaskRefunded(key, task.node);
        _credit(task.creator, task.fee);
        _settle(task.node);
    }

    function _invalidate(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Invalidated);
        emit TaskInvalidated(key, task.node);
        _credit(task.creator, task.fee);
    }

    /// @dev The toll goes neither to the node, which would be paid for silence, nor to the other nodes of its group,
    /// which would gain by the silence. If a node does not reveal its answer, its stake is held until the comparison.
    function _timeOut(bytes32 key) internal {
        Task storage task = _tasks[key];
        bool hides = task.status == Status.Committed && _groups[task.group].standing == GroupStanding.Open;
        (, uint8 last) = _end(key, Status.TimedOut);
        if (hides) _hold(task);
        emit TaskTimedOut(key, task.node, last);
        _pay(task, treasury, task.creator);
        _settle(task.node);
    }

    /// @dev The toll goes to `tollTo`, the rest of the fee to `payee`.
    function _abort(bytes32 key, Reason reason, address tollTo, address payee) internal {
        address node = _endAborted(key, reason, tollTo, payee);
        if (node != address(0)) _settle(node);
    }

    /// @dev Holds the node's stake for the task from now on.
    function _hold(Task storage task) internal {
        task.held = true;
        _nodes[task.node].open += 1;
    }

    /// @dev Releases the node's stake from the task; the caller settles with the node.
    function _release(Task storage task) internal {
        task.held = false;
        _nodes[task.node].open -= 1;
    }

    /// @dev Aborts the node's running task without settling the node, whose membership the caller ends.
    function _abortRunning(address account) internal {
        bytes32 key = _nodes[account].task;
        if (key == 0) return;
        address creator = _tasks[key].creator;
        _endAborted(key, Reason.Cancelled, creator, creator);
    }

    /// @dev Takes the whole stake for a wrong result, even if the node has left since.
    /// @return stake wei, which the caller must credit
    function _slash(address account) internal returns (uint256 stake) {
        Node storage node = _nodes[account];
        stake = node.stake;
        node.stake = 0;
        if (_isIn(node)) {
            _abortRunning(account);
            _leave(account, Standing.Slashed);
            emit NodeSlashed(account, stake);
        } else if (stake != 0) {
            emit StakeForfeited(account, stake);
        }
    }

    function _endAborted(bytes32 key, Reason reason, address tollTo, address payee) private returns (address node) {
        (Task storage task, uint8 last) = _end(key, Status.Aborted);
        node = task.node;
        emit TaskAborted(key, node, uint8(reason), last);
        _pay(task, tollTo, payee);
    }

    function _pay(Task storage task, address tollTo, address payee) private {
        uint256 toll = tollTo == payee ? 0 : task.toll;
        _credit(tollTo, toll);
        _credit(payee, task.fee - toll);
    }

    /// @return task the task
    /// @return last its previous state, numbered as in the events: 0 = created; a committed answer counts as submitted
    function _end(bytes32 key, Status status) private returns (Task storage task, uint8 last) {
        task = _tasks[key];
        Status was = task.status;
        task.status = status;
        if (was == Status.Started) _nodes[task.node].task = 0;
        if (was > Status.Started) _nodes[task.node].open -= 1;
        else _settleMember(task.group);
        if (was <= Status.Committed) _showMember(task.group);
        last = uint8(was) - (was > Status.Committed ? 2 : 1);
    }
}
