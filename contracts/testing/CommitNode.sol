// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CommitTask} from "./CommitTask.sol";

/// @title The nodes of a commit/disclose network, for tests of the profile `crynux-commit`
/// @notice Selectors, events and the order of logs are those of Crynux's first generation; the code is our own.
/// It holds no money. Only kickouts and slashes are said in logs.
contract CommitNode {
    enum Status {
        Quit,
        Available,
        Busy,
        PendingPause,
        PendingQuit,
        Paused
    }

    /// @notice A node is kicked out whose last three task scores come to no more than this.
    uint256 public constant KICKOUT_THRESHOLD = 20;

    /// @dev What a task score counts that a node does not have yet.
    uint256 private constant UNKNOWN_SCORE = 20;

    CommitTask public task;
    mapping(address => Status) private _status;
    mapping(address => uint256[3]) private _scores;

    /// @dev Who takes a task, in the order of becoming available.
    address[] private _available;

    event NodeSlashed(address nodeAddress);
    event NodeKickedOut(address nodeAddress);

    modifier onlyTask() {
        require(msg.sender == address(task), "Not called by the task contract");
        _;
    }

    /// @notice Set once, by whoever deploys both.
    function setTask(CommitTask to) external {
        require(address(task) == address(0), "Task contract is set");
        task = to;
    }

    // --- What a node calls ---

    function join(string calldata gpuName, uint256 gpuVram) external {
        require(_status[msg.sender] == Status.Quit, "Node already joined");
        require(bytes(gpuName).length > 0 && gpuVram > 0, "GPU not given");
        _scores[msg.sender] = [UNKNOWN_SCORE, UNKNOWN_SCORE, UNKNOWN_SCORE];
        _makeAvailable(msg.sender);
    }

    function quit() external {
        Status status = _status[msg.sender];
        if (status == Status.Busy) {
            _status[msg.sender] = Status.PendingQuit;
        } else {
            require(status == Status.Available || status == Status.Paused, "Illegal node status");
            _leave(msg.sender);
        }
    }

    function pause() external {
        Status status = _status[msg.sender];
        if (status == Status.Busy) {
            _status[msg.sender] = Status.PendingPause;
        } else {
            require(status == Status.Available, "Illegal node status");
            _remove(msg.sender);
            _status[msg.sender] = Status.Paused;
        }
    }

    function resume() external {
        require(_status[msg.sender] == Status.Paused, "Illegal node status");
        _makeAvailable(msg.sender);
    }

    // --- What everybody may see ---

    function getNodeStatus(address nodeAddress) external view returns (uint256) {
        return uint256(_status[nodeAddress]);
    }

    function availableNodes() external view returns (address[] memory) {
        return _available;
    }

    // --- What the task contract calls ---

    function availableCount() external view returns (uint256) {
        return _available.length;
    }

    /// @notice Takes the three that have waited longest.
    function startTask() external onlyTask returns (address[3] memory nodes) {
        for (uint256 place; place < 3; ++place) {
            nodes[place] = _available[0];
            _remove(nodes[place]);
            _status[nodes[place]] = Status.Busy;
        }
    }

    /// @notice Frees a node with what its task brought it: it is kicked out, takes what it asked for, or the next task.
    function finishTask(address nodeAddress, uint256 score) external onlyTask {
        uint256[3] storage scores = _scores[nodeAddress];
        (scores[0], scores[1], scores[2]) = (scores[1], scores[2], score);
        Status status = _status[nodeAddress];
        if (scores[0] + scores[1] + score <= KICKOUT_THRESHOLD) {
            _leave(nodeAddress);
            emit NodeKickedOut(nodeAddress);
        } else if (status == Status.PendingQuit) {
            _leave(nodeAddress);
        } else if (status == Status.PendingPause) {
            _status[nodeAddress] = Status.Paused;
        } else {
            _makeAvailable(nodeAddress);
        }
    }

    function slash(address nodeAddress) external onlyTask {
        _leave(nodeAddress);
        emit NodeSlashed(nodeAddress);
    }

    // --- Inside ---

    function _makeAvailable(address nodeAddress) private {
        _status[nodeAddress] = Status.Available;
        _available.push(nodeAddress);
        task.nodeAvailableCallback(nodeAddress);
    }

    function _leave(address nodeAddress) private {
        if (_status[nodeAddress] == Status.Available) _remove(nodeAddress);
        _status[nodeAddress] = Status.Quit;
    }

    /// @dev Keeps the order of the others.
    function _remove(address nodeAddress) private {
        uint256 place;
        while (_available[place] != nodeAddress) ++place;
        for (; place + 1 < _available.length; ++place) {
            _available[place] = _available[place + 1];
        }
        _available.pop();
    }
}
