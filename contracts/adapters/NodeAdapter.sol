// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Adapter} from "./Adapter.sol";

/// @notice What two generations of Crynux's Node contract have in common; a status is the same number in both.
interface INode {
    function getNodeStatus(address node) external view returns (uint256);
    function finishTask(address node) external;
    function updateTaskContractAddress(address to) external;
    function transferOwnership(address to) external;
}

/// @notice Crynux's QOS contract: how many of the node's last tasks count for the network's own kickout.
interface IRecentTasks {
    function getRecentTaskCount(address node) external view returns (uint256);
}

/// @title Puts out nodes of a Node contract that lets nobody go but at the end of a task
/// @notice Such a contract has no function that kicks: it puts out the node whose last three tasks brought it nothing. Its
/// owner may name the task contract, so the adapter, as its owner, takes that place for one call, gives the node empty
/// tasks until it is out with its stake, and puts the task contract back.
/// @dev See docs/explanation/kickouts.md#adapters for every trap that is met here.
abstract contract NodeAdapter is Adapter {
    uint256 private constant QUIT = 0;
    uint256 private constant AVAILABLE = 1;

    /// @dev The network looks at so many of the last tasks: nobody is in after so many empty ones.
    uint256 private constant LAST_TASKS = 3;

    INode public immutable NODE;

    /// @notice The contract that counts a node's last tasks for NODE.
    IRecentTasks public immutable QOS;

    /// @notice NODE's task contract, which NODE tells nobody: put back after each kickout.
    address public taskContract;

    /// @dev Whoever is paid its stake may call back; the task contract must not return before it is done.
    bool private _isKicking;

    event TaskContractSet(address indexed to);
    event RoleGivenBack(address indexed to);

    /// @notice The node runs a task (2, 3, 4) or pauses (5): it can be put out once it is available.
    error NodeBusy(address node, uint256 status);
    /// @notice A kickout within a kickout.
    error AlreadyKicking();
    /// @notice As many empty tasks as the network looks at have not put the node out.
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

    /// @notice Stakes of the nodes that the network slashes are sent to the owner of NODE.
    receive() external payable {}

    /// @notice NODE tells its task contract of every node that becomes available, also while that is the adapter.
    function nodeAvailableCallback(address) external view {
        if (msg.sender != address(NODE)) revert NotAllowed(msg.sender);
    }

    /// @notice Names the network's task contract, as NODE's owner does.
    function updateTaskContractAddress(address to) external onlyOwner {
        taskContract = _hasCode(to);
        NODE.updateTaskContractAddress(to);
        emit TaskContractSet(to);
    }

    /// @notice Takes what slashing brought.
    function collect(address payable to) external onlyOwner {
        (bool done,) = to.call{value: address(this).balance}("");
        if (!done) revert PaymentRefused();
    }

    /// @notice Makes `to` the owner of NODE: who had it before, or the next adapter.
    function giveBack(address to) external onlyOwner {
        NODE.transferOwnership(to);
        emit RoleGivenBack(to);
    }

    /// @dev Gives the node a task.
    function _start(address node) internal virtual;

    function _kick(address node) internal override {
        uint256 status = NODE.getNodeStatus(node);
        if (status == QUIT) return;
        // Its task would lose its node: nothing could end it any more, and its fee would stay locked.
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
            // It was out, and joined again when it was paid: a new membership, which the oracle knows to be expelled.
            if (QOS.getRecentTaskCount(node) == 0) return;
        }
        revert StillIn(node);
    }
}
