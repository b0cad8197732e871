// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Adapter} from "./Adapter.sol";

/// @notice Common functions of Crynux's Node contracts of 2024 and 2025; a status has the same number in both.
interface INode {
    function getNodeStatus(address node) external view returns (uint256);
    function finishTask(address node) external;
    function updateTaskContractAddress(address to) external;
    function transferOwnership(address to) external;
}

/// @notice Crynux's QOS contract: number of the node's last tasks that count for the network's own kickout.
interface IRecentTasks {
    function getRecentTaskCount(address node) external view returns (uint256);
}

/// @title Kick target for a Node contract that removes nodes only at the end of a task
/// @notice Such a contract has no kick function: it removes a node whose last three tasks brought no points. Its owner
/// may set the task contract, so the adapter, as its owner, takes that role for one call, gives the node empty tasks
/// until it is removed with its stake, and restores the task contract.
/// @dev See docs/explanation/kickouts.md#adapters for all special cases.
abstract contract NodeAdapter is Adapter {
    uint256 private constant QUIT = 0;
    uint256 private constant AVAILABLE = 1;

    /// @dev Number of last tasks that the network counts: a node that got this many empty tasks is removed.
    uint256 private constant LAST_TASKS = 3;

    INode public immutable NODE;

    /// @notice The contract that counts a node's last tasks for NODE.
    IRecentTasks public immutable QOS;

    /// @notice NODE's task contract, which is restored after each kickout; NODE has no getter for it.
    address public taskContract;

    /// @dev The receiver of the stake may call back; the task contract must not be restored before the kickout is done.
    bool private _isKicking;

    event TaskContractSet(address indexed to);
    event RoleGivenBack(address indexed to);

    /// @notice The node runs a task (2, 3, 4) or is paused (5): it can be removed once it is available.
    error NodeBusy(address node, uint256 status);
    /// @notice The call is made during another kickout.
    error AlreadyKicking();
    /// @notice LAST_TASKS empty tasks have not removed the node.
    error StillIn(address node);
    /// @notice QOS counts the tasks of another Node contract.
    error WrongQos();
    error PaymentRefused();

    constructor(address node, address qos, address task) {
        NODE = INode(_hasCode(node));
        QOS = IRecentTasks(_hasCode(qos));
        taskContract = _hasCode(task);
        emit TaskContractSet(task);
    }

    /// @notice Receives the stakes of nodes that the network slashes, which are sent to the owner of NODE.
    receive() external payable {}

    /// @notice NODE calls this on its task contract for every node that becomes available, also while it is the
    /// adapter.
    function nodeAvailableCallback(address) external view {
        if (msg.sender != address(NODE)) revert NotAllowed(msg.sender);
    }

    /// @notice Sets the network's task contract, as NODE's owner may.
    function updateTaskContractAddress(address to) external onlyOwner {
        taskContract = _hasCode(to);
        NODE.updateTaskContractAddress(to);
        emit TaskContractSet(to);
    }

    /// @notice Withdraws the slashed stakes.
    function collect(address payable to) external onlyOwner {
        (bool done,) = to.call{value: address(this).balance}("");
        if (!done) revert PaymentRefused();
    }

    /// @notice Makes `to` the owner of NODE: the previous owner, or the next adapter.
    function giveBack(address to) external onlyOwner {
        NODE.transferOwnership(to);
        emit RoleGivenBack(to);
    }

    /// @dev Starts an empty task on the node.
    function _start(address node) internal virtual;

    function _kick(address node) internal override {
        uint256 status = NODE.getNodeStatus(node);
        if (status == QUIT) return;
        // The task would lose its node: no call could end the task, and its fee would stay locked.
        if (status != AVAILABLE) revert NodeBusy(node, status);
        if (_isKicking) revert AlreadyKicking();
        _isKicking = true;
        NODE.updateTaskContractAddress(address(this));
        _emptyTasks(node);
        NODE.updateTaskContractAddress(taskContract);
        _isKicking = false;
    }

    function _emptyTasks(address node) private {
        for (uint256 round; round < LAST_TASKS; ++round) {
            _start(node);
            if (QOS.getRecentTaskCount(node) == 0) revert WrongQos();
            NODE.finishTask(node);
            if (NODE.getNodeStatus(node) == QUIT) return;
            // The node was removed, and joined again when it was paid: a new membership of an expelled node.
            if (QOS.getRecentTaskCount(node) == 0) return;
        }
        revert StillIn(node);
    }
}
