"""Applies the end of a task to the task, to its node, and to the node's reliability H.

See docs/reference/scoring-rules.md#reliability.
"""

from oracle.domain.events.network_events import (
    TaskAborted,
    TaskInvalidated,
    TaskRefunded,
    TaskSucceeded,
    TaskTimedOut,
)
from oracle.domain.fold import group_validation, legacy_round_scores, node_lifecycle, task_runs
from oracle.domain.fold.preconditions import (
    Violation,
    find_ending_violation,
    has_last_status_mismatch,
)
from oracle.domain.fold.working_set import ReliabilityChange, WorkingSet, update_reliability
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import heal_reliability
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.domain.state import Ending, Node, Task

Terminal = TaskSucceeded | TaskRefunded | TaskInvalidated | TaskAborted | TaskTimedOut

_ENDINGS: dict[type[Terminal], Ending] = {
    TaskSucceeded: Ending.SUCCEEDED,
    TaskRefunded: Ending.REFUNDED,
    TaskInvalidated: Ending.INVALIDATED,
    TaskAborted: Ending.ABORTED,
    TaskTimedOut: Ending.TIMED_OUT,
}
# Only these endings change a node's reliability, because an abort is not the node's fault and a
# wrong result is not a matter of QoS.
_CAUSES = {
    Ending.SUCCEEDED: ReliabilityCause.SUCCEEDED,
    Ending.REFUNDED: ReliabilityCause.REFUNDED,
    Ending.TIMED_OUT: ReliabilityCause.TIMED_OUT,
}


def apply_task_ended(ledger: WorkingSet, event: Terminal) -> None:
    """End the task, or the runs to which the event refers if several nodes run the task."""
    existing_task = ledger.tasks.get(event.task)
    violation = find_ending_violation(existing_task, event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    if existing_task is not None and existing_task.runs:
        _end_runs(ledger, event, existing_task)
        return
    if existing_task is not None:
        _record_status_mismatch(ledger, event, existing_task)
    task = ledger.get_task_for_update(event.task)
    _set_task_ending(event, task)
    if task.node is not None:
        _release_task_runner(
            ledger, event, task, task.node, has_answered=task.stopped_at is not None
        )
    if ledger.rules.close == "terminal":
        group_validation.close_group_if_complete(ledger, event, task)


def _record_status_mismatch(ledger: WorkingSet, event: Terminal, task: Task) -> None:
    """Record an anomaly if a terminal event contradicts earlier events.

    The record takes priority over the event.
    """
    if event.node is not None and event.node != task.node:
        ledger.record_anomaly(event, Violation.NODE_DIFFERS)
    if isinstance(event, TaskAborted | TaskTimedOut) and has_last_status_mismatch(task, event):
        ledger.record_anomaly(event, Violation.LAST_STATUS_DIFFERS)


def _set_task_ending(event: Terminal, task: Task) -> None:
    task.ending = _ENDINGS[type(event)]
    task.ended_at = event.at
    task.ended_time = event.time
    if isinstance(event, TaskAborted):
        task.abort_reason = event.reason


def _end_runs(ledger: WorkingSet, event: Terminal, existing_task: Task) -> None:
    """End the run of the event's node, or all open runs if the event names no node."""
    runs_to_end = task_runs.find_open_runs(existing_task, event.node)
    if not runs_to_end:
        violation = task_runs.build_unmatched_ending_violation(existing_task, event.node)
        ledger.record_anomaly(event, violation)
        return
    task = ledger.get_task_for_update(event.task)
    task_runs.end_runs(task, runs_to_end, _ENDINGS[type(event)])
    if all(run.ending is not None for run in task.runs):
        _set_task_ending(event, task)
    for run in runs_to_end:
        _release_task_runner(ledger, event, task, run.node, has_answered=run.has_answered)
    if task.ending is not None:
        legacy_round_scores.score_ended_task(ledger, event, task)
        if ledger.rules.close == "terminal":
            group_validation.close_group_if_complete(ledger, event, task)


def _release_task_runner(
    ledger: WorkingSet, event: Terminal, task: Task, address: Address, *, has_answered: bool
) -> None:
    """Release the node from the task, and update its task count and reliability.

    The end counts for the detection of incidents if the node has not answered before. An abort
    without an answer does not count, because it shows nothing about the node.
    """
    node = ledger.get_node_for_update(address, event.time)
    if not task.freed:
        node.running -= 1
    ending = _ENDINGS[type(event)]
    if not has_answered and ending is not Ending.ABORTED:
        ledger.record_task_end(event, task, address, is_timeout=ending is Ending.TIMED_OUT)
    cause = _CAUSES.get(ending)
    if cause is ReliabilityCause.TIMED_OUT and not ledger.rules.is_credible_timeout(task.timeout):
        _record_excused_timeout(ledger, event, node)
    elif cause is not None:
        update_reliability(ledger, event, node, cause)
    if node.pending is not None and not node.running:
        node_lifecycle.apply_pending_leave(ledger, address, event.at, event.time)


def _record_excused_timeout(ledger: WorkingSet, event: Terminal, node: Node) -> None:
    """Record a timeout without effect, because the task's time limit was not credible.

    See docs/reference/scoring-rules.md#limits-that-are-not-believed.
    """
    ledger.record_anomaly(event, Violation.LIMIT_NOT_BELIEVED)
    reliability = heal_reliability(node.base, node.since, event.time, ledger.rules)
    cause = ReliabilityCause.TIMEOUT_VOID
    change = ReliabilityChange(
        node.address, event.at, event.time, cause, event.task, reliability, reliability
    )
    ledger.changes.reliability.append(change)
