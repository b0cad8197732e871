"""Simulates a task until its answer, with delays, timeouts and waiting for others."""

from lab.closed_loop.economics import GasAction
from lab.closed_loop.players import ERROR, AppOrder, LoopNode, LoopTask
from lab.closed_loop.running import endings
from lab.closed_loop.running.judgement import validate_order
from lab.closed_loop.running.loop_state import LOOP_START_TIME, LoopState
from oracle.domain.events.network_events import TaskErrorReported, TaskSubmitted

# Seconds that a creator takes to judge an order.
_JUDGEMENT_SECONDS = 2


def schedule_answer_or_timeout(state: LoopState, task: LoopTask, node: LoopNode) -> None:
    """Schedule the answer or the timeout of a task that has just started on a node."""
    role, timeout = node.role, task.order.shape.timeout
    timeout_at = state.now + timeout + 1
    if role.stops_at is not None and state.now - LOOP_START_TIME >= role.stops_at:
        state.counts.wasted += 1
        state.agenda.schedule(timeout_at, _time_out_unsettled_task, state, task)
        return
    if node.random_stream.draw_bool(role.failures):
        _charge_computing(state, node, min(task.seconds, timeout))
        state.agenda.schedule(timeout_at, _time_out_unsettled_task, state, task)
        return
    planned_answer = role.behaviour.choose_answer_time(task)
    if planned_answer.delay_seconds is not None and planned_answer.delay_seconds <= timeout:
        state.agenda.schedule(state.now + planned_answer.delay_seconds, _answer_task, state, task)
    elif planned_answer.delay_seconds is None and planned_answer.awaited_answers:
        task.awaited_answers = planned_answer.awaited_answers
        state.agenda.schedule(timeout_at - 1, _answer_task, state, task)
        _schedule_answer_if_peers_answered(state, task)
    else:
        if planned_answer.delay_seconds is not None:
            _charge_computing(state, node, timeout)
        state.agenda.schedule(timeout_at, _time_out_unsettled_task, state, task)


def _charge_computing(state: LoopState, node: LoopNode, seconds: int) -> None:
    state.get_income_and_expenses(node.role.owner).computing += (
        state.economics.gpu_second * seconds * node.role.cost // 1000
    )


def _answer_task(state: LoopState, task: LoopTask) -> None:
    node = task.node
    if task.is_settled or node is None or task.started_at is None:
        return
    node_answer = node.role.behaviour.choose_answer(task)
    _charge_computing(state, node, node_answer.computed_seconds)
    if node_answer.answer is None:
        timeout_at = task.started_at + task.order.shape.timeout + 1
        state.agenda.schedule(max(timeout_at, state.now), _time_out_unsettled_task, state, task)
        return
    task.answer = node_answer.answer
    task.answered_at = state.now
    task.can_reveal = node_answer.can_reveal
    event_type = TaskErrorReported if node_answer.answer == ERROR else TaskSubmitted
    state.network.emit_event(event_type, task.key, node.address)
    is_in_group = task.order.group is not None
    state.charge_gas(
        node.role.owner, GasAction.ANSWER_IN_GROUP if is_in_group else GasAction.ANSWER
    )
    for peer in task.group_peers:
        _schedule_answer_if_peers_answered(state, peer)
    schedule_validation_if_settled(state, task.order)


def _schedule_answer_if_peers_answered(state: LoopState, task: LoopTask) -> None:
    """Schedule a waiting task's answer once enough members of its group have answered."""
    if not task.awaited_answers or task.is_settled:
        return
    if sum(peer.answer is not None for peer in task.group_peers) >= task.awaited_answers:
        task.awaited_answers = 0
        state.agenda.schedule(state.now + 1, _answer_task, state, task)


def _time_out_unsettled_task(state: LoopState, task: LoopTask) -> None:
    if not task.is_settled:
        endings.time_out_task(state, task)


def schedule_validation_if_settled(state: LoopState, order: AppOrder) -> None:
    """Schedule the validation of an order once all its tasks are settled."""
    if not order.is_judged and all(task.is_settled for task in order.tasks):
        order.is_judged = True
        state.agenda.schedule(state.now + _JUDGEMENT_SECONDS, validate_order, state, order)
