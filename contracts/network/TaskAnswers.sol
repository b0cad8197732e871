// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Answers of nodes: submission, commitment, reveal
/// @notice A task in no group is answered in the open. In a group an answer is committed to first, and revealed when
/// every member has committed or ended: a hidden answer cannot be copied. The time stops, and the rank is taken, at the
/// commitment.
abstract contract TaskAnswers is Tasks {
    /// @notice The task is in no group: its answer is submitted in the open.
    error Alone(bytes32 task);

    /// @notice The sender is not the task's node.
    error NotItsTask(address sender, bytes32 task);

    /// @notice The hash of the result is 0.
    error ZeroResult();

    /// @notice The node's time was over at `deadline`; an answer counts up to and including that second.
    error TooLate(bytes32 task, uint256 deadline);

    /// @notice The node has time up to and including `deadline`.
    error TooEarly(bytes32 task, uint256 deadline);

    /// @notice Reveals begin when every member of the group has committed or ended.
    error RevealsLater(bytes32 group);

    /// @notice The node committed to another answer or salt.
    error WrongReveal(bytes32 task);

    // --- Node calls ---

    /// @notice Answers a task in no group, in time, with the hash of the result.
    function submitResult(bytes32 key, bytes32 resultHash) external {
        if (resultHash == 0) revert ZeroResult();
        Task storage task = _stop(key, Status.Submitted);
        _checkAlone(key, task);
        task.answer = resultHash;
        emit TaskSubmitted(key, msg.sender, resultHash);
    }

    /// @notice Reports, in time, that a task in no group cannot be run.
    function reportError(bytes32 key) external {
        _checkAlone(key, _stop(key, Status.ErrorReported));
        emit TaskErrorReported(key, msg.sender);
    }

    /// @notice Commits to a hidden answer to a task of a group, in time.
    /// @param commitment commitmentOf() the answer
    function commitAnswer(bytes32 key, bytes32 commitment) external {
        Task storage task = _stop(key, Status.Committed);
        if (task.group == 0) revert Alone(key);
        task.answer = commitment;
        task.points = _pointsOf(_groups[task.group].commits++);
        _settleMember(task.group);
        emit TaskCommitted(key, msg.sender, commitment);
    }

    /// @notice Reveals the committed answer, in time: `revealTimeout` seconds from when the last of the group's tasks
    /// was settled. The node need not be a member any more. A node that timed out here may reveal until its contest is
    /// settled: that earns no fee, but saves its stake if the answer was right.
    /// @param answer answerOf(group, hash of the result), 0 = the task cannot be run
    /// @param salt as in the commitment
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

    // --- Calls by anyone ---

    /// @notice Ends a task whose node did not answer, or did not reveal, in time. The creator loses the toll.
    function timeOutTask(bytes32 key) external {
        Task storage task = _tasks[key];
        if (task.status != Status.Started && task.status != Status.Committed) revert WrongStatus(key, task.status);
        uint256 deadline = _deadline(task);
        if (block.timestamp <= deadline) revert TooEarly(key, deadline);
        _timeOut(key);
    }

    /// @notice Returns the commitment to an answer. Bound to task and node: a copier cannot reveal a copied commitment.
    /// @param answer answerOf(group, hash of the result), 0 = the task cannot be run
    /// @param salt 32 random bytes: without them an answer that others can compute too could be guessed
    function commitmentOf(bytes32 key, address node, bytes32 answer, bytes32 salt) public pure returns (bytes32) {
        return keccak256(abi.encode(key, node, answer, salt));
    }

    // --- Internal functions ---

    /// @dev Stops the node's time: the node is free, and its stake is held for the answer.
    function _stop(bytes32 key, Status status) private returns (Task storage task) {
        task = _expect(key, Status.Started);
        if (task.node != msg.sender) revert NotItsTask(msg.sender, key);
        uint256 deadline = _deadline(task);
        if (block.timestamp > deadline) revert TooLate(key, deadline);
        (task.status, task.finishedAt) = (status, uint40(block.timestamp));
        _nodes[msg.sender].task = 0;
        _nodes[msg.sender].open += 1;
    }

    /// @dev Returns the points for a place among the commitments or the reveals: 10, 5, and 2 for the third and all
    /// after it.
    /// @param before number of nodes before it in that round
    function _pointsOf(uint8 before) private pure returns (uint8) {
        return before == 0 ? 10 : before == 1 ? 5 : 2;
    }

    /// @dev Returns the last second for the answer, or for its reveal.
    function _deadline(Task storage task) private view returns (uint256) {
        if (task.status == Status.Started) return uint256(task.startedAt) + task.timeout;
        uint256 from = _groups[task.group].revealsFrom;
        if (from == 0) revert RevealsLater(task.group);
        return from + _settings.revealTimeout;
    }
}
