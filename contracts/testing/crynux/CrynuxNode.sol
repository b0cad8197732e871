// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CrynuxQos} from "../CrynuxQos.sol";

/// @notice Callback of a Node contract on its task contract.
interface ITasks {
    function nodeAvailableCallback(address root) external;
}

/// @title Common base of the Node contracts of two Crynux generations: statuses, stakes, kickouts, roles
/// @notice Only for tests. Selectors, texts, roles and the order of payments, calls and logs are Crynux's; the code was
/// written for these tests. As in Crynux, the task contract has no getter, and a stake is paid by a call that must
/// succeed.
abstract contract CrynuxNode {
    enum Status {
        Quit,
        Available,
        Busy,
        PendingPause,
        PendingQuit,
        Paused
    }

    uint256 private constant STAKE = 400 ether;

    CrynuxQos internal immutable _qos;
    address public owner;
    address private _tasks;

    mapping(address => Status) private _status;
    mapping(address => uint256) private _stakes;

    /// @dev Available nodes, in the order of becoming available.
    address[] private _available;

    event NodeSlashed(address nodeAddress);
    event NodeKickedOut(address nodeAddress);

    modifier onlyOwner() {
        if (msg.sender != owner) _refuseCaller();
        _;
    }

    modifier onlyTask() {
        require(msg.sender == _tasks, "Not called by the task contract");
        _;
    }

    constructor(CrynuxQos qos) {
        (owner, _qos) = (msg.sender, qos);
    }

    // --- Owner calls ---

    function updateTaskContractAddress(address taskContract) external onlyOwner {
        _tasks = taskContract;
    }

    function transferOwnership(address newOwner) external onlyOwner {
        if (newOwner == address(0)) _refuseOwner();
        owner = newOwner;
    }

    function renounceOwnership() external onlyOwner {
        owner = address(0);
    }

    // --- Node calls ---

    function quit() external {
        Status status = _status[msg.sender];
        if (status == Status.Busy) {
            _status[msg.sender] = Status.PendingQuit;
            return;
        }
        require(status == Status.Available || status == Status.Paused, "Illegal node status");
        if (status == Status.Available) _unavailable(msg.sender);
        _remove(msg.sender);
        _pay(msg.sender, msg.sender);
    }

    function pause() external {
        Status status = _status[msg.sender];
        if (status == Status.Busy) {
            _status[msg.sender] = Status.PendingPause;
            return;
        }
        require(status == Status.Available, "Illegal node status");
        _status[msg.sender] = Status.Paused;
        _unavailable(msg.sender);
    }

    function resume() external {
        require(_status[msg.sender] == Status.Paused, "Illegal node status");
        _status[msg.sender] = Status.Available;
        _becomesAvailable(msg.sender);
    }

    // --- Views ---

    function getStakedAmount(address nodeAddress) external view returns (uint256) {
        return _stakes[nodeAddress];
    }

    function getAvailableNodes() external view returns (address[] memory) {
        return _available;
    }

    // --- Task contract calls ---

    function finishTask(address nodeAddress) external onlyTask {
        Status status = _busy(nodeAddress);
        _qos.finishTask(nodeAddress);
        if (_qos.shouldKickOut(nodeAddress)) {
            _qos.kickout(nodeAddress);
            _remove(nodeAddress);
            _pay(nodeAddress, nodeAddress);
            emit NodeKickedOut(nodeAddress);
        } else if (status == Status.Busy) {
            _status[nodeAddress] = Status.Available;
            _becomesAvailable(nodeAddress);
        } else if (status == Status.PendingQuit) {
            _remove(nodeAddress);
            _pay(nodeAddress, nodeAddress);
        } else {
            _status[nodeAddress] = Status.Paused;
        }
    }

    /// @notice The stake goes to the owner.
    function slash(address nodeAddress) external onlyTask {
        _busy(nodeAddress);
        _pay(nodeAddress, owner);
        _qos.finishTask(nodeAddress);
        _qos.kickout(nodeAddress);
        _remove(nodeAddress);
        emit NodeSlashed(nodeAddress);
    }

    // --- Internal functions ---

    function _join() internal {
        require(_status[msg.sender] == Status.Quit, "Node already joined");
        require(msg.value >= STAKE, "Staked amount is not enough");
        _stakes[msg.sender] = msg.value;
        _status[msg.sender] = Status.Available;
        _added(msg.sender);
        _becomesAvailable(msg.sender);
    }

    function _begin(address nodeAddress) internal onlyTask {
        require(_status[nodeAddress] == Status.Available, "Node is not available");
        _unavailable(nodeAddress);
        _status[nodeAddress] = Status.Busy;
        _qos.startTask(nodeAddress);
    }

    /// @dev Hooks: a node was added, removed, freed or taken.
    function _added(address nodeAddress) internal virtual {}

    function _removed(address nodeAddress) internal virtual {}

    function _freed(address nodeAddress) internal virtual {}

    function _taken(address nodeAddress) internal virtual {}

    /// @dev Revert like OpenZeppelin's Ownable of the generation.
    function _refuseCaller() internal view virtual;

    function _refuseOwner() internal view virtual;

    function _statusOf(address nodeAddress) internal view returns (Status) {
        return _status[nodeAddress];
    }

    function _becomesAvailable(address nodeAddress) private {
        _freed(nodeAddress);
        _available.push(nodeAddress);
        ITasks(_tasks).nodeAvailableCallback(nodeAddress);
    }

    /// @dev Keeps the order of the others.
    function _unavailable(address nodeAddress) private {
        _taken(nodeAddress);
        uint256 place;
        while (_available[place] != nodeAddress) ++place;
        for (; place + 1 < _available.length; ++place) {
            _available[place] = _available[place + 1];
        }
        _available.pop();
    }

    function _remove(address nodeAddress) private {
        _removed(nodeAddress);
        _status[nodeAddress] = Status.Quit;
    }

    function _pay(address nodeAddress, address to) private {
        uint256 token = _stakes[nodeAddress];
        _stakes[nodeAddress] = 0;
        (bool success,) = to.call{value: token}("");
        require(success, "Token transfer failed");
    }

    function _busy(address nodeAddress) private view returns (Status status) {
        status = _status[nodeAddress];
        require(
            status == Status.Busy || status == Status.PendingPause || status == Status.PendingQuit, "Illegal node status"
        );
    }
}
