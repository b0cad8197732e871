// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CrynuxQos} from "./CrynuxQos.sol";
import {VssBook} from "./vss/VssBook.sol";
import {VssNode} from "./VssNode.sol";

/// @title Task contract of a network with validation groups, to test the profile `crynux-vss`
/// @notice One node runs each task; tasks of one creator are compared in threes. Selectors, events, texts, roles and
/// the order of logs are those of Crynux's second generation (crynux-contracts 0c10b81); the code was written for these
/// tests. Left out: the draw that decides whether a task is compared (any proof is accepted), the distance of pictures
/// (results are equal or not), sharing a group's fee (one node gets all), downloads by nodes that were not chosen,
/// weights of the draw of nodes.
contract VssTask is VssBook {
    VssNode private immutable _node;
    CrynuxQos private immutable _qos;
    uint256 private _lastSequence;
    mapping(bytes32 => bool) private _usedNonces;

    constructor(VssNode node, CrynuxQos qos) {
        (_node, _qos) = (node, qos);
    }

    // --- Creator calls ---

    function createTask(
        TaskType taskType,
        bytes32 taskIDCommitment,
        bytes32 nonce,
        string[] calldata modelIDs,
        uint256 minimumVRAM,
        string calldata requiredGPU,
        uint256 requiredGPUVRAM,
        uint256[3] calldata taskVersion,
        uint256 taskSize
    ) external payable {
        require(taskType == TaskType.SD || bytes(requiredGPU).length > 0, "GPU name is empty");
        require(msg.value > 0, "Task fee cannot be 0");
        require(!_usedNonces[nonce], "Nonce is used");
        _usedNonces[nonce] = true;
        TaskInfo storage task = _tasks[taskIDCommitment];
        (task.taskType, task.creator, task.nonce, task.sequence) = (taskType, msg.sender, nonce, ++_lastSequence);
        (task.taskFee, task.taskSize, task.modelIDs) = (msg.value, taskSize, modelIDs);
        (task.minimumVRAM, task.requiredGPU, task.requiredGPUVRAM) = (minimumVRAM, requiredGPU, requiredGPUVRAM);
        task.taskVersion = taskVersion;
        address chosen = _freeFor(taskIDCommitment);
        if (chosen == address(0)) _enqueue(taskIDCommitment);
        else _start(taskIDCommitment, chosen);
    }

    function validateSingleTask(bytes32 taskIDCommitment, bytes calldata, bytes calldata publicKey) external {
        TaskInfo storage task = _ofCreator(taskIDCommitment, false);
        _isOfCreator(publicKey);
        _qos.addTaskScore(task.selectedNode, 0);
        if (task.status == TaskStatus.ErrorReported) {
            _abort(taskIDCommitment, TaskAbortReason.IncorrectResult);
        } else {
            task.status = TaskStatus.Validated;
            emit TaskValidated(taskIDCommitment);
        }
    }

    function validateTaskGroup(
        bytes32 taskIDCommitment1,
        bytes32 taskIDCommitment2,
        bytes32 taskIDCommitment3,
        bytes32 taskGUID,
        bytes calldata,
        bytes calldata publicKey
    ) external {
        bytes32[3] memory ids = [taskIDCommitment1, taskIDCommitment2, taskIDCommitment3];
        for (uint256 place; place < 3; ++place) {
            TaskInfo storage task = _ofCreator(ids[place], true);
            require(place == 0 || _tasks[ids[0]].sequence < task.sequence, "Invalid task sequence");
        }
        _isOfCreator(publicKey);
        for (uint256 place; place < 3; ++place) {
            TaskInfo storage task = _tasks[ids[place]];
            require(keccak256(abi.encodePacked(taskGUID, task.nonce)) == ids[place], "Incorrect Task GUID");
            // By the place of the argument, as in Crynux: it does not depend on speed.
            if (task.selectedNode != address(0)) _qos.addTaskScore(task.selectedNode, place);
        }
        _compare(ids);
    }

    // --- Node calls ---

    function submitTaskScore(bytes32 taskIDCommitment, bytes calldata taskScore) external {
        TaskInfo storage task = _ofNode(taskIDCommitment);
        require(taskScore.length > 0, "Invalid task score");
        (task.status, task.score) = (TaskStatus.ScoreReady, taskScore);
        emit TaskScoreReady(taskIDCommitment, task.selectedNode, taskScore);
    }

    function reportTaskError(bytes32 taskIDCommitment, TaskError fault) external {
        TaskInfo storage task = _ofNode(taskIDCommitment);
        (task.status, task.fault) = (TaskStatus.ErrorReported, fault);
        emit TaskErrorReported(taskIDCommitment, task.selectedNode, fault);
    }

    /// @notice Called by creator or node; the caller chooses the reason.
    function abortTask(bytes32 taskIDCommitment, TaskAbortReason abortReason) external {
        _abortable(taskIDCommitment);
        _abort(taskIDCommitment, abortReason);
    }

    // --- Relay calls ---

    function reportTaskParametersUploaded(bytes32 taskIDCommitment) external {
        TaskInfo storage task = _ofRelay(taskIDCommitment, TaskStatus.Started, TaskStatus.Started);
        task.status = TaskStatus.ParametersUploaded;
        emit TaskParametersUploaded(taskIDCommitment, task.selectedNode);
    }

    function reportTaskResultUploaded(bytes32 taskIDCommitment) external {
        TaskInfo storage task = _ofRelay(taskIDCommitment, TaskStatus.Validated, TaskStatus.GroupValidated);
        if (task.status == TaskStatus.Validated) {
            task.status = TaskStatus.EndSuccess;
            emit TaskEndSuccess(taskIDCommitment);
        } else {
            task.status = TaskStatus.EndGroupSuccess;
            emit TaskEndGroupSuccess(taskIDCommitment);
        }
        _pay(task.selectedNode, task.taskFee);
        _free(task.selectedNode);
    }

    // --- Node contract calls (open to anyone) ---

    function nodeAvailableCallback(address root) external {
        bytes32 best;
        for (uint256 place; place < _queue.length; ++place) {
            bytes32 id = _queue[place];
            if (_fits(root, _tasks[id]) && (best == 0 || _price(id) > _price(best))) best = id;
        }
        if (best == 0) return;
        _dequeue(best);
        _start(best, root);
    }

    // --- Task progress ---

    function _start(bytes32 id, address chosen) private {
        TaskInfo storage task = _tasks[id];
        (task.selectedNode, task.status, task.startTimestamp) = (chosen, TaskStatus.Started, block.timestamp);
        emit TaskStarted(id, chosen);
        _nodeTasks[chosen] = id;
        _node.startTask(chosen, task.modelIDs);
        for (uint256 place; place < task.modelIDs.length; ++place) {
            if (_node.nodeContainsModelID(chosen, task.modelIDs[place])) continue;
            emit DownloadModel(chosen, task.modelIDs[place], task.taskType);
        }
    }

    function _abort(bytes32 id, TaskAbortReason reason) private {
        TaskInfo storage task = _tasks[id];
        TaskStatus last = task.status;
        if (last == TaskStatus.EndAborted) return;
        (task.status, task.abortReason) = (TaskStatus.EndAborted, reason);
        emit TaskEndAborted(id, msg.sender, last, reason);
        _pay(task.creator, task.taskFee);
        if (last == TaskStatus.Queued) return _dequeue(id);
        // A node that caused the delay gets nothing, and is kicked out after some such tasks.
        if (last != TaskStatus.ParametersUploaded) _qos.addTaskScore(task.selectedNode, 0);
        _free(task.selectedNode);
    }

    /// @dev Two equal answers of the existing ones are the result; three different ones give none.
    function _compare(bytes32[3] memory ids) private {
        bytes32[] memory there = _answered(ids);
        TaskStatus[3] memory ends = _ends(there);
        for (uint256 place; place < there.length; ++place) {
            _end(there[place], ends[place]);
        }
    }

    function _ends(bytes32[] memory there) private view returns (TaskStatus[3] memory ends) {
        (ends[0], ends[1], ends[2]) = (TaskStatus.EndAborted, TaskStatus.EndAborted, TaskStatus.EndAborted);
        (uint256 one, uint256 other) = _firstEqual(there);
        if (other == 0) return ends;
        // Two equal error reports bring no result: only a node with another answer is slashed.
        if (_tasks[there[one]].status == TaskStatus.ScoreReady) {
            (ends[one], ends[other]) = (TaskStatus.GroupValidated, TaskStatus.EndGroupRefund);
        }
        if (there.length < 3) return ends;
        uint256 third = 3 - one - other;
        ends[third] = _isSame(there[one], there[third]) ? TaskStatus.EndGroupRefund : TaskStatus.EndInvalidated;
    }

    /// @dev Returns (0, 0) if all differ.
    function _firstEqual(bytes32[] memory there) private view returns (uint256, uint256) {
        for (uint256 one; one < there.length; ++one) {
            for (uint256 other = one + 1; other < there.length; ++other) {
                if (_isSame(there[one], there[other])) return (one, other);
            }
        }
        return (0, 0);
    }

    function _end(bytes32 id, TaskStatus how) private {
        if (how == TaskStatus.EndAborted) return _abort(id, TaskAbortReason.IncorrectResult);
        TaskInfo storage task = _tasks[id];
        task.status = how;
        if (how == TaskStatus.GroupValidated) {
            emit TaskValidated(id);
            return;
        }
        bool isRefund = how == TaskStatus.EndGroupRefund;
        if (isRefund) emit TaskEndGroupRefund(id);
        else emit TaskEndInvalidated(id);
        _pay(task.creator, task.taskFee);
        if (isRefund) return _free(task.selectedNode);
        delete _nodeTasks[task.selectedNode];
        _node.slash(task.selectedNode);
    }

    /// @dev Called after the task's own event: logs of the node contract, and of its next task, come last.
    function _free(address selected) private {
        delete _nodeTasks[selected];
        _node.finishTask(selected);
    }

    function _pay(address to, uint256 amount) private {
        (bool success,) = to.call{value: amount}("");
        require(success, "Token transfer failed");
    }

    // --- Queries of tasks and nodes ---

    /// @dev Returns zero if no fitting node is free. As in Crynux, the hashed input is predictable.
    function _freeFor(bytes32 id) private view returns (address) {
        address[] memory free = _node.getAvailableNodes();
        uint256 count;
        for (uint256 place; place < free.length; ++place) {
            if (_fits(free[place], _tasks[id])) free[count++] = free[place];
        }
        if (count == 0) return address(0);
        return free[uint256(keccak256(abi.encode(block.number - 1, id))) % count];
    }

    function _fits(address candidate, TaskInfo storage task) private view returns (bool) {
        VssNode.NodeInfo memory info = _node.getNodeInfo(candidate);
        if (bytes(task.requiredGPU).length > 0) {
            return info.gpuID == keccak256(abi.encodePacked(task.requiredGPU, task.requiredGPUVRAM));
        }
        return info.gpu.vram >= task.minimumVRAM;
    }

    function _price(bytes32 id) private view returns (uint256) {
        return _tasks[id].taskFee / _tasks[id].taskSize;
    }

    function _answered(bytes32[3] memory ids) private view returns (bytes32[] memory there) {
        uint256 count;
        there = new bytes32[](3);
        for (uint256 place; place < 3; ++place) {
            if (_tasks[ids[place]].status != TaskStatus.EndAborted) there[count++] = ids[place];
        }
        assembly ("memory-safe") {
            mstore(there, count)
        }
    }

    function _isSame(bytes32 one, bytes32 other) private view returns (bool) {
        TaskInfo storage first = _tasks[one];
        TaskInfo storage second = _tasks[other];
        if (first.status != second.status) return false;
        return first.status != TaskStatus.ScoreReady || keccak256(first.score) == keccak256(second.score);
    }
}
