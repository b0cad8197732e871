// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Storage, queue and access checks of CommitTask
abstract contract CommitBook {
    /// @param id 0 = no such task, or the task was removed
    /// @param commitments by round; ERROR: an error was reported
    /// @param commits rounds in the order of their commitments; disclosures likewise
    /// @param isFreed by round: the node's part has ended
    struct TaskInfo {
        uint256 id;
        uint256 taskType;
        address creator;
        bytes32 taskHash;
        bytes32 dataHash;
        uint256 fee;
        uint256 startedAt;
        address[3] nodes;
        bytes32[3] commitments;
        bytes32[3] nonces;
        bytes[3] results;
        uint256[] commits;
        uint256[] disclosures;
        bool[3] isFreed;
        uint256 errors;
        bool isSuccess;
        bool isAborted;
        address resultNode;
    }

    bytes32 internal constant ERROR = bytes32(uint256(1));

    /// @notice Maximum tasks that wait for nodes.
    uint256 public immutable queueLimit;

    uint256[] internal _queue;
    mapping(uint256 => TaskInfo) internal _tasks;

    event TaskAborted(uint256 indexed taskId, string reason);

    constructor(uint256 queueLimit_) {
        queueLimit = queueLimit_;
    }

    // --- Points of a part ---

    /// @dev Returns the places of disclosure and commitment, from 1; (0, 0) without a disclosure.
    function _places(TaskInfo storage task, uint256 round) internal view returns (uint256, uint256) {
        uint256 disclosed = _placeOf(task.disclosures, round);
        return disclosed == 0 ? (0, 0) : (disclosed, _placeOf(task.commits, round));
    }

    /// @dev A task that times out pays the nodes that waited for others.
    function _compensated(TaskInfo storage task, uint256 round) internal view returns (uint256, uint256) {
        if (task.commits.length == 3) return _places(task, round);
        if (task.commits.length == 0) return (round + 1, round + 1);
        uint256 committed = _placeOf(task.commits, round);
        return (committed, committed);
    }

    function _points(uint256 place) internal pure returns (uint256) {
        return place == 0 ? 0 : place == 1 ? 10 : place == 2 ? 9 : 6;
    }

    /// @dev Returns the place from 1; 0 = absent.
    function _placeOf(uint256[] storage rounds, uint256 round) internal view returns (uint256) {
        for (uint256 place; place < rounds.length; ++place) {
            if (rounds[place] == round) return place + 1;
        }
        return 0;
    }

    // --- The queue ---

    /// @dev In a full queue the new task replaces the one with the lowest fee.
    function _enqueue(TaskInfo storage task) internal {
        if (_queue.length == queueLimit) {
            uint256 cheapest;
            for (uint256 place = 1; place < _queue.length; ++place) {
                if (_tasks[_queue[place]].fee < _tasks[_queue[cheapest]].fee) cheapest = place;
            }
            uint256 evicted = _queue[cheapest];
            require(_tasks[evicted].fee < task.fee, "Task fee is too low");
            _dequeue(evicted);
            emit TaskAborted(evicted, "Task fee is too low");
            delete _tasks[evicted];
        }
        _queue.push(task.id);
    }

    function _dearest() internal view returns (uint256 best) {
        for (uint256 place = 1; place < _queue.length; ++place) {
            if (_tasks[_queue[place]].fee > _tasks[_queue[best]].fee) best = place;
        }
    }

    /// @dev Keeps the order of the others.
    function _dequeue(uint256 taskId) internal {
        uint256 place;
        while (_queue[place] != taskId) ++place;
        for (; place + 1 < _queue.length; ++place) {
            _queue[place] = _queue[place + 1];
        }
        _queue.pop();
    }

    // --- Access checks ---

    function _known(uint256 taskId) internal view returns (TaskInfo storage task) {
        task = _tasks[taskId];
        require(task.id != 0, "Task not exist");
    }

    /// @dev Returns the task if the sender has this part of it and the part has not ended.
    function _asked(uint256 taskId, uint256 round) internal view returns (TaskInfo storage task) {
        task = _known(taskId);
        require(round < 3, "Round not exist");
        require(task.nodes[round] == msg.sender, "Not selected node");
        require(!task.isFreed[round], "Node has finished");
    }

    function _isSelected(TaskInfo storage task, address account) internal view returns (bool) {
        return task.nodes[0] == account || task.nodes[1] == account || task.nodes[2] == account;
    }

    /// @dev An error report equals nothing, not even another.
    function _isSame(TaskInfo storage task, uint256 one, uint256 other) internal view returns (bool) {
        if (task.commitments[one] == ERROR || task.commitments[other] == ERROR) return false;
        return keccak256(task.results[one]) == keccak256(task.results[other]);
    }
}
