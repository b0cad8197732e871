// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Floors} from "./Floors.sol";
import {Members} from "./Members.sol";

/// @title The book of tasks and groups, and how they end
/// @notice A task is open from its creation to its end; its fee lies here so long. How an end comes about is said
/// in TaskOrders to Contests; what an end does to money, node and group is said here, once.
abstract contract Tasks is Members, Floors {
    /// @notice Where a task stands; Succeeded and later have ended. In groups alone, an answer is committed first and
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

    /// @notice Whether a group still waits for its comparison. Contested: it was compared, and the nodes that gave another
    /// answer than most, or did not reveal theirs, may be slashed by what a second group says. Lapsed: its creator
    /// cancelled it before the start, or did not have it compared in time. GivenUp: it was not complete in time.
    enum GroupStanding {
        Unknown,
        Open,
        Contested,
        Validated,
        Lapsed,
        GivenUp
    }

    /// @param creator who paid, and who validates
    /// @param place in its group, from 0
    /// @param status where it stands
    /// @param held it has ended, and its node's stake still answers for it in a contest; or it timed out because its
    /// node did not reveal, and its group is not compared yet
    /// @param points what its places among the commitments and among the reveals of its group are worth
    /// @param createdAt unix seconds
    /// @param node who runs or ran it, 0 = nobody
    /// @param startedAt unix seconds, 0 = not started
    /// @param finishedAt when the answer or the commitment came, unix seconds, 0 = not yet
    /// @param group 0 = none
    /// @param fee wei
    /// @param toll what of the fee the creator loses at a timeout, a cancellation or in an undecided group, wei
    /// @param answer the commitment while it is Committed, or where it was not revealed; then the answer, 0 = none or an
    /// error report
    /// @param requiredGpu keccak256 of the GPU's name, 0 = any
    /// @param requiredGpuVram GB
    /// @param minVram GB
    /// @param major version that the node must have, with minor and patch
    /// @param timeout seconds from the start; when it has started, the node's own where that is less
    /// @param minTimeout seconds, the least timeout of the day of its creation: the node's own is no shorter for it
    /// @param serial how many tasks were created before it
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

    /// @param standing where it stands
    /// @param size how many tasks it has in the end
    /// @param created how many it has now
    /// @param settled how many of them are committed or have ended
    /// @param shown how many of them are revealed or have ended
    /// @param commits how many of its answers were committed to
    /// @param reveals how many of them were revealed in time
    /// @param revealsFrom since when all are settled, or the group is given up: now its nodes reveal; 0 = not yet
    /// @param readyAt since when all are shown, unix seconds, 0 = not yet
    /// @param contestedAt when it was contested, unix seconds, 0 = never
    /// @param latestDeadline last second for the answer of any of its tasks that were started, unix seconds, 0 = none was
    /// @param decided the comparison found a majority
    /// @param byPoints its fee is shared by points; else the fastest takes all
    /// @param isSecond it does the work of `peer` over again
    /// @param peer the group that does this one's work over again, or whose work this one does; 0 = none
    /// @param orderHash of what each of its tasks asks for
    /// @param verdict what the majority answered, where decided
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

    /// @dev The widths of Task's and Group's fields, as _returnFields takes them.
    bytes32 private constant TASK_FIELDS = bytes32(bytes22(hex"140101010105940505a09010a0a08404020202040408"));
    bytes32 private constant GROUP_FIELDS = bytes32(bytes17(hex"0101010101010105050505010101a0a0a0"));

    uint64 internal _taskCount;
    mapping(bytes32 => Task) internal _tasks;
    mapping(bytes32 => Group) internal _groups;

    /// @notice The task is not where this needs it to be.
    error WrongStatus(bytes32 task, Status status);

    /// @notice The sender did not create the task.
    error NotCreator(bytes32 task, address sender);

    /// @notice The group was compared, or given up.
    error GroupClosed(bytes32 group);

    /// @notice The list does not name each task of the group once.
    error WrongMembers(bytes32 group);

    /// @notice The task is in a group.
    error InGroup(bytes32 task, bytes32 group);

    // --- What everybody may see ---

    /// @notice The name under which events speak of a task, or a group, that `creator` calls `id`.
    function keyOf(address creator, bytes32 id) public pure returns (bytes32) {
        return keccak256(abi.encode(creator, id));
    }

    /// @notice All that is kept of a task.
    function taskOf(bytes32 task) external view returns (Task calldata found) {
        Task storage kept = _tasks[task];
        uint256 slot;
        // It is never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, TASK_FIELDS);
    }

    /// @notice All that is kept of a group.
    function groupOf(bytes32 group) external view returns (Group calldata found) {
        Group storage kept = _groups[group];
        uint256 slot;
        // It is never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, GROUP_FIELDS);
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

    /// @dev Whether the node's answer, a result or an error report, is known, and nobody has judged it.
    function _isAnswered(Task storage task) internal view returns (bool) {
        return task.status == Status.Submitted || task.status == Status.ErrorReported;
    }

    /// @dev Whether its node committed to an answer and timed out without revealing it, and its stake answers for that.
    function _isHidden(Task storage task) internal view returns (bool) {
        return task.held && task.status == Status.TimedOut;
    }

    /// @param group the name of exactly these tasks' group
    /// @param size how many it has
    function _checkMembers(bytes32 group, uint8 size, bytes32[] calldata keys) internal view {
        if (keys.length != size) revert WrongMembers(group);
        uint256 seen = 0;
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.group != group) revert WrongMembers(group);
            seen |= 1 << task.place;
        }
        // As many places as tasks: none was named twice.
        if (seen != (1 << uint256(size)) - 1) revert WrongMembers(group);
    }

    /// @dev Whether no task of the group that still waits is started any more: it is closed, or so many of its tasks have
    /// ended that the others are no majority. While a task waits none is revealed, so that `shown` counts ended ones.
    function _isDead(Group storage group) internal view returns (bool) {
        return group.standing != GroupStanding.Open || uint256(group.shown) * 2 >= group.size;
    }

    function _checkAlone(bytes32 key, Task storage task) internal view {
        if (task.group != 0) revert InGroup(key, task.group);
    }

    /// @dev One more member of the group is committed or has ended: nobody waits for its answer any more.
    function _settleMember(bytes32 key) internal {
        if (key == 0) return;
        Group storage group = _groups[key];
        group.settled += 1;
        if (group.settled == group.size && group.revealsFrom == 0) group.revealsFrom = uint40(block.timestamp);
    }

    /// @dev One more member of the group is revealed or has ended.
    function _showMember(bytes32 key) internal {
        if (key == 0) return;
        Group storage group = _groups[key];
        group.shown += 1;
        if (group.shown == group.size) group.readyAt = uint40(block.timestamp);
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

    /// @dev The toll goes to neither the node, which would be paid for silence, nor to others of its group, who would
    /// gain by its silence. A node that hides its answer from the comparison keeps its stake there until that.
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

    /// @dev The node's stake answers for the task from now on.
    function _hold(Task storage task) internal {
        task.held = true;
        _nodes[task.node].open += 1;
    }

    /// @dev The node's stake answers for the task no more; the caller settles with the node.
    function _release(Task storage task) internal {
        task.held = false;
        _nodes[task.node].open -= 1;
    }

    /// @dev What a node runs ends with its membership; the node is not settled: its membership ends in another way.
    function _abortRunning(address account) internal {
        bytes32 key = _nodes[account].task;
        if (key == 0) return;
        address creator = _tasks[key].creator;
        _endAborted(key, Reason.Cancelled, creator, creator);
    }

    /// @dev Takes the whole stake for a wrong result, also of a node that has left meanwhile.
    /// @return stake wei, in the caller's hands
    function _slash(address account) internal returns (uint256 stake) {
        stake = _nodes[account].stake;
        _nodes[account].stake = 0;
        if (_isIn(_nodes[account])) {
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
    /// @return last where it stood, counted as the events do: 0 = created; a committed answer counts as submitted
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
