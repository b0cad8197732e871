// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Judgement of answers
/// @notice Single task: a result is accepted and paid, or an error report is accepted and the fee returned. Group: the
/// answers are compared. If the creator does not judge an answer in time, any account may end the task; a result is then
/// paid, so that silence never costs a creator less than a judgement.
abstract contract TaskVerdicts is Tasks {
    /// @param decided more than half of the group, without tasks that were not revealed, gave one answer
    /// @param contested a node gave another answer, or did not reveal its own
    /// @param verdict that answer, if decided; 0 = the error report
    struct Tally {
        bool decided;
        bool contested;
        bytes32 verdict;
    }

    /// @notice The sender has no such group.
    error UnknownGroup(bytes32 group);

    /// @notice Some answers of the group are not revealed yet.
    error GroupNotReady(bytes32 group, uint8 shown, uint8 size);

    /// @notice The creator may still judge the answer, up to and including `deadline`, unix seconds.
    error StillTime(bytes32 task, uint256 deadline);

    // --- Creator calls ---

    /// @notice Accepts the result of a task that is in no group; its fee is credited to the node.
    function validateTask(bytes32 key) external {
        _checkAlone(key, _own(key));
        _expect(key, Status.Submitted);
        emit TaskValidated(key);
        _succeed(key);
    }

    /// @notice Accepts that a task in no group cannot be run; its fee is credited to the creator.
    function acceptError(bytes32 key) external {
        Task storage task = _own(key);
        _checkAlone(key, task);
        _expect(key, Status.ErrorReported);
        _abort(key, Reason.ErrorReported, task.creator, task.creator);
    }

    /// @notice Compares the answers of a group whose tasks are all revealed, or have ended.
    /// @dev An answer is a result hash, or the error report, which counts as an answer like any other. The verdict is
    /// the answer given by more than half of the group's size, which includes ended members.
    ///   - The verdict is a result: answers equal to it are validated; the fastest succeeds, the others are refunded.
    ///     Every other answer is invalidated.
    ///   - The verdict is the error: error reports are aborted (error_reported); every result is invalidated.
    ///   - No verdict: every answer is aborted (incorrect_result, or error_reported), and the creator pays the toll,
    ///     so that a group without a majority is not free.
    /// If an answer is invalidated, or was not revealed, the group is contested: the stakes of all its nodes that
    /// answered are held until a second group was compared, or the window is over (Contests). Answers that were not
    /// revealed do not count in the size. In every case GroupValidated is emitted and the group is closed. Only the
    /// success is paid: to its node, or by points.
    /// @param groupId as chosen by the creator
    /// @param keys keys of exactly the group's tasks, in any order
    function validateGroup(bytes32 groupId, bytes32[] calldata keys) external {
        bytes32 key = keyOf(msg.sender, groupId);
        Group storage group = _groups[key];
        if (group.standing == GroupStanding.Unknown) revert UnknownGroup(key);
        if (group.standing != GroupStanding.Open) revert GroupClosed(key);
        _checkReady(key, group);
        _checkMembers(key, group.size, keys);

        emit GroupValidated(key, keys);
        Tally memory tally = _count(keys);
        (group.decided, group.verdict) = (tally.decided, tally.verdict);
        group.standing = tally.contested ? GroupStanding.Contested : GroupStanding.Validated;
        if (tally.contested) group.contestedAt = uint40(block.timestamp);
        bytes32 fastest = tally.verdict == 0 ? bytes32(0) : _fastest(keys, tally.verdict);
        if (fastest != 0 && group.byPoints) _shareFee(keys, fastest, tally.verdict);
        for (uint256 i = 0; i < keys.length; ++i) {
            _judge(keys[i], tally, fastest);
        }
    }

    // --- Calls by anyone ---

    /// @notice Ends an answer that its creator did not judge in time: `validationTimeout` after the answer of a single
    /// task, or after the last reveal of a group. The group is then closed: it is never compared, and its other answers
    /// may be ended at once. A result is paid to the node, an error report's fee goes to the creator; in a group that
    /// was given up a result is paid only the toll, because its worth was not determined. An answer that was not
    /// revealed has ended already: its node gets its stake back.
    function endUnvalidated(bytes32 key) external {
        Task storage task = _tasks[key];
        bool isHidden = _isHidden(task);
        _requireStatus(isHidden || _isAnswered(task), key, task);
        (Reason reason, uint256 deadline) = _patience(task);
        if (block.timestamp <= deadline) revert StillTime(key, deadline);
        if (reason != Reason.GroupTimeout && task.group != 0) _groups[task.group].standing = GroupStanding.Lapsed;
        if (isHidden) {
            _release(task);
            _settle(task.node);
            return;
        }
        address paid = task.status == Status.Submitted ? task.node : task.creator;
        _abort(key, reason, paid, reason == Reason.GroupTimeout ? task.creator : paid);
    }

    /// @notice Gives up a group that is incomplete `groupTimeout` after the latest deadline of its started tasks. No
    /// further task of the group starts, and the group is never compared; nodes that have answered reveal now, and
    /// endUnvalidated pays the toll for it.
    /// @param key a task of the group
    function giveUpGroup(bytes32 key) external {
        bytes32 groupKey = _tasks[key].group;
        Group storage group = _groups[groupKey];
        bool waits = group.standing == GroupStanding.Open && group.revealsFrom == 0 && group.latestDeadline != 0;
        if (!waits) revert GroupClosed(groupKey);
        uint256 deadline = uint256(group.latestDeadline) + _settings.groupTimeout;
        if (block.timestamp <= deadline) revert StillTime(key, deadline);
        (group.standing, group.revealsFrom) = (GroupStanding.GivenUp, uint40(block.timestamp));
    }

    // --- Internal functions ---

    /// @dev Counts the answers. Tasks whose answer was not revealed in time do not count in the size, because a node that
    /// sees the other answers and hides its own must not prevent the verdict.
    function _count(bytes32[] calldata keys) private view returns (Tally memory tally) {
        (uint256 most, uint256 answers, uint256 size) = (0, 0, keys.length);
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.held) --size;
            if (!_isAnswered(task)) continue;
            ++answers;
            // The most frequent answer so far was counted already.
            if (most != 0 && task.answer == tally.verdict) continue;
            uint256 votes = _votes(keys, task.answer);
            if (votes > most) (most, tally.verdict) = (votes, task.answer);
        }
        tally.decided = most * 2 > size;
        if (!tally.decided) tally.verdict = 0;
        tally.contested = answers != 0 && (size != keys.length || (tally.decided && most != answers));
    }

    function _votes(bytes32[] calldata keys, bytes32 answer) private view returns (uint256 votes) {
        for (uint256 i = 0; i < keys.length; ++i) {
            if (_isRight(keys[i], answer)) votes += 1;
        }
    }

    /// @dev Ends an answer. A contest holds the stakes of the minority, of the majority, which may have lied, and of
    /// the nodes that did not reveal.
    function _judge(bytes32 key, Tally memory tally, bytes32 fastest) private {
        Task storage task = _tasks[key];
        bool isOther = !tally.decided || task.answer != tally.verdict;
        if (!task.held) {
            if (!_isAnswered(task)) return;
            if (tally.contested) _hold(task);
            _endJudged(key, task, tally, fastest);
        } else if (!tally.contested) {
            _release(task);
            _settle(task.node);
        }
        if (tally.contested && isOther) emit NodeContested(task.node, key);
    }

    function _endJudged(bytes32 key, Task storage task, Tally memory tally, bytes32 fastest) private {
        bool isError = task.status == Status.ErrorReported;
        if (!tally.decided || (isError && tally.verdict == 0)) {
            address tollTo = tally.decided ? task.creator : treasury;
            _abort(key, isError ? Reason.ErrorReported : Reason.IncorrectResult, tollTo, task.creator);
        } else if (task.answer != tally.verdict) {
            _invalidate(key);
        } else {
            emit TaskValidated(key);
            if (key == fastest) _succeed(key);
            else _refund(key);
        }
    }

    /// @dev Shares the fee of the fastest node's task among all right answers, by the sum of their points for commitment
    /// and reveal. Shares are rounded down, in the creator's order; the last node gets the remainder.
    function _shareFee(bytes32[] calldata keys, bytes32 fastest, bytes32 verdict) private {
        uint256 fee = _tasks[fastest].fee;
        _tasks[fastest].fee = 0;
        uint256 sum = 0;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 key = keys[i];
            if (_isRight(key, verdict)) sum += _tasks[key].points;
        }
        uint256 left = fee;
        uint256 open = sum;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 key = keys[i];
            if (!_isRight(key, verdict)) continue;
            Task storage task = _tasks[key];
            open -= task.points;
            uint256 share = open == 0 ? left : fee * task.points / sum;
            left -= share;
            emit FeeShared(key, task.node, share);
            _credit(task.node, share);
        }
    }

    function _isRight(bytes32 key, bytes32 verdict) private view returns (bool) {
        return _isAnswered(_tasks[key]) && _tasks[key].answer == verdict;
    }

    /// @dev Returns the task with this answer and the shortest time from start to answer; if times are equal, the task
    /// that was created first.
    function _fastest(bytes32[] calldata keys, bytes32 answer) private view returns (bytes32 fastest) {
        uint256 least = type(uint256).max;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 key = keys[i];
            if (!_isRight(key, answer)) continue;
            uint256 speed = _speedOf(_tasks[key]);
            if (speed < least) (least, fastest) = (speed, key);
        }
    }

    /// @dev Returns a sort key: lower for a quicker answer; if times are equal, lower for the task created first.
    function _speedOf(Task storage task) private view returns (uint256) {
        return (uint256(task.finishedAt - task.startedAt) << 64) | task.serial;
    }

    /// @return reason of the end after the creator's time
    /// @return deadline last second of that time
    function _patience(Task storage task) private view returns (Reason reason, uint256 deadline) {
        if (task.group == 0) {
            return (Reason.CreatorValidationTimeout, uint256(task.finishedAt) + _settings.validationTimeout);
        }
        Group storage group = _groups[task.group];
        if (group.standing == GroupStanding.Contested) revert GroupClosed(task.group);
        if (group.standing == GroupStanding.GivenUp) return (Reason.GroupTimeout, 0);
        if (group.standing == GroupStanding.Lapsed) return (Reason.CreatorValidationTimeout, 0);
        _checkReady(task.group, group);
        return (Reason.CreatorValidationTimeout, uint256(group.readyAt) + _settings.validationTimeout);
    }

    function _checkReady(bytes32 key, Group storage group) private view {
        if (group.readyAt == 0) revert GroupNotReady(key, group.shown, group.size);
    }
}
