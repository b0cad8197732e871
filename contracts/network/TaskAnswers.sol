// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title What nodes answer
/// @notice A task in no group is answered in the open. In a group an answer is committed to first, and revealed when
/// every member is committed or has ended: what cannot be seen cannot be copied. The clock stops, and the rank is
/// taken, at the commitment.
abstract contract TaskAnswers is Tasks {
    /// @notice The task is in no group: its answer is given in the open.
    error Alone(bytes32 task);

    /// @notice The task is not with this node.
    error NotItsTask(address sender, bytes32 task);

    /// @notice 0 is not the hash of a result.
    error ZeroResult();

    /// @notice The node's time was over at `deadline`; an answer counts up to and with that second.
    error TooLate(bytes32 task, uint256 deadline);

    /// @notice The node has time up to and with `deadline`.
    error TooEarly(bytes32 task, uint256 deadline);

    /// @notice Nothing is revealed before every member of the group is committed or has ended.
    error RevealsLater(bytes32 group);

    /// @notice This is not what the node committed to.
    error WrongReveal(bytes32 task);

    // --- The node ---

    /// @notice Answers a task in no group, in time, with the hash of the result.
    function submitResult(bytes32 key, bytes32 resultHash) external {
        if (resultHash == 0) revert ZeroResult();
        Task storage task = _stop(key, Status.Submitted);
        _checkAlone(key, task);
        task.answer = resultHash;
        emit TaskSubmitted(key, msg.sender, resultHash);
    }

    /// @notice Answers a task in no group, in time, that it cannot be run.
    function reportError(bytes32 key) external {
        _checkAlone(key, _stop(key, Status.ErrorReported));
        emit TaskErrorReported(key, msg.sender);
    }

    /// @notice Answers a task of a group, in time, and hides how.
    /// @param commitment commitmentOf() the answer
    function commitAnswer(bytes32 key, bytes32 commitment) external {
        Task storage task = _stop(key, Status.Committed);
        if (task.group == 0) revert Alone(key);
        task.answer = commitment;
        task.points = _pointsOf(_groups[task.group].commits++);
        _settleMember(task.group);
        emit TaskCommitted(key, msg.sender, commitment);
    }

    /// @notice Shows what it committed to, in time: `revealTimeout` seconds from when the last of the group's tasks was
    /// settled. Whoever is no member any more may still do so. A node that timed out here may show its answer until its
    /// contest is settled: that brings no fee, and keeps its stake where the answer was right.
    /// @param answer hash of the result, 0 = the task cannot be run
    /// @param salt as it was committed to
    function revealAnswer(bytes32 key, bytes32 answer, bytes32 salt) external {
        Task storage task = _tasks[key];
        bool isLate = _isHidden(task);
        if (!isLate) _expect(key, Status.Committed);
        if (task.node != msg.sender) revert NotItsTask(msg.sender, key);
        uint256 deadline = isLate ? block.timestamp : _deadline(task);
        if (block.timestamp > deadline) revert TooLate(key, deadline);
        if (commitmentOf(key, msg.sender, answer, salt) != task.answer) revert WrongReveal(key);
        task.answer = answer;
        if (isLate) {
            emit AnswerShownLate(key, msg.sender, answer);
            return;
        }
        task.status = answer == 0 ? Status.ErrorReported : Status.Submitted;
        task.points += _pointsOf(_groups[task.group].reveals++);
        _showMember(task.group);
        if (answer == 0) emit TaskErrorRevealed(key, msg.sender);
        else emit TaskRevealed(key, msg.sender, answer);
    }

    // --- Anyone ---

    /// @notice Ends a task whose node did not answer, or did not reveal, in time. The creator loses the toll.
    function timeOutTask(bytes32 key) external {
        Task storage task = _tasks[key];
        if (task.status != Status.Started && task.status != Status.Committed) revert WrongStatus(key, task.status);
        uint256 deadline = _deadline(task);
        if (block.timestamp <= deadline) revert TooEarly(key, deadline);
        _timeOut(key);
    }

    /// @notice What a node commits to. Bound to task and node: a copied commitment cannot be opened by the copier.
    /// @param answer hash of the result, 0 = the task cannot be run
    /// @param salt 32 random bytes: without them an answer that others can compute too would show through
    function commitmentOf(bytes32 key, address node, bytes32 answer, bytes32 salt) public pure returns (bytes32) {
        return keccak256(abi.encode(key, node, answer, salt));
    }

    // --- Inside ---

    /// @dev The node has answered; from now on it is free, and its stake answers for what it said.
    function _stop(bytes32 key, Status status) private returns (Task storage task) {
        task = _expect(key, Status.Started);
        if (task.node != msg.sender) revert NotItsTask(msg.sender, key);
        uint256 deadline = _deadline(task);
        if (block.timestamp > deadline) revert TooLate(key, deadline);
        (task.status, task.finishedAt) = (status, uint40(block.timestamp));
        _nodes[msg.sender].task = 0;
        _nodes[msg.sender].open += 1;
    }

    /// @dev What a place in a round, of the commitments or of the reveals, is worth: 10, 5, and 2 for the third and all
    /// after it.
    /// @param before how many were quicker in that round
    function _pointsOf(uint8 before) private pure returns (uint8) {
        return before == 0 ? 10 : before == 1 ? 5 : 2;
    }

    /// @dev Last second for the answer, or for the reveal of it.
    function _deadline(Task storage task) private view returns (uint256) {
        if (task.status == Status.Started) return uint256(task.startedAt) + task.timeout;
        uint256 from = _groups[task.group].revealsFrom;
        if (from == 0) revert RevealsLater(task.group);
        return from + _settings.revealTimeout;
    }
}
