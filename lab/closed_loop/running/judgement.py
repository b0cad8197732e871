"""Judgement by creators: single results are accepted, groups are decided by majority.

See docs/explanation/attacks.md#the-network.
"""

from collections.abc import Sequence

from lab.closed_loop.economics import Gas
from lab.closed_loop.players import APPLICATIONS, ERROR, TRUTH, AppOrder, LoopTask
from lab.closed_loop.running import endings
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import slash
from oracle.domain.events.network_events import (
    AbortReason,
    GroupValidated,
    LastStatus,
    TaskInvalidated,
    TaskRefunded,
    TaskValidated,
)


def judge_order(state: LoopState, order: AppOrder) -> None:
    """Judge an order whose tasks all have an answer or have ended."""
    order.is_judged = True
    if order.group is None:
        _judge_alone(state, order)
    else:
        _judge_group(state, order)
    _count(state, order)
    state.done.append(order)


def _judge_alone(state: LoopState, order: AppOrder) -> None:
    (task,) = order.tasks
    if task.is_ended:
        return
    if task.answer == ERROR:
        endings.abort(state, task, AbortReason.ERROR_REPORTED)
        return
    state.pay_gas(order.owner, Gas.VALIDATE)
    state.network.say(TaskValidated, task.key)
    endings.succeed(state, task)
    order.verdict = task.answer


def _judge_group(state: LoopState, order: AppOrder) -> None:
    with state.network.transaction():
        _compare(state, order)


def _compare(state: LoopState, order: AppOrder) -> None:
    for task in order.tasks:
        if not task.is_ended and not task.opens:
            endings.time_out(state, task, LastStatus.SUBMITTED)
    state.pay_gas(order.owner, Gas.VALIDATE_GROUP)
    state.network.say(GroupValidated, order.group, tuple(task.key for task in order.tasks))
    answered = [task for task in order.tasks if not task.is_ended]
    order.verdict = _majority(answered, order.shape.members)
    if order.verdict is None:
        for task in answered:
            wrong = AbortReason.INCORRECT_RESULT
            endings.abort(state, task, AbortReason.ERROR_REPORTED if not task.answer else wrong)
    else:
        _follow(state, order, answered)


def _majority(answered: Sequence[LoopTask], size: int) -> int | None:
    """Return the answer of more than half of the group; ended members count as members."""
    answers = [task.answer for task in answered]
    return next((each for each in answers if 2 * answers.count(each) > size), None)


def _follow(state: LoopState, order: AppOrder, answered: Sequence[LoopTask]) -> None:
    """Pay the fastest of the majority and refund its other members; accuse the minority."""
    agreed = [task for task in answered if task.answer == order.verdict]
    others = [task for task in answered if task.answer != order.verdict]
    fastest = min(agreed, key=_elapsed)
    for task in agreed:
        if order.verdict == ERROR:
            endings.abort(state, task, AbortReason.ERROR_REPORTED)
            continue
        state.network.say(TaskValidated, task.key)
        if task is fastest:
            endings.succeed(state, task)
        else:
            endings.end(state, task, TaskRefunded)
    for task in others:
        if _is_spared(state, task):
            endings.abort(state, task, AbortReason.ERROR_REPORTED)
        else:
            endings.end(state, task, TaskInvalidated)
    _decide(state, order, [task for task in others if not _is_spared(state, task)])


def _is_spared(state: LoopState, task: LoopTask) -> bool:
    """Return whether a losing answer is an error report that is not slashed."""
    return task.answer == ERROR and not state.economics.error_is_slashed


def _elapsed(task: LoopTask) -> int:
    return (task.answered or 0) - (task.started or 0)


def _decide(state: LoopState, order: AppOrder, accused: Sequence[LoopTask]) -> None:
    """Slash the minority at once, or after a second group has confirmed the majority."""
    first = order.contested
    if first is None and state.economics.revalidation:
        if accused and state.economics.second_groups:
            state.contests.append(order)
        return
    if first is None:
        _slash(state, accused)
        return
    if order.verdict == first.verdict:
        _slash(state, [*_of(first, order.verdict, alike=False), *accused])
    elif any(task.answer == order.verdict for task in first.tasks):
        # The minority was right, so the first majority is slashed instead.
        _slash(state, [*_of(first, first.verdict, alike=True), *accused])


def _of(order: AppOrder, answer: int | None, *, alike: bool) -> list[LoopTask]:
    return [
        task
        for task in order.tasks
        if task.answer is not None and task.opens and (task.answer == answer) is alike
    ]


def _slash(state: LoopState, tasks: Sequence[LoopTask]) -> None:
    for task in tasks:
        node = task.node
        if node is None or node.is_slashed or _is_spared(state, task):
            continue
        # The node cannot leave before, because a contested stake is locked.
        node.leaving = node.kick_at = None
        if node.task is not None:
            endings.abort(state, node.task, AbortReason.CANCELLED)
        slash(state, node)


def _count(state: LoopState, order: AppOrder) -> None:
    if order.owner == APPLICATIONS and order.contested is None:
        state.counts.orders += 1
        state.counts.failed += order.verdict in {None, ERROR}
        state.counts.lies += order.verdict not in {None, ERROR, TRUTH}
