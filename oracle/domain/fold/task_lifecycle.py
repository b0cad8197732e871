"""Applies the events of a task from its creation to its validation."""

from collections.abc import Sequence

from oracle.domain.events.network_events import (
    AbortReason,
    FeeShared,
    ResultDisclosed,
    TaskAborted,
    TaskCancelled,
    TaskCreated,
    TaskErrorReported,
    TaskQueued,
    TaskStarted,
    TaskSubmitted,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.fold import group_validation, node_lifecycle, task_endings, task_runs
from oracle.domain.fold.preconditions import (
    Violation,
    find_creation_violation,
    find_disclosure_violation,
    find_fee_share_violation,
    find_queueing_violation,
    find_result_violation,
    find_start_violation,
    find_validation_violation,
)
from oracle.domain.fold.working_set import EventHandlers, WorkingSet
from oracle.domain.scoring.node_scores import heal_reliability
from oracle.domain.state import Run, Task


def apply_task_cancelled(ledger: WorkingSet, event: TaskCancelled) -> None:
    """End the run of the named node or, without a node, a task that was never started.

    A cancellation does not state its cause. In networks that commit and disclose, the node that
    delayed the others counts as timed out, and the others are not at fault
    (docs/explanation/crynux.md#commit-and-disclose-contracts).
    """
    existing_task = ledger.tasks.get(event.task)
    violation = _find_cancellation_violation(existing_task, event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
    elif event.node is None:
        _abort_unstarted_task(ledger, event, existing_task)
    elif existing_task is not None:
        (run,) = task_runs.find_open_runs(existing_task, event.node)
        task_endings.apply_task_ended(ledger, _build_ending_event(event, run, existing_task))


def _find_cancellation_violation(task: Task | None, event: TaskCancelled) -> Violation | None:
    if task is not None and task.node is not None:
        return Violation.NOT_OF_THIS_GENERATION
    if event.node is None:
        return Violation.AFTER_TERMINAL if task is not None and task.ending is not None else None
    if task is None or not task.runs:
        return Violation.NOT_STARTED
    if task_runs.find_open_runs(task, event.node):
        return None
    return task_runs.build_unmatched_ending_violation(task, event.node)


def _abort_unstarted_task(ledger: WorkingSet, event: TaskCancelled, task: Task | None) -> None:
    if task is not None and task.runs:
        # The task's runs stay open, because each is ended by its own event.
        return
    task_endings.apply_task_ended(
        ledger, TaskAborted(event.at, event.time, event.task, reason=AbortReason.CANCELLED)
    )


def _build_ending_event(event: TaskCancelled, run: Run, task: Task) -> TaskTimedOut | TaskAborted:
    if _was_network_awaiting_run(run, task):
        return TaskTimedOut(event.at, event.time, event.task, run.node)
    return TaskAborted(event.at, event.time, event.task, run.node, AbortReason.CANCELLED)


def _was_network_awaiting_run(run: Run, task: Task) -> bool:
    """Return whether the network was waiting for the run's node at the cancellation.

    First every node has to commit, then every node has to disclose; an error report counts as
    both. After that, the network waits only for the node whose result was accepted, because this
    node has to upload the result.
    """
    if not _have_all_runs_committed(task.runs):
        return not run.has_answered
    if run.disclosed_at or run.reported_at:
        return task.validated
    return True


def _have_all_runs_committed(runs: Sequence[Run]) -> bool:
    return all(run.has_answered for run in runs)


def apply_task_created(ledger: WorkingSet, event: TaskCreated) -> None:
    """Record a new task and its requirements."""
    existing_task = ledger.tasks.get(event.task)
    violation = None if existing_task is None else find_creation_violation(existing_task)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    task = ledger.get_task_for_update(event.task)
    task.created_at = event.at
    task.creator = event.creator
    task.fee = event.fee
    task.min_vram = event.min_vram
    task.required_gpu = event.required_gpu
    task.required_gpu_vram = event.required_gpu_vram
    task.models = event.models or ()
    task.version = event.version
    task.size = event.size
    task.kind = event.kind
    task.timeout = event.timeout
    task.group = event.group
    task.group_size = event.group_size
    if ledger.rules.close == "terminal":
        group_validation.add_task_to_group(ledger, event)


def apply_task_queued(ledger: WorkingSet, event: TaskQueued) -> None:
    """Record that the task was queued because no node was free."""
    existing_task = ledger.tasks.get(event.task)
    violation = None if existing_task is None else find_queueing_violation(existing_task)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    ledger.get_task_for_update(event.task).queued = True


def apply_task_started(ledger: WorkingSet, event: TaskStarted) -> None:
    """Record which node runs the task, and when execution started."""
    existing_task = ledger.tasks.get(event.task)
    violation = None if existing_task is None else find_start_violation(existing_task, event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    task = ledger.get_task_for_update(event.task)
    if event.round is None:
        task.node = event.node
        task.started_at = event.at
        task.started_time = event.time
    else:
        task_runs.start_run(task, event, event.round)
    node = ledger.get_node_for_update(event.node, event.time)
    node.running += 1
    node.last_start = event.time
    node.in_use = task.models
    if node.excluded:
        _clear_healed_exclusion(ledger, event)


def _clear_healed_exclusion(ledger: WorkingSet, event: TaskStarted) -> None:
    """End a node's exclusion if its reliability has reached the exit threshold again."""
    node = ledger.get_node_for_update(event.node, event.time)
    reliability = heal_reliability(node.base, node.since, event.time, ledger.rules)
    node.excluded = reliability < ledger.rules.exclude_exit


def apply_task_submitted(ledger: WorkingSet, event: TaskSubmitted) -> None:
    """Record the submission of a result, which stops the execution clock."""
    existing_task = ledger.tasks.get(event.task)
    if existing_task is not None and existing_task.runs:
        ledger.record_anomaly(event, Violation.NOT_OF_THIS_GENERATION)
        return
    _record_submission_or_error(ledger, event, is_error=False)


def apply_error_reported(ledger: WorkingSet, event: TaskErrorReported) -> None:
    """Record a node's error report.

    The rules decide its rank. An error report after a submission reveals what the node had
    submitted, so the time of the submission is kept.
    """
    existing_task = ledger.tasks.get(event.task)
    if existing_task is not None and existing_task.runs:
        task_runs.apply_run_answer(ledger, event)
        return
    _record_submission_or_error(ledger, event, is_error=True)


def _record_submission_or_error(
    ledger: WorkingSet, event: TaskSubmitted | TaskErrorReported, *, is_error: bool
) -> None:
    violation = find_result_violation(ledger.tasks.get(event.task), event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    task = ledger.get_task_for_update(event.task)
    if task.stopped_at is None:
        task.stopped_at = event.at
        task.stopped_time = event.time
        ledger.record_task_end(event, task, event.node)
        if event.frees:
            task.freed = True
            node_lifecycle.decrement_running_tasks(ledger, event.node, event.at, event.time)
    else:
        task.revealed_at = event.at
    task.error_reported = is_error


def apply_result_disclosed(ledger: WorkingSet, event: ResultDisclosed) -> None:
    """Record the disclosure of a submitted result, keeping its time and rank."""
    existing_task = ledger.tasks.get(event.task)
    if existing_task is not None and existing_task.runs:
        task_runs.apply_run_answer(ledger, event)
        return
    violation = find_disclosure_violation(existing_task, event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    ledger.get_task_for_update(event.task).revealed_at = event.at


def apply_fee_shared(ledger: WorkingSet, event: FeeShared) -> None:
    """Record the node's share of the group's fee for this task."""
    violation = find_fee_share_violation(ledger.tasks.get(event.task), event)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    ledger.get_task_for_update(event.task).paid = event.fee


def apply_task_validated(ledger: WorkingSet, event: TaskValidated) -> None:
    """Record that the task's result was accepted."""
    violation = find_validation_violation(ledger.tasks.get(event.task))
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    ledger.get_task_for_update(event.task).validated = True


HANDLERS: EventHandlers = {
    TaskCreated: apply_task_created,
    TaskQueued: apply_task_queued,
    TaskStarted: apply_task_started,
    TaskSubmitted: apply_task_submitted,
    TaskErrorReported: apply_error_reported,
    ResultDisclosed: apply_result_disclosed,
    TaskValidated: apply_task_validated,
    FeeShared: apply_fee_shared,
    TaskCancelled: apply_task_cancelled,
}
