// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Answers of nodes: submission, commitment, reveal
/// @notice A task in no group is answered in the open. In a group, a node first commits to its answer, and reveals the
/// answer when every task of the group has a commitment or has ended. So no node can copy an answer. The commitment
/// stops the clock and determines the rank.
abstract contract TaskAnswers is Tasks {
    /// @notice The task is in no group: its answer is submitted in the open.
    error Alone(bytes32 task);

    /// @notice The sender is not the task's node.
    error NotItsTask(address sender, bytes32 task);

    /// @notice The hash of the result is 0.
    error ZeroResult();

    /// @notice The deadline has passed; the last second for an answer was `deadline`, unix seconds.
    error TooLate(bytes32 task, uint256 deadline);

    /// @notice The deadline has not passed; the node may answer up to and including `deadline`, unix seconds.
    error TooEarly(bytes32 task, uint256 deadline);

    /// @notice Reveals begin when every member of the group has committed or ended.
    error RevealsLater(bytes32 group);

    /// @notice The node committed to another answer or salt.
    error WrongReveal(bytes32 task);

    // --- Node calls ---

    /// @notice Answers a task in no group, before the deadline, with the hash of the result.
    function submitResult(bytes32 key, bytes32 resultHash) external {
        if (resultHash == 0) revert ZeroResult();
        Task storage task = _stop(key, Status.Submitted);
        _checkAlone(key, task);
        task.answer = resultHash;
        emit TaskSubmitted(key, msg.sender, resultHash);
    }

    /// @notice Reports, before the deadline, that a task in no group cannot be run.
    function reportError(bytes32 key) external {
        _checkAlone(key, _stop(key, Status.ErrorReported));
        emit TaskErrorReported(key, msg.sender);
    }

    /// @notice Commits to a hidden answer to a task of a group, before the deadline.
    /// @param commitment the value of commitmentOf() for the answer
    function commitAnswer(bytes32 key, bytes32 commitment) external {
        Task storage task = _stop(key, Status.Committed);
        if (task.group == 0) revert Alone(key);
        task.answer = commitment;
        task.points = _pointsOf(_groups[task.group].commits++);
        _settleMember(task.group);
        emit TaskCommitted(key, msg.sender, commitment);
    }

    /// @notice Reveals the committed answer, at most `revealTimeout` seconds after every task of the group has a
    /// commitment or has ended. The node may have left the network. A node that missed this deadline may reveal its
    /// answer until its contest is settled: this earns no fee, but saves its stake if the answer was right.
    /// @param answer answerOf(group, hash of the result), 0 = the task cannot be run
    /// @param salt the salt of the commitment
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

    /// @notice Ends a task whose node missed the deadline for its answer or its reveal. The creator loses the toll.
    function timeOutTask(bytes32 key) external {
        Task storage task = _tasks[key];
        _requireStatus(task.status == Status.Started || task.status == Status.Committed, key, task);
        uint256 deadline = _deadline(task);
        if (block.timestamp <= deadline) revert TooEarly(key, deadline);
        _timeOut(key);
    }

    /// @notice Returns the commitment to an answer. It is bound to task and node, so no other node can reveal a copy.
    /// @param answer answerOf(group, hash of the result), 0 = the task cannot be run
    /// @param salt 32 random bytes, so that the answer cannot be found by trying likely answers
    function commitmentOf(bytes32 key, address node, bytes32 answer, bytes32 salt) public pure returns (bytes32) {
        return keccak256(abi.encode(key, node, answer, salt));
    }

    // --- Internal functions ---

    /// @dev Stops the clock of the node's task: the node is free, and its stake is held for the answer.
    function _stop(bytes32 key, Status status) private returns (Task storage task) {
        task = _expect(key, Status.Started);
        if (task.node != msg.sender) revert NotItsTask(msg.sender, key);
        uint256 deadline = _deadline(task);
        if (block.timestamp > deadline) revert TooLate(key, deadline);
        (task.status, task.finishedAt) = (status, uint40(block.timestamp));
        Node storage node = _nodes[msg.sender];
        node.task = 0;
        node.open += 1;
    }

    /// @dev Returns the points for a rank among the commitments or the reveals: 10, 5, and 2 from the third on.
    /// @param before number of nodes that committed or revealed before the node
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
