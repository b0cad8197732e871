// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Stand-in for Crynux's QOS: the last three task scores, by which the Node contract kicks out
/// @notice Only for tests. Selectors, role checks and their texts, and the rule are those of Crynux; the code is our
/// own.
contract CrynuxQos {
    uint256 private constant LAST_TASKS = 3;

    /// @dev Points of the first, second and third answer; a task that a node does not have yet counts as UNKNOWN.
    uint256[3] private _rewards = [10, 9, 6];
    uint256 private immutable UNKNOWN;

    address public owner;
    address private _node;
    address private _task;
    uint256 private _threshold;

    mapping(address => uint256) private _count;
    mapping(address => uint256) private _total;
    mapping(address => uint256) private _recentCount;
    /// @dev Newest first.
    mapping(address => uint256[3]) private _recent;

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    modifier onlyNode() {
        require(msg.sender == _node, "Not called by the node contract");
        _;
    }

    modifier onlyTask() {
        require(msg.sender == _task, "Not called by the task contract");
        _;
    }

    /// @param unknown 10 in the VSSTask generation, 20 in the previous one
    constructor(uint256 unknown, uint256 threshold) {
        (owner, UNKNOWN, _threshold) = (msg.sender, unknown, threshold);
    }

    function updateNodeContractAddress(address nodeContract) external onlyOwner {
        _node = nodeContract;
    }

    function updateTaskContractAddress(address taskContract) external onlyOwner {
        _task = taskContract;
    }

    function updateKickoutThreshold(uint256 threshold) external onlyOwner {
        _threshold = threshold;
    }

    function startTask(address nodeAddress) external onlyNode {
        uint256[3] storage recent = _recent[nodeAddress];
        (recent[2], recent[1], recent[0]) = (recent[1], recent[0], 0);
        ++_count[nodeAddress];
        ++_recentCount[nodeAddress];
    }

    function finishTask(address nodeAddress) external onlyNode {
        _total[nodeAddress] += _recent[nodeAddress][0];
    }

    function kickout(address nodeAddress) external onlyNode {
        _recentCount[nodeAddress] = 0;
    }

    function addTaskScore(address nodeAddress, uint256 i) external onlyTask {
        require(i < 3, "Invalid index");
        _recent[nodeAddress][0] += _rewards[i];
    }

    function punish(address nodeAddress) external onlyTask {
        _recent[nodeAddress][0] = 0;
    }

    function getTaskScore(address nodeAddress) external view returns (uint256) {
        return _count[nodeAddress] == 0 ? 2 * _rewards[0] : _total[nodeAddress] / _count[nodeAddress];
    }

    function getTaskCount(address nodeAddress) external view returns (uint256) {
        return _count[nodeAddress];
    }

    function getCurrentTaskScore(address nodeAddress) external view returns (uint256) {
        return _recent[nodeAddress][0];
    }

    function getRecentTaskCount(address nodeAddress) external view returns (uint256) {
        return _recentCount[nodeAddress];
    }

    function getRecentTaskScore(address nodeAddress) public view returns (uint256 sum) {
        for (uint256 place; place < LAST_TASKS && place < _recentCount[nodeAddress]; ++place) {
            sum += _recent[nodeAddress][place];
        }
    }

    function shouldKickOut(address nodeAddress) external view returns (bool) {
        uint256 there = _recentCount[nodeAddress];
        uint256 missing = there < LAST_TASKS ? LAST_TASKS - there : 0;
        return getRecentTaskScore(nodeAddress) + missing * UNKNOWN <= _threshold;
    }
}
