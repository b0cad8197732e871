// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Members} from "./Members.sol";

/// @title The book of tasks and groups, and how they end
/// @notice A task is open from its creation to its end; its fee lies here so long. How an end comes about is said
/// in TaskWork and TaskVerdicts; what an end does to money, node and group is said here, once.
abstract contract Tasks is Members {
    /// @notice Where a task stands; Succeeded and later have ended.
    enum Status {
        Unknown,
        Created,
        Queued,
        Started,
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

    /// @notice Whether a group still waits for its comparison.
    enum GroupStanding {
        Unknown,
        Open,
        Validated,
        Lapsed
    }

    /// @param creator who paid, and who validates
    /// @param place in its group, from 0
    /// @param status where it stands
    /// @param node who runs or ran it, 0 = nobody
    /// @param startedAt unix seconds, 0 = not started
    /// @param finishedAt when the result or the error report came, unix seconds, 0 = not yet
    /// @param group 0 = none
    /// @param fee wei
    /// @param resultHash 0 = none
    /// @param requiredGpu keccak256 of the GPU's name, 0 = any
    /// @param requiredGpuVram GB
    /// @param minVram GB
    /// @param major version that the node must have, with minor and patch
    /// @param timeout seconds from the start
    /// @param serial how many tasks were created before it
    struct Task {
        address creator;
        uint8 place;
        Status status;
        address node;
        uint40 startedAt;
        uint40 finishedAt;
        bytes32 group;
        uint256 fee;
        bytes32 resultHash;
        bytes32 requiredGpu;
        uint32 requiredGpuVram;
        uint32 minVram;
        uint16 major;
        uint16 minor;
        uint16 patch;
        uint32 timeout;
        uint64 serial;
    }

    /// @param standing where it stands
    /// @param size how many tasks it has in the end
    /// @param created how many it has now
    /// @param settled how many of them have an answer or have ended
    /// @param readyAt since when all have, unix seconds, 0 = not yet
    struct Group {
        GroupStanding standing;
        uint8 size;
        uint8 created;
        uint8 settled;
        uint40 readyAt;
    }

    uint64 internal _taskCount;
    mapping(bytes32 => Task) internal _tasks;
    mapping(bytes32 => Group) internal _groups;

    /// @notice The task is not where this needs it to be.
    error WrongStatus(bytes32 task, Status status);

    /// @notice The sender did not create the task.
    error NotCreator(bytes32 task, address sender);

    /// @notice The group was compared, or given up.
    error GroupClosed(bytes32 group);

    // --- What everybody may see ---

    /// @notice The name under which events speak of a task, or a group, that `creator` calls `id`.
    function keyOf(address creator, bytes32 id) public pure returns (bytes32) {
        return keccak256(abi.encode(creator, id));
    }

    /// @notice All that is kept of a task.
    function taskOf(bytes32 task) external view returns (Task memory) {
        return _tasks[task];
    }

    /// @notice All that is kept of a group.
    function groupOf(bytes32 group) external view returns (Group memory) {
        return _groups[group];
    }

    // --- Inside ---

    function _own(bytes32 key) internal view returns (Task storage task) {
        task = _tasks[key];
        if (task.creator != msg.sender) revert NotCreator(key, msg.sender);
    }

    function _expect(bytes32 key, Status status) internal view returns (Task storage task) {
        task = _tasks[key];
        if (task.status != status) revert WrongStatus(key, task.status);
    }

    /// @dev Whether it still waits for a node.
    function _isWaiting(Task storage task) internal view returns (bool) {
        return task.status == Status.Created || task.status == Status.Queued;
    }

    /// @dev Whether the node gave an answer, a result or an error report, and nobody has judged it.
    function _isAnswered(Task storage task) internal view returns (bool) {
        return task.status == Status.Submitted || task.status == Status.ErrorReported;
    }

    /// @dev One more member of the group needs no more waiting for.
    function _settleMember(bytes32 key) internal {
        if (key == 0) return;
        Group storage group = _groups[key];
        group.settled += 1;
        if (group.settled == group.size) group.readyAt = uint40(block.timestamp);
    }

    function _succeed(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Succeeded);
        emit TaskSucceeded(key, task.node);
        _credit(task.node, task.fee);
        _release(task.node);
    }

    function _refund(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Refunded);
        emit TaskRefunded(key, task.node);
        _credit(task.creator, task.fee);
        _release(task.node);
    }

    function _invalidate(bytes32 key) internal {
        (Task storage task,) = _end(key, Status.Invalidated);
        emit TaskInvalidated(key, task.node);
        _credit(task.creator, task.fee);
        _slash(task.node);
    }

    function _timeOut(bytes32 key) internal {
        (Task storage task, uint8 last) = _end(key, Status.TimedOut);
        emit TaskTimedOut(key, task.node, last);
        _credit(task.creator, task.fee);
        _release(task.node);
    }

    /// @dev The fee goes to `payee`. The node is not released here: kickOut() has other plans for it.
    function _abort(bytes32 key, Reason reason, address payee) internal returns (address node) {
        (Task storage task, uint8 last) = _end(key, Status.Aborted);
        node = task.node;
        emit TaskAborted(key, node, uint8(reason), last);
        _credit(payee, task.fee);
    }

    /// @return task the task
    /// @return last where it stood, counted as the events do: 0 = created
    function _end(bytes32 key, Status status) private returns (Task storage task, uint8 last) {
        task = _tasks[key];
        if (!_isAnswered(task)) _settleMember(task.group);
        last = uint8(task.status) - uint8(Status.Created);
        task.status = status;
    }
}
