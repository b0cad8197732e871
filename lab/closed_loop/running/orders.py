"""Creates orders, and draws a node for each task, now or when a node becomes free."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.economics import GasAction
from lab.closed_loop.loop_plan import CreatorRole
from lab.closed_loop.players import (
    APPLICATIONS,
    TREASURY,
    AppOrder,
    LoopTask,
    OrderShape,
)
from lab.closed_loop.running import answers, endings
from lab.closed_loop.running.loop_state import LOOP_START_TIME, LoopState
from oracle.domain.events.network_events import AbortReason, TaskCreated, TaskKind, TaskStarted
from oracle.domain.ids import Address, GroupKey, TaskKey

# Seconds after which a task without a node is cancelled.
_MAX_WAIT_SECONDS = 900
# Maximum number of waiting tasks without a candidate that are skipped before the next check.
_MAX_SKIPPED_TASKS = 6
# Range of the duration of equal work, in thousandths of its usual duration.
_JITTER_RANGE = (900, 1100)
_MILLISECONDS = 1000


@dataclass(slots=True)
class OrderStream:
    """A creator's stream of orders.

    `next_order_at` is in milliseconds after the start of the loop.
    """

    role: CreatorRole
    random_stream: RandomStream
    accounts: Sequence[Address]
    next_order_at: int = 0


def start_order_stream(state: LoopState, role: CreatorRole, stream_number: int) -> None:
    """Create a creator's accounts, and schedule its first order."""
    accounts = [state.create_address() for _ in range(role.accounts)]
    order_stream = OrderStream(
        role, RandomStream(state.plan.seed, "orders", stream_number), accounts
    )
    _schedule_next_order(state, order_stream)


def _schedule_next_order(state: LoopState, stream: OrderStream) -> None:
    stream.next_order_at += stream.random_stream.draw_between(0, 2 * stream.role.gap_milliseconds)
    order_time = LOOP_START_TIME + stream.next_order_at // _MILLISECONDS
    state.agenda.schedule(order_time, _place_order, state, stream)


def _place_order(state: LoopState, stream: OrderStream) -> None:
    role, random_stream = stream.role, stream.random_stream
    shape = role.draw_order_shape(random_stream, state.economics)
    creator = stream.accounts[random_stream.draw_below(len(stream.accounts))]
    jitters = [random_stream.draw_between(*_JITTER_RANGE) for _ in range(shape.members)]
    _create_order_tasks(
        state,
        AppOrder(
            state.order_count, role.owner, creator, _raise_shape_to_minimum(state, shape), None
        ),
        jitters,
    )
    if role.owner == APPLICATIONS:
        state.counts.tasks += shape.members
        state.is_over = state.counts.tasks >= state.plan.tasks
    _schedule_next_order(state, stream)


def _raise_shape_to_minimum(state: LoopState, shape: OrderShape) -> OrderShape:
    """Raise a shape's timeout and fee to the contract's minimum, where they are lower."""
    if not state.economics.floors:
        return shape
    return shape._replace(
        timeout=max(shape.timeout, state.economics.compute_min_timeout(shape.size)),
        fee=max(shape.fee, state.economics.compute_min_fee(shape.size)),
    )


def order_second_group(state: LoopState, contested_order: AppOrder) -> None:
    """Order a second group of the same shape to decide a contest by its verdict."""
    order = AppOrder(
        state.order_count,
        TREASURY,
        contested_order.creator,
        contested_order.shape,
        None,
        contested=contested_order,
    )
    _create_order_tasks(state, order, [_MILLISECONDS] * contested_order.shape.members)


def _create_order_tasks(state: LoopState, order: AppOrder, jitters: Sequence[int]) -> None:
    state.order_count += 1
    shape = order.shape
    if shape.members > 1:
        order.group = GroupKey(f"0x{order.number:064x}")
    for task_index, jitter in enumerate(jitters):
        key = TaskKey(f"0x{order.number:060x}{task_index:04x}")
        task = LoopTask(key, order, jitter)
        order.tasks.append(task)
        state.creator_by_task[key] = order.creator
        state.network.emit_event(
            TaskCreated,
            key,
            creator=order.creator,
            fee=shape.fee,
            size=shape.size,
            kind=TaskKind.SD,
            timeout=shape.timeout,
            group=order.group,
        )
        state.charge_gas(
            order.owner, GasAction.CREATE if order.group is None else GasAction.CREATE_IN_GROUP
        )
    started_tasks = [task for task in order.tasks if _try_start_task(state, task)]
    for task in order.tasks:
        if task.node is None:
            state.queue.append(task)
            state.agenda.schedule(state.now + _MAX_WAIT_SECONDS, _cancel_waiting_task, state, task)
    _schedule_answers(state, started_tasks)


def start_waiting_tasks(state: LoopState) -> None:
    """Draw nodes for waiting tasks, oldest first, and start the tasks that get one."""
    started_tasks: list[LoopTask] = []
    skipped_tasks: list[LoopTask] = []
    queue = state.queue
    while queue and len(skipped_tasks) < _MAX_SKIPPED_TASKS:
        task = queue.popleft()
        if task.is_ended:
            continue
        if _try_start_task(state, task):
            started_tasks.append(task)
        else:
            skipped_tasks.append(task)
    queue.extendleft(reversed(skipped_tasks))
    _schedule_answers(state, started_tasks)


def _try_start_task(state: LoopState, task: LoopTask) -> bool:
    """Draw a node for a task and start it.

    The result is False if there is no candidate.
    """
    state.network.update_node_chooser()
    seed = sha256(f"{state.plan.seed} {task.key}".encode()).digest()
    drawn_node = state.network.draw_node(task.key, seed, _list_reserved_nodes(task))
    if drawn_node is None:
        return False
    node = state.node_by_address[drawn_node]
    state.network.emit_event(TaskStarted, task.key, drawn_node)
    state.task_count_by_gpu[node.gpu] += 1
    node.task, node.start_count = task, node.start_count + 1
    task.node, task.started_at = node, state.now
    single_task_time = task.order.shape.work * node.role.speed * task.jitter // (_MILLISECONDS**2)
    task.seconds = max(1, single_task_time * state.task_count_by_gpu[node.gpu])
    return True


def _list_reserved_nodes(task: LoopTask) -> frozenset[Address]:
    """Return the nodes that must not get this task.

    These nodes have another task of the same group, or had a task of the contested group.
    """
    order = task.order
    tasks = order.tasks if order.contested is None else [*order.tasks, *order.contested.tasks]
    return frozenset(
        task_of_order.node.address for task_of_order in tasks if task_of_order.node is not None
    )


def _schedule_answers(state: LoopState, started_tasks: Sequence[LoopTask]) -> None:
    """Schedule the answer or timeout of each started task, as its node decides.

    This happens after all drawn nodes are assigned, so that each member sees its complete group.
    """
    for task in started_tasks:
        if task.node is not None and not task.is_ended:
            answers.schedule_answer_or_timeout(state, task, task.node)


def _cancel_waiting_task(state: LoopState, task: LoopTask) -> None:
    if task.node is None and not task.is_ended:
        endings.abort_task(state, task, AbortReason.CANCELLED)
