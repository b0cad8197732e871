// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Contests} from "./Contests.sol";
import {TaskOrders} from "./TaskOrders.sol";
import {TaskStarts} from "./TaskStarts.sol";

/// @title System tasks and second groups
/// @notice A node that is never drawn has no score, and a contest needs a second group. So the dispatcher may create
/// tasks of its own and start them in the same transaction: they run only on these nodes, and delay no other task. They
/// are paid from the dispatcher's credit (fund), which gets the refunds, and are judged like any other task.
abstract contract Probes is TaskOrders, TaskStarts, Contests {
    /// @notice The dispatcher created `task`, and those after it, for these nodes: a group if there are several.
    /// Emitted after their TaskCreated and TaskStarted.
    event ProbeStarted(bytes32 indexed task, address[] nodes);

    /// @notice The dispatcher's credit is below the fees.
    error PurseTooSmall(uint256 held, uint256 fees);

    /// @notice Creates a task for each of the nodes and starts it there, or reverts. With `contested` the tasks are the
    /// second group of a contest: they repeat its work, on none of the first group's nodes.
    /// @param order the id is the first task's; the others get the next numbers. The group's size is 0 for one node,
    /// else their number
    /// @param fee of each task, wei
    /// @param contested the contested group whose work this is; 0 = none, a system task
    function probe(Order calldata order, uint256 fee, address[] calldata nodes, bytes32 contested)
        external
        onlyDispatcher
    {
        uint256 fees = fee * nodes.length;
        uint256 held = withdrawable[msg.sender];
        if (held < fees) revert PurseTooSmall(held, fees);
        // Checked first, so that a node that has paused does not cost the dispatcher the gas of the orders.
        for (uint256 i = 0; i < nodes.length; ++i) {
            _requireIdleMember(nodes[i]);
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
