"""Creators order tasks, and every task is drawn for: at once, or when a node is released."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from lab.closed_loop.chance import Chance
from lab.closed_loop.economics import Gas
from lab.closed_loop.loop_plan import CreatorRole
from lab.closed_loop.players import (
    APPLICATIONS,
    TREASURY,
    AppOrder,
    LoopTask,
    OrderShape,
)
from lab.closed_loop.running import answers, endings
from lab.closed_loop.running.loop_state import BEGIN, LoopState
from oracle.domain.events.network_events import AbortReason, TaskCreated, TaskKind, TaskStarted
from oracle.domain.ids import Address, GroupKey, TaskKey

# Time that an application waits for a node, in seconds.
_PATIENCE = 900
# Maximum number of waiting tasks that are skipped if no free node can take them.
_LOOKED_AT = 6
# Variation of the duration of equal work, in thousandths.
_JITTER = (900, 1100)
_MILLISECONDS = 1000


@dataclass(slots=True)
class OrderStream:
    """A creator's stream of orders; `next_order_at` is in milliseconds of the loop."""

    role: CreatorRole
    chance: Chance
    accounts: Sequence[Address]
    at: int = 0


def open_stream(state: LoopState, role: CreatorRole, number: int) -> None:
    """Start the orders of a creator."""
    accounts = [state.new_address() for _ in range(role.accounts)]
    stream = OrderStream(role, Chance(state.plan.seed, "orders", number), accounts)
    _wait(state, stream)


def _wait(state: LoopState, stream: OrderStream) -> None:
    stream.at += stream.chance.between(0, 2 * stream.role.gap)
    moment = BEGIN + stream.at // _MILLISECONDS
    state.agenda.add(moment, _arrive, state, stream)


def _arrive(state: LoopState, stream: OrderStream) -> None:
    role, chance = stream.role, stream.chance
    shape = role.shape(chance, state.economics)
    creator = stream.accounts[chance.below(len(stream.accounts))]
    jitters = [chance.between(*_JITTER) for _ in range(shape.members)]
    _open(
        state, AppOrder(state.orders, role.owner, creator, _floored(state, shape), None), jitters
    )
    if role.owner == APPLICATIONS:
        state.counts.tasks += shape.members
        state.is_over = state.counts.tasks >= state.plan.tasks
    _wait(state, stream)


def _floored(state: LoopState, shape: OrderShape) -> OrderShape:
    """Return the order with the contract's minimum timeout and fee."""
    if not state.economics.floors:
        return shape
    return shape._replace(
        timeout=max(shape.timeout, state.economics.least_timeout(shape.size)),
        fee=max(shape.fee, state.economics.least_fee(shape.size)),
    )


def contest(state: LoopState, first: AppOrder) -> None:
    """Order a second group for the same task, to decide which answer was right."""
    order = AppOrder(state.orders, TREASURY, first.creator, first.shape, None, contested=first)
    _open(state, order, [_MILLISECONDS] * first.shape.members)


def _open(state: LoopState, order: AppOrder, jitters: Sequence[int]) -> None:
    state.orders += 1
    shape = order.shape
    if shape.members > 1:
        order.group = GroupKey(f"0x{order.number:064x}")
    for place, jitter in enumerate(jitters):
        key = TaskKey(f"0x{order.number:060x}{place:04x}")
        task = LoopTask(key, order, jitter)
        order.tasks.append(task)
        state.creators[key] = order.creator
        state.network.say(
            TaskCreated,
            key,
            creator=order.creator,
            fee=shape.fee,
            size=shape.size,
            kind=TaskKind.SD,
            timeout=shape.timeout,
            group=order.group,
        )
        state.pay_gas(order.owner, Gas.CREATE if order.group is None else Gas.CREATE_IN_GROUP)
    started = [task for task in order.tasks if _place(state, task)]
    for task in order.tasks:
        if task.node is None:
            state.queue.append(task)
            state.agenda.add(state.now + _PATIENCE, _give_up, state, task)
    _begin(state, started)


def serve_queue(state: LoopState) -> None:
    """Give waiting tasks to free nodes, the oldest first."""
    started: list[LoopTask] = []
    passed: list[LoopTask] = []
    queue = state.queue
    while queue and len(passed) < _LOOKED_AT:
        task = queue.popleft()
        if task.is_ended:
            continue
        if _place(state, task):
            started.append(task)
        else:
            passed.append(task)
    queue.extendleft(reversed(passed))
    _begin(state, started)


def _place(state: LoopState, task: LoopTask) -> bool:
    """Draw a node for a task and start it; return False if there is no candidate now."""
    state.network.note_nodes()
    seed = sha256(f"{state.plan.seed} {task.key}".encode()).digest()
    address = state.network.choose(task.key, seed, _taken(task))
    if address is None:
        return False
    node = state.nodes[address]
    state.network.say(TaskStarted, task.key, address)
    state.cards[node.card] += 1
    node.task, node.starts = task, node.starts + 1
    task.node, task.started = node, state.now
    alone = task.order.shape.work * node.role.speed * task.jitter // (_MILLISECONDS**2)
    task.seconds = max(1, alone * state.cards[node.card])
    return True


def _taken(task: LoopTask) -> frozenset[Address]:
    """Return the nodes that have another task of the group, or of the contested group."""
    order = task.order
    tasks = order.tasks if order.contested is None else [*order.tasks, *order.contested.tasks]
    return frozenset(each.node.address for each in tasks if each.node is not None)


def _begin(state: LoopState, started: Sequence[LoopTask]) -> None:
    """Let the nodes decide once all tasks that could start have started.

    The members of a group then see the complete group.
    """
    for task in started:
        if task.node is not None and not task.is_ended:
            answers.begin(state, task, task.node)


def _give_up(state: LoopState, task: LoopTask) -> None:
    if task.node is None and not task.is_ended:
        endings.abort(state, task, AbortReason.CANCELLED)
