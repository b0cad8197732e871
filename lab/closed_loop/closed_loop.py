"""Runs simulated networks in which the tested policy draws the node of each task.

A loop ends when the planned number of tasks has been ordered. It uses the product's own code for
the fold, the scores, the kickout condition and the draw. See docs/explanation/attacks.md. Several
loops run in parallel processes if more than one is allowed.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from typing_extensions import override

from lab.backtest.intervals import ExclusionTracker
from lab.backtest.system_columns import SystemColumn
from lab.backtest.worker_pool import ignore_interrupts
from lab.closed_loop.loop_plan import LoopPlan, Participants, build_application_creator
from lab.closed_loop.loop_result import LoopResult, finalize_loop
from lab.closed_loop.players import LoopNode, LoopScore, NodeEvent
from lab.closed_loop.running import endings
from lab.closed_loop.running.answers import schedule_validation_if_settled
from lab.closed_loop.running.folded_network import FoldedNetwork
from lab.closed_loop.running.loop_state import LOOP_START_TIME, Agenda, LoopState
from lab.closed_loop.running.membership import add_node, kick_out_node, react_to_event
from lab.closed_loop.running.orders import (
    order_second_group,
    start_order_stream,
    start_waiting_tasks,
)
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.kickout_evidence import (
    compute_creator_spread,
    find_incident_hold_reason,
)
from oracle.domain.reports.kickout_review import UnansweredScore, count_incident_scores
from oracle.errors import FatalError
from oracle.systems.registry import get_policy

# Seconds between two draws for waiting tasks. A draw may succeed even if no node was released,
# because an excluded node may have recovered.
_QUEUE_CHECK_SECONDS = 15


def run_closed_loop(
    column: SystemColumn, plan: LoopPlan, loop_participants: Participants
) -> LoopResult:
    """Run one closed-loop simulation of a system, and return its result.

    The same arguments always give the same result.

    Raises:
        ValueError: the system does not score groups, or its policy does not exist.
    """
    check_simulatable(column)
    policy = get_policy(column.policy, column.policy_changes)
    network = FoldedNetwork(column.rules, policy, LOOP_START_TIME)
    state = LoopState(plan, network, Agenda(), ExclusionTracker(column.rules))
    for role in loop_participants.nodes:
        add_node(state, role)
    for stream_number, creator in enumerate(
        (build_application_creator(plan), *loop_participants.creators)
    ):
        start_order_stream(state, creator, stream_number)
    state.agenda.schedule(LOOP_START_TIME, _trigger_queue_check, state)
    _run_scheduled_actions(state)
    return finalize_loop(state)


def check_simulatable(column: SystemColumn) -> None:
    """Check that a system's rules score validation groups, as simulations require.

    Raises:
        ValueError: the system has no rules, or scores as the legacy system does.
    """
    if not column.has_rules or column.rules.legacy is not None:
        raise ValueError(
            f"{column.name}: this system does not score groups and cannot be simulated in a "
            "closed loop"
        )


def _run_scheduled_actions(state: LoopState) -> None:
    for time, action, arguments in state.agenda.drain_actions():
        state.network.time = time
        action(*arguments)
        _apply_changes(state)
        while state.contests:
            order_second_group(state, state.contests.pop())
        if state.may_start_tasks:
            state.may_start_tasks = False
            if state.queue:
                start_waiting_tasks(state)
                _apply_changes(state)
        if state.is_over:
            return


def _apply_changes(state: LoopState) -> None:
    """Process the orders, scores and kickouts changed by the last action."""
    for order in state.changed_orders:
        schedule_validation_if_settled(state, order)
    state.changed_orders.clear()
    changes = state.network.drain_changes()
    for entry in changes.scores:
        state.node_by_address[entry.node].recent_scores.append(
            LoopScore(
                state.creator_by_task[entry.task],
                entry.score,
                entry.time,
                is_answered=entry.elapsed is not None,
            )
        )
    state.counts.anomalies += len(changes.anomalies)
    for change in changes.kickouts:
        _handle_due_kickout(state, change)
    for order in state.judged_orders:
        keys = [task.key for task in order.tasks]
        state.network.drop_tasks(keys)
        for key in keys:
            del state.creator_by_task[key]
    state.judged_orders.clear()


def _handle_due_kickout(state: LoopState, change: KickoutDue) -> None:
    """Schedule the accusation of a node with a newly due kickout, or count it as held.

    Somebody accuses the node, waits for the veto delay and executes the kickout
    (docs/explanation/kickouts.md#lifecycle). The accusation follows after `report_seconds`,
    because an accepted round must first state that the kickout is due.
    """
    if change.closed_at is None:
        node = state.node_by_address[change.node]
        if _is_kickout_held(state, node, change.opened_at):
            state.counts.held[node.role.owner, node.role.kind] += 1
            return
        state.agenda.schedule(
            state.now + state.economics.report_seconds, _accuse_node, state, node
        )


def _is_kickout_held(state: LoopState, node: LoopNode, opened_at: Position) -> bool:
    rules, scores = state.network.rules, node.recent_scores
    creator_spread = compute_creator_spread(
        ((score.creator, score.score) for score in scores), rules
    )
    unanswered_scores = [
        UnansweredScore(score.time, score.creator)
        for score in scores
        if score.score == 0 and not score.is_answered
    ]
    incidents = list(state.network.incidents.values())
    incident_score_count = count_incident_scores(unanswered_scores, incidents, opened_at)
    return (
        creator_spread.find_hold_reason(rules) is not None
        or find_incident_hold_reason(len(scores), incident_score_count, rules) is not None
    )


def _accuse_node(state: LoopState, node: LoopNode) -> None:
    if node.joined_at is None or node.kick_at is not None or not state.is_kickout_due(node):
        return
    node.kick_at = state.now + state.economics.veto_delay
    state.agenda.schedule(node.kick_at, _execute_kickout, state, node, node.kick_at)
    react_to_event(state, node, NodeEvent.KICKOUT_PENDING)


def _execute_kickout(state: LoopState, node: LoopNode, ready_at: int) -> None:
    if node.joined_at is None or node.kick_at != ready_at:
        return
    if not state.is_kickout_due(node):
        node.kick_at = None
        return
    if node.task is None:
        kick_out_node(state, node)
    else:
        # A kickout aborts the node's task. The node is removed when the task has ended.
        endings.abort_task(state, node.task, AbortReason.CANCELLED)


def _trigger_queue_check(state: LoopState) -> None:
    state.may_start_tasks = True
    state.agenda.schedule(state.now + _QUEUE_CHECK_SECONDS, _trigger_queue_check, state)


class LoopJob:
    """A closed loop to run: its system, its plan and a builder of participants.

    Jobs with the same system name, plan and function are equal. `build_participants` must be
    picklable.
    """

    __slots__ = ("_key", "build_participants", "column", "plan")

    def __init__(
        self,
        column: SystemColumn,
        plan: LoopPlan,
        build_participants: Callable[[LoopPlan], Participants],
    ) -> None:
        self.column, self.plan, self.build_participants = column, plan, build_participants
        self._key = (column.name, plan, build_participants)

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopJob) and self._key == other._key


def run_jobs(
    jobs: Sequence[LoopJob],
    processes: int,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> list[LoopResult]:
    """Run closed-loop simulations, and return the results in job order.

    `on_progress` is called after each job with the number of finished jobs and the total number of
    jobs. The results do not depend on the number of processes.

    Raises:
        ValueError: a system cannot be simulated.
        FatalError: a worker process ended before its work was done.
    """
    results = []
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            results.append(_run_job(job))
            on_progress(len(results), len(jobs))
        return results
    context = get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), context) as pool:
        with ignore_interrupts():
            futures = [pool.submit(_run_job, job) for job in jobs]
        try:
            for future in futures:
                results.append(future.result())
                on_progress(len(results), len(jobs))
        except BrokenProcessPool:
            raise FatalError(
                "a worker process died, possibly out of memory; try --jobs 1"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
    return results


def _run_job(job: LoopJob) -> LoopResult:
    return run_closed_loop(job.column, job.plan, job.build_participants(job.plan))
