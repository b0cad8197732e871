// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Contests} from "./Contests.sol";
import {TaskOrders} from "./TaskOrders.sol";
import {TaskStarts} from "./TaskStarts.sol";

/// @title System tasks and second groups
/// @notice A node that nobody draws has no score, and a contest needs a second group. So the dispatcher may order tasks of
/// its own and give them to nodes in the same transaction: nobody else can be given them, and no other task has to wait
/// for them. They are paid out of the dispatcher's purse (fund), where the refund comes back to, and are judged like any
/// other task.
abstract contract Probes is TaskOrders, TaskStarts, Contests {
    /// @notice The dispatcher ordered `task`, and those after it, for these nodes: a group where they are several. Said
    /// after their TaskCreated and TaskStarted.
    event ProbeStarted(bytes32 indexed task, address[] nodes);

    /// @notice The dispatcher's purse holds less than the fees.
    error PurseTooSmall(uint256 held, uint256 fees);

    /// @notice Creates a task for each of the nodes and starts it there, or does nothing at all. With `contested` the tasks
    /// are the second group of a contest: they do its work over again, and no node of the first has a part in them.
    /// @param order the id is the first task's; those of the others follow it as numbers. The group's size is 0 for one
    /// node, else their number
    /// @param fee of each task, wei
    /// @param contested the contested group whose work this is; 0 = none, a system task
    function probe(Order calldata order, uint256 fee, address[] calldata nodes, bytes32 contested)
        external
        onlyDispatcher
    {
        uint256 fees = fee * nodes.length;
        uint256 held = withdrawable[msg.sender];
        if (held < fees) revert PurseTooSmall(held, fees);
        // Before the work: a node that pauses first must not cost the dispatcher what the orders cost.
        for (uint256 i = 0; i < nodes.length; ++i) {
            _idle(nodes[i]);
        }
        withdrawable[msg.sender] = held - fees;
        for (uint256 i = 0; i < nodes.length; ++i) {
            _create(order, bytes32(uint256(order.id) + i), fee);
        }
        if (contested != 0) _revalidate(contested, keyOf(msg.sender, order.groupId), nodes.length);
        for (uint256 i = 0; i < nodes.length; ++i) {
            _start(keyOf(msg.sender, bytes32(uint256(order.id) + i)), nodes[i]);
        }
        emit ProbeStarted(keyOf(msg.sender, order.id), nodes);
    }
}
