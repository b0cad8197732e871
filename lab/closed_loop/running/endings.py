"""The end of a task: the event is emitted, the node is released, and fees are paid."""

from typing import Any

from lab.closed_loop.economics import Gas
from lab.closed_loop.players import LoopNode, LoopTask, Turnpoint
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import consider, kick_out, quit_now
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    LastStatus,
    TaskAborted,
    TaskSucceeded,
    TaskTimedOut,
)
from oracle.domain.scoring.node_scores import is_excluded


def end(state: LoopState, task: LoopTask, kind: type[DomainEvent], **fields: Any) -> None:  # noqa: ANN401 - an event's own fields
    """End a task by emitting an event of the given type."""
    node = task.node
    address = None if node is None else node.address
    event = state.network.say(kind, task.key, address, **fields)
    task.is_ended = True
    state.touched.append(task.order)
    if node is not None:
        _release(state, node, event)


def succeed(state: LoopState, task: LoopTask) -> None:
    """Accept a result and pay its fee to the node."""
    end(state, task, TaskSucceeded)
    fee = task.order.shape.fee
    state.money(task.order.owner).paid += fee
    if task.node is not None:
        task.node.earned += fee
        state.money(task.node.role.owner).earned += fee


def time_out(state: LoopState, task: LoopTask, last: LastStatus = LastStatus.STARTED) -> None:
    """End a task without a result in time; its creator loses the toll."""
    shape = task.order.shape
    end(state, task, TaskTimedOut, last_status=last)
    state.money(task.order.owner).tolls += state.economics.toll(shape.size, shape.fee)
    state.pay_gas(task.order.owner, Gas.TIME_OUT)


def abort(state: LoopState, task: LoopTask, reason: AbortReason) -> None:
    """End a task without payment: no node is at fault, or the result is worthless."""
    end(state, task, TaskAborted, reason=reason)


def _release(state: LoopState, node: LoopNode, event: DomainEvent) -> None:
    node.task = None
    state.cards[node.card] -= 1
    state.is_stirred = True
    row = state.network.node(node.address)
    state.exclusions.look(row, event)
    if node.joined_at is None:
        return
    if node.kick_at is not None and node.kick_at <= state.now and state.is_due(node):
        kick_out(state, node)
    elif node.leaving is not None:
        quit_now(state, node, node.leaving)
    elif isinstance(event, TaskTimedOut) and is_excluded(row, state.now, state.network.rules):
        consider(state, node, Turnpoint.EXCLUDED)
