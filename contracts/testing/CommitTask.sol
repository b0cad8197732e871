// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CommitBook} from "./commit/CommitBook.sol";
import {CommitNode} from "./CommitNode.sol";
import {CrynuxQos} from "./CrynuxQos.sol";

/// @title Task contract of a commit/disclose network, to test the profile `crynux-commit`
/// @notice Three nodes run each task, commit to their results and disclose them; two equal results are accepted.
/// Selectors, events and the order of logs are those of Crynux's first generation; the code was written for these
/// tests. Fees are received and emitted but not paid out.
contract CommitTask is CommitBook {
    uint256 public constant TIMEOUT = 15 minutes;

    CommitNode public immutable node;
    CrynuxQos public immutable qos;

    uint256 private _lastId;

    event TaskPending(uint256 taskId, uint256 taskType, address indexed creator, bytes32 taskHash, bytes32 dataHash);
    event TaskStarted(
        uint256 taskId,
        uint256 taskType,
        address indexed creator,
        address indexed selectedNode,
        bytes32 taskHash,
        bytes32 dataHash,
        uint256 round
    );
    event TaskResultCommitmentsReady(uint256 indexed taskId);
    event TaskSuccess(uint256 indexed taskId, bytes result, address indexed resultNode);
    event TaskResultUploaded(uint256 indexed taskId);
    event TaskNodeSuccess(uint256 indexed taskId, address nodeAddress, uint256 fee);
    event TaskNodeSlashed(uint256 indexed taskId, address nodeAddress);
    event TaskNodeCancelled(uint256 indexed taskId, address nodeAddress);

    constructor(CommitNode node_, CrynuxQos qos_, uint256 queueLimit_) CommitBook(queueLimit_) {
        (node, qos) = (node_, qos_);
    }

    // --- Creator calls ---

    /// @param cap number of images; not used, nor are the other requirements
    function createTask(
        uint256 taskType,
        bytes32 taskHash,
        bytes32 dataHash,
        uint256 vramLimit,
        uint256 cap,
        string calldata gpuName,
        uint256 gpuVram
    ) external payable {
        require(taskType < 3, "Invalid task type");
        require(cap > 0 && (vramLimit > 0 || gpuVram > 0 || bytes(gpuName).length > 0), "Nothing asked for");
        uint256 taskId = ++_lastId;
        TaskInfo storage task = _tasks[taskId];
        (task.id, task.taskType, task.creator) = (taskId, taskType, msg.sender);
        (task.taskHash, task.dataHash, task.fee) = (taskHash, dataHash, msg.value);
        bool starts = _canStart();
        if (!starts) _enqueue(task);
        emit TaskPending(taskId, taskType, msg.sender, taskHash, dataHash);
        if (starts) _start(task);
    }

    /// @notice Cancels a waiting task (by anyone), or one that timed out (by its creator or nodes).
    function cancelTask(uint256 taskId) external {
        TaskInfo storage task = _known(taskId);
        if (task.startedAt == 0) {
            _dequeue(taskId);
            emit TaskAborted(taskId, "Task Cancelled");
            delete _tasks[taskId];
            return;
        }
        require(msg.sender == task.creator || _isSelected(task, msg.sender), "Unauthorized to cancel the task");
        require(block.timestamp > task.startedAt + TIMEOUT, "Timeout not reached");
        if (!task.isAborted) {
            task.isAborted = true;
            emit TaskAborted(taskId, "Task Cancelled");
        }
        for (uint256 round; round < 3; ++round) {
            if (task.isFreed[round]) continue;
            (uint256 one, uint256 other) = _compensated(task, round);
            _free(task, round, one, other);
            emit TaskNodeCancelled(taskId, task.nodes[round]);
        }
        _forget(task);
    }

    // --- Node calls ---

    function submitTaskResultCommitment(uint256 taskId, uint256 round, bytes32 commitment, bytes32 nonce) external {
        TaskInfo storage task = _asked(taskId, round);
        require(!task.isAborted, "Task is aborted");
        require(task.commitments[round] == 0, "Already submitted");
        require(uint256(commitment) > 1, "Invalid commitment");
        (task.commitments[round], task.nonces[round]) = (commitment, nonce);
        task.commits.push(round);
        _tellIfReady(task);
    }

    function discloseTaskResult(uint256 taskId, uint256 round, bytes calldata result) external {
        TaskInfo storage task = _asked(taskId, round);
        require(task.commits.length == 3, "Commitments not ready");
        require(!task.isAborted, "Task is aborted");
        require(task.results[round].length == 0 && task.commitments[round] != ERROR, "Already disclosed");
        require(keccak256(abi.encodePacked(result, task.nonces[round])) == task.commitments[round], "Mismatch");
        task.results[round] = result;
        task.disclosures.push(round);
        if (task.disclosures.length == 2) _compareTwo(task);
        else if (task.disclosures.length == 3) _compareThree(task);
    }

    /// @notice Counts as commitment and disclosure at once.
    function reportTaskError(uint256 taskId, uint256 round) external {
        TaskInfo storage task = _asked(taskId, round);
        require(task.commitments[round] == 0, "Already submitted");
        task.commitments[round] = ERROR;
        task.commits.push(round);
        task.disclosures.push(round);
        if (++task.errors == 1) _tellIfReady(task);
        else if (task.errors == 2) _giveUp(task);
        else _succeed(task, round);
    }

    function reportResultsUploaded(uint256 taskId, uint256 round) external {
        TaskInfo storage task = _asked(taskId, round);
        require(task.isSuccess && task.resultNode == msg.sender, "Not the result's node");
        _succeed(task, round);
        emit TaskResultUploaded(taskId);
        _forget(task);
    }

    /// @notice Starts waiting tasks on free nodes; anyone may call it, as in Crynux.
    function nodeAvailableCallback(address) external {
        while (_queue.length > 0 && _canStart()) {
            TaskInfo storage task = _tasks[_queue[_dearest()]];
            _dequeue(task.id);
            _start(task);
        }
    }

    function getTask(uint256 taskId) external view returns (TaskInfo memory) {
        return _tasks[taskId];
    }

    // --- Task progress ---

    function _start(TaskInfo storage task) private {
        task.startedAt = block.timestamp;
        address[] memory free = node.getAvailableNodes();
        for (uint256 round; round < 3; ++round) {
            task.nodes[round] = free[round];
            node.startTask(free[round]);
        }
        for (uint256 round; round < 3; ++round) {
            emit TaskStarted(
                task.id, task.taskType, task.creator, task.nodes[round], task.taskHash, task.dataHash, round
            );
        }
    }

    function _tellIfReady(TaskInfo storage task) private {
        if (task.commits.length == 3) emit TaskResultCommitmentsReady(task.id);
    }

    function _compareTwo(TaskInfo storage task) private {
        (uint256 first, uint256 second) = (task.disclosures[0], task.disclosures[1]);
        if (!_isSame(task, first, second)) return;
        _succeed(task, second);
        _accept(task, first);
    }

    function _compareThree(TaskInfo storage task) private {
        uint256[] storage order = task.disclosures;
        (uint256 first, uint256 second, uint256 third) = (order[0], order[1], order[2]);
        if (task.isSuccess) {
            if (_isSame(task, first, third)) _succeed(task, third);
            else _slash(task, third);
        } else if (_isSame(task, first, third)) {
            _succeed(task, third);
            _slash(task, second);
            _accept(task, first);
        } else if (_isSame(task, second, third)) {
            _succeed(task, third);
            _slash(task, first);
            _accept(task, second);
        } else {
            task.isAborted = true;
            for (uint256 place; place < 3; ++place) {
                uint256 round = task.disclosures[place];
                (uint256 one, uint256 other) = _places(task, round);
                _free(task, round, one, other);
                emit TaskNodeCancelled(task.id, task.nodes[round]);
            }
            emit TaskAborted(task.id, "Task result illegal");
        }
        _forget(task);
    }

    /// @dev Two nodes report that the task cannot be run; a third that has committed to a result is slashed.
    function _giveUp(TaskInfo storage task) private {
        task.isAborted = true;
        _succeed(task, task.disclosures[1]);
        _succeed(task, task.disclosures[0]);
        emit TaskAborted(task.id, "Task error reported");
        for (uint256 round; round < 3; ++round) {
            if (uint256(task.commitments[round]) > 1) _slash(task, round);
        }
        _forget(task);
    }

    function _accept(TaskInfo storage task, uint256 round) private {
        (task.isSuccess, task.resultNode) = (true, task.nodes[round]);
        emit TaskSuccess(task.id, task.results[round], task.resultNode);
    }

    function _succeed(TaskInfo storage task, uint256 round) private {
        (uint256 one, uint256 other) = _places(task, round);
        _free(task, round, one, other);
        emit TaskNodeSuccess(task.id, task.nodes[round], (task.fee * (_points(one) + _points(other))) / 50);
        _forget(task);
    }

    function _slash(TaskInfo storage task, uint256 round) private {
        task.isFreed[round] = true;
        node.slash(task.nodes[round]);
        emit TaskNodeSlashed(task.id, task.nodes[round]);
    }

    /// @dev Called before the task's own event: logs of the node contract come first. Places start at 1; 0 = none,
    /// without points.
    function _free(TaskInfo storage task, uint256 round, uint256 one, uint256 other) private {
        task.isFreed[round] = true;
        if (one != 0) qos.addTaskScore(task.nodes[round], one - 1);
        if (other != 0) qos.addTaskScore(task.nodes[round], other - 1);
        node.finishTask(task.nodes[round]);
    }

    /// @dev Returns whether three nodes are available; _start takes those that have waited longest.
    function _canStart() private view returns (bool) {
        return node.getAvailableNodes().length >= 3;
    }

    /// @dev Closes a task of which every part has ended.
    function _forget(TaskInfo storage task) private {
        if (task.isFreed[0] && task.isFreed[1] && task.isFreed[2]) task.id = 0;
    }
}
