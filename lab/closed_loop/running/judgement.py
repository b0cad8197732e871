"""Simulates how creators judge orders.

They accept single results, and the results of a majority in groups. See
docs/explanation/attacks.md#the-network.
"""

from collections.abc import Sequence

from lab.closed_loop.economics import GasAction
from lab.closed_loop.players import APPLICATIONS, ERROR, TRUTH, AppOrder, LoopTask
from lab.closed_loop.running import endings
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import slash_node
from oracle.domain.events.network_events import (
    AbortReason,
    GroupValidated,
    LastStatus,
    TaskInvalidated,
    TaskRefunded,
    TaskValidated,
)


def validate_order(state: LoopState, order: AppOrder) -> None:
    """Judge an order once all its tasks have been answered or have ended."""
    order.is_judged = True
    if order.group is None:
        _validate_single_task(state, order)
    else:
        _validate_group(state, order)
    _record_order_result(state, order)
    state.judged_orders.append(order)


def _validate_single_task(state: LoopState, order: AppOrder) -> None:
    (task,) = order.tasks
    if task.is_ended:
        return
    if task.answer == ERROR:
        endings.abort_task(state, task, AbortReason.ERROR_REPORTED)
        return
    state.charge_gas(order.owner, GasAction.VALIDATE)
    state.network.emit_event(TaskValidated, task.key)
    endings.complete_task(state, task)
    order.verdict = task.answer


def _validate_group(state: LoopState, order: AppOrder) -> None:
    with state.network.emit_in_one_transaction():
        _settle_group_by_majority(state, order)


def _settle_group_by_majority(state: LoopState, order: AppOrder) -> None:
    for task in order.tasks:
        if not task.is_ended and not task.can_reveal:
            endings.time_out_task(state, task, LastStatus.SUBMITTED)
    state.charge_gas(order.owner, GasAction.VALIDATE_GROUP)
    state.network.emit_event(GroupValidated, order.group, tuple(task.key for task in order.tasks))
    answered_tasks = [task for task in order.tasks if not task.is_ended]
    order.verdict = _find_majority_answer(answered_tasks, order.shape.members)
    if order.verdict is None:
        for task in answered_tasks:
            abort_reason = AbortReason.INCORRECT_RESULT
            endings.abort_task(
                state, task, AbortReason.ERROR_REPORTED if not task.answer else abort_reason
            )
    else:
        _apply_verdict(state, order, answered_tasks)


def _find_majority_answer(answered_tasks: Sequence[LoopTask], group_size: int) -> int | None:
    """Return the answer of more than half of the group's members, or None.

    Members whose task has ended still count as members.
    """
    answers = [task.answer for task in answered_tasks]
    return next((answer for answer in answers if 2 * answers.count(answer) > group_size), None)


def _apply_verdict(state: LoopState, order: AppOrder, answered_tasks: Sequence[LoopTask]) -> None:
    """End the tasks of a group with a majority, and contest the minority's answers.

    The fastest node of the majority is paid, and the fees of the others go back to the creator.
    """
    agreeing_tasks = [task for task in answered_tasks if task.answer == order.verdict]
    dissenting_tasks = [task for task in answered_tasks if task.answer != order.verdict]
    fastest_task = min(agreeing_tasks, key=_compute_elapsed_seconds)
    for task in agreeing_tasks:
        if order.verdict == ERROR:
            endings.abort_task(state, task, AbortReason.ERROR_REPORTED)
            continue
        state.network.emit_event(TaskValidated, task.key)
        if task is fastest_task:
            endings.complete_task(state, task)
        else:
            endings.end_task(state, task, TaskRefunded)
    for task in dissenting_tasks:
        if _is_exempt_from_slashing(state, task):
            endings.abort_task(state, task, AbortReason.ERROR_REPORTED)
        else:
            endings.end_task(state, task, TaskInvalidated)
    _open_or_decide_contest(
        state,
        order,
        [task for task in dissenting_tasks if not _is_exempt_from_slashing(state, task)],
    )


def _is_exempt_from_slashing(state: LoopState, task: LoopTask) -> bool:
    """Return whether a losing answer is an error report, which is never slashed.

    The network does not slash for it.
    """
    return task.answer == ERROR and not state.economics.error_is_slashed


def _compute_elapsed_seconds(task: LoopTask) -> int:
    return (task.answered_at or 0) - (task.started_at or 0)


def _open_or_decide_contest(
    state: LoopState, order: AppOrder, accused_tasks: Sequence[LoopTask]
) -> None:
    """Contest the minority's answers, or decide a contest by slashing the losers.

    Without contests, the minority is slashed at once. The verdict of a second group decides a
    contest.
    """
    first_order = order.contested
    if first_order is None and state.economics.revalidation:
        if accused_tasks and state.economics.second_groups:
            state.contests.append(order)
        return
    if first_order is None:
        _slash_nodes_of_tasks(state, accused_tasks)
        return
    if order.verdict == first_order.verdict:
        _slash_nodes_of_tasks(
            state,
            [*_select_tasks_by_answer(first_order, order.verdict, is_equal=False), *accused_tasks],
        )
    elif any(task.answer == order.verdict for task in first_order.tasks):
        # The minority was right, so the first group's majority is slashed instead.
        _slash_nodes_of_tasks(
            state,
            [
                *_select_tasks_by_answer(first_order, first_order.verdict, is_equal=True),
                *accused_tasks,
            ],
        )


def _select_tasks_by_answer(
    order: AppOrder, answer: int | None, *, is_equal: bool
) -> list[LoopTask]:
    return [
        task
        for task in order.tasks
        if task.answer is not None and task.can_reveal and (task.answer == answer) is is_equal
    ]


def _slash_nodes_of_tasks(state: LoopState, tasks: Sequence[LoopTask]) -> None:
    for task in tasks:
        node = task.node
        if node is None or node.is_slashed or _is_exempt_from_slashing(state, task):
            continue
        # A contested stake is locked, so the node cannot leave.
        node.leaving = node.kick_at = None
        if node.task is not None:
            endings.abort_task(state, node.task, AbortReason.CANCELLED)
        slash_node(state, node)


def _record_order_result(state: LoopState, order: AppOrder) -> None:
    if order.owner == APPLICATIONS and order.contested is None:
        state.counts.orders += 1
        state.counts.failed += order.verdict in {None, ERROR}
        state.counts.lies += order.verdict not in {None, ERROR, TRUTH}
