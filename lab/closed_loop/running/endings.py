"""Ends tasks: emits the event, releases the node and pays the fee."""

from typing import Any

from lab.closed_loop.economics import GasAction
from lab.closed_loop.players import LoopNode, LoopTask, NodeEvent
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import kick_out_node, quit_network, react_to_event
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    LastStatus,
    TaskAborted,
    TaskSucceeded,
    TaskTimedOut,
)
from oracle.domain.scoring.node_scores import is_excluded


def end_task(
    state: LoopState,
    task: LoopTask,
    event_type: type[DomainEvent],
    **fields: Any,  # noqa: ANN401 - an event's own fields
) -> None:
    """End a task by emitting an event of the given type."""
    node = task.node
    address = None if node is None else node.address
    event = state.network.emit_event(event_type, task.key, address, **fields)
    task.is_ended = True
    state.changed_orders.append(task.order)
    if node is not None:
        _release_node(state, node, event)


def complete_task(state: LoopState, task: LoopTask) -> None:
    """Accept a task's result, and pay the fee to the node."""
    end_task(state, task, TaskSucceeded)
    fee = task.order.shape.fee
    state.get_income_and_expenses(task.order.owner).paid += fee
    if task.node is not None:
        task.node.earned_fees += fee
        state.get_income_and_expenses(task.node.role.owner).earned += fee


def time_out_task(
    state: LoopState, task: LoopTask, last_status: LastStatus = LastStatus.STARTED
) -> None:
    """End a task at its deadline, and charge its creator for toll and gas.

    The task has no result.
    """
    shape = task.order.shape
    end_task(state, task, TaskTimedOut, last_status=last_status)
    state.get_income_and_expenses(task.order.owner).tolls += state.economics.compute_toll(
        shape.size, shape.fee
    )
    state.charge_gas(task.order.owner, GasAction.TIME_OUT)


def abort_task(state: LoopState, task: LoopTask, reason: AbortReason) -> None:
    """End a task without payment, for example after a wrong result.

    Another example is a cancellation.
    """
    end_task(state, task, TaskAborted, reason=reason)


def _release_node(state: LoopState, node: LoopNode, event: DomainEvent) -> None:
    node.task = None
    state.task_count_by_gpu[node.gpu] -= 1
    state.may_start_tasks = True
    fold_node = state.network.get_node(node.address)
    state.exclusions.update_node(fold_node, event)
    if node.joined_at is None:
        return
    if node.kick_at is not None and node.kick_at <= state.now and state.is_kickout_due(node):
        kick_out_node(state, node)
    elif node.leaving is not None:
        quit_network(state, node, node.leaving)
    elif isinstance(event, TaskTimedOut) and is_excluded(
        fold_node, state.now, state.network.rules
    ):
        react_to_event(state, node, NodeEvent.EXCLUDED)
