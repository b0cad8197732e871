// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title From the node's answer to the end of the task
/// @notice Alone: a result is accepted and paid, or an error report accepted and the fee returned. In a group: the
/// answers are compared. An answer that its creator does not judge in time may be ended by anyone; a result is
/// then paid for, so that silence never costs a creator less than its word.
abstract contract TaskVerdicts is Tasks {
    /// @notice No such group of the sender's.
    error UnknownGroup(bytes32 group);

    /// @notice Some answers of the group are not revealed yet.
    error GroupNotReady(bytes32 group, uint8 shown, uint8 size);

    /// @notice The creator has time up to and with `deadline`.
    error StillTime(bytes32 task, uint256 deadline);

    // --- The creator ---

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
        _abort(key, Reason.ErrorReported, task.creator);
    }

    /// @notice Compares the answers of a group whose tasks are all revealed, or have ended.
    /// @dev An answer is a result hash, or the error report, which counts as an answer like any other. The verdict
    /// is the answer given by more than half of the group's size, ended members counted in the size.
    ///   - Verdict a result: who gave it is validated; the fastest of them succeeds, the others are refunded. Every
    ///     other answer is invalidated.
    ///   - Verdict the error: who reported it is aborted (error_reported); every result is invalidated.
    ///   Where an answer is invalidated the group is contested: the stakes of all who answered stay until a second
    ///   group has spoken, or the window is over (Contests).
    ///   - No verdict: every answer is aborted (incorrect_result, or error_reported).
    /// Whatever happens, GroupValidated is said and the group is closed. Only the one success is paid to a node.
    /// @param groupId as the creator called it
    /// @param keys the names of exactly the group's tasks, in any order
    function validateGroup(bytes32 groupId, bytes32[] calldata keys) external {
        bytes32 key = keyOf(msg.sender, groupId);
        Group storage group = _groups[key];
        if (group.standing == GroupStanding.Unknown) revert UnknownGroup(key);
        if (group.standing != GroupStanding.Open) revert GroupClosed(key);
        _checkReady(key, group);
        _checkMembers(key, group.size, keys);

        group.standing = GroupStanding.Validated;
        emit GroupValidated(key, keys);
        (bool found, bytes32 verdict) = _verdict(keys);
        (group.decided, group.verdict) = (found, verdict);
        if (found && _isContested(keys, verdict)) _contest(group, keys);
        if (!found) _judgeUndecided(keys);
        else if (verdict == 0) _judgeFailed(keys);
        else _judgeAgreed(keys, verdict, group.byPoints);
    }

    // --- Anyone ---

    /// @notice Ends an answer that its creator did not judge in time: alone `validationTimeout` after the answer, in
    /// a group `validationTimeout` after the last of its answers was revealed. The group is then given up: nobody can
    /// have it compared, and its other answers may be ended at once. A result is paid to the node, an error report's
    /// fee to the creator.
    function endUnvalidated(bytes32 key) external {
        Task storage task = _tasks[key];
        if (!_isAnswered(task)) revert WrongStatus(key, task.status);
        (Reason reason, uint256 deadline) = _patience(task);
        if (block.timestamp <= deadline) revert StillTime(key, deadline);
        if (task.group != 0) _groups[task.group].standing = GroupStanding.Lapsed;
        _abort(key, reason, task.status == Status.Submitted ? task.node : task.creator);
    }

    /// @notice Gives a group up in which an answer has waited for more than `groupTimeout` for those of others. No task
    /// of it starts any more and nobody has it compared; who has answered reveals now, and endUnvalidated pays for it.
    /// @param key a task of the group that is answered and not revealed
    function giveUpGroup(bytes32 key) external {
        Task storage task = _expect(key, Status.Committed);
        Group storage group = _groups[task.group];
        if (group.revealsFrom != 0) revert GroupClosed(task.group);
        uint256 deadline = uint256(task.finishedAt) + _settings.groupTimeout;
        if (block.timestamp <= deadline) revert StillTime(key, deadline);
        (group.standing, group.revealsFrom) = (GroupStanding.Lapsed, uint40(block.timestamp));
    }

    // --- Inside ---

    /// @return found more than half of the group gave this answer
    /// @return verdict the answer, 0 = the error report
    function _verdict(bytes32[] calldata keys) private view returns (bool found, bytes32 verdict) {
        for (uint256 i = 0; i < keys.length; ++i) {
            if (!_isAnswered(_tasks[keys[i]])) continue;
            verdict = _tasks[keys[i]].answer;
            if (_votes(keys, verdict) * 2 > keys.length) return (true, verdict);
        }
        return (false, 0);
    }

    function _votes(bytes32[] calldata keys, bytes32 answer) private view returns (uint256 votes) {
        for (uint256 i = 0; i < keys.length; ++i) {
            if (_isRight(keys[i], answer)) votes += 1;
        }
    }

    /// @dev Whether somebody gave another answer.
    function _isContested(bytes32[] calldata keys, bytes32 verdict) private view returns (bool) {
        for (uint256 i = 0; i < keys.length; ++i) {
            if (_isAnswered(_tasks[keys[i]]) && _tasks[keys[i]].answer != verdict) return true;
        }
        return false;
    }

    /// @dev Holds the stakes of all who answered: of who is in the minority, and of the majority, which may have lied.
    function _contest(Group storage group, bytes32[] calldata keys) private {
        (group.standing, group.contestedAt) = (GroupStanding.Contested, uint40(block.timestamp));
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (!_isAnswered(task)) continue;
            task.held = true;
            _nodes[task.node].open += 1;
        }
    }

    function _judgeAgreed(bytes32[] calldata keys, bytes32 verdict, bool byPoints) private {
        bytes32 fastest = _fastest(keys, verdict);
        if (byPoints) _shareFee(keys, fastest, verdict);
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 key = keys[i];
            Task storage task = _tasks[key];
            if (!_isAnswered(task)) continue;
            if (task.answer != verdict) {
                _invalidate(key);
                continue;
            }
            emit TaskValidated(key);
            if (key == fastest) _succeed(key);
            else _refund(key);
        }
    }

    /// @dev Takes the fee that the fastest would get, and shares it among all who are right: each gets as many parts as
    /// its rank among all results has points. Rounded down, in the creator's order; the rest goes to the last.
    function _shareFee(bytes32[] calldata keys, bytes32 fastest, bytes32 verdict) private {
        uint256 fee = _tasks[fastest].fee;
        _tasks[fastest].fee = 0;
        uint256 sum = 0;
        for (uint256 i = 0; i < keys.length; ++i) {
            sum += _points(keys, keys[i], verdict);
        }
        uint256 left = fee;
        uint256 open = sum;
        for (uint256 i = 0; i < keys.length; ++i) {
            uint256 points = _points(keys, keys[i], verdict);
            if (points == 0) continue;
            open -= points;
            uint256 share = open == 0 ? left : fee * points / sum;
            left -= share;
            emit FeeShared(keys[i], _tasks[keys[i]].node, share);
            _credit(_tasks[keys[i]].node, share);
        }
    }

    function _isRight(bytes32 key, bytes32 verdict) private view returns (bool) {
        return _isAnswered(_tasks[key]) && _tasks[key].answer == verdict;
    }

    /// @dev What the place of a result among the results of its group is worth: 10, 5, and 2 for the third and all after
    /// it; nothing where it is not the right one.
    function _points(bytes32[] calldata keys, bytes32 key, bytes32 verdict) private view returns (uint256) {
        if (!_isRight(key, verdict)) return 0;
        uint256 faster = 0;
        uint256 own = _speedOf(_tasks[key]);
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.status == Status.Submitted && _speedOf(task) < own) ++faster;
        }
        return faster == 0 ? 10 : faster == 1 ? 5 : 2;
    }

    function _judgeFailed(bytes32[] calldata keys) private {
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.status == Status.Submitted) _invalidate(keys[i]);
            else if (task.status == Status.ErrorReported) _abort(keys[i], Reason.ErrorReported, task.creator);
        }
    }

    function _judgeUndecided(bytes32[] calldata keys) private {
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (!_isAnswered(task)) continue;
            Reason reason = task.status == Status.Submitted ? Reason.IncorrectResult : Reason.ErrorReported;
            _abort(keys[i], reason, task.creator);
        }
    }

    /// @dev The least time from start to answer among those that gave this one; of equals, the task created first.
    function _fastest(bytes32[] calldata keys, bytes32 answer) private view returns (bytes32 fastest) {
        uint256 least = type(uint256).max;
        for (uint256 i = 0; i < keys.length; ++i) {
            if (!_isRight(keys[i], answer)) continue;
            uint256 speed = _speedOf(_tasks[keys[i]]);
            if (speed < least) (least, fastest) = (speed, keys[i]);
        }
    }

    /// @dev Less for a quicker answer; of equals, for the task created first.
    function _speedOf(Task storage task) private view returns (uint256) {
        return (uint256(task.finishedAt - task.startedAt) << 64) | task.serial;
    }

    /// @return reason why the answer is ended when the creator's time is over
    /// @return deadline last second of that time
    function _patience(Task storage task) private view returns (Reason reason, uint256 deadline) {
        if (task.group == 0) {
            return (Reason.CreatorValidationTimeout, uint256(task.finishedAt) + _settings.validationTimeout);
        }
        Group storage group = _groups[task.group];
        if (group.standing == GroupStanding.Lapsed) {
            return (group.readyAt != 0 ? Reason.CreatorValidationTimeout : Reason.GroupTimeout, 0);
        }
        _checkReady(task.group, group);
        return (Reason.CreatorValidationTimeout, uint256(group.readyAt) + _settings.validationTimeout);
    }

    function _checkReady(bytes32 key, Group storage group) private view {
        if (group.readyAt == 0) revert GroupNotReady(key, group.shown, group.size);
    }
}
