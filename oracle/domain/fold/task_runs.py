"""The runs of a task by several nodes, in a commit-and-disclose network.

Each pair of task and round is tracked and checked separately
(docs/reference/events-and-jsonl.md#what-is-legal). Only legacy rules score runs
(`legacy_round_scores`).
"""

from collections.abc import Sequence

from oracle.domain.events.network_events import (
    ResultCommitted,
    ResultDisclosed,
    TaskErrorReported,
    TaskStarted,
)
from oracle.domain.fold.preconditions import Violation
from oracle.domain.fold.working_set import WorkingSet
from oracle.domain.ids import Address
from oracle.domain.state import Ending, Run, Task


def start_run(task: Task, event: TaskStarted, round_number: int) -> None:
    """Add a run of the event's node in round `round_number` to the task."""
    run = Run(round_number, event.node, event.at, event.time)
    task.runs = (*task.runs, run)


def apply_run_answer(
    ledger: WorkingSet, event: ResultCommitted | ResultDisclosed | TaskErrorReported
) -> None:
    """Record a node's commitment, disclosure or error report in its run."""
    task = ledger.tasks.get(event.task)
    run = None if task is None else _find_run(task, event.node)
    violation = _find_run_violation(task, run, event)
    if task is None or run is None or violation is not None:
        ledger.record_anomaly(event, violation or Violation.NOT_STARTED)
        return
    if isinstance(event, ResultCommitted):
        updated_run = run._replace(committed_at=event.at)
    elif isinstance(event, ResultDisclosed):
        updated_run = run._replace(disclosed_at=event.at)
    else:
        updated_run = run._replace(reported_at=event.at)
    if not run.has_answered:
        ledger.record_task_end(event, task, event.node)
    _replace_run(ledger.get_task_for_update(event.task), updated_run)


def _find_run(task: Task, node: Address) -> Run | None:
    return next((run for run in task.runs if run.node == node), None)


def _replace_run(task: Task, updated_run: Run) -> None:
    task.runs = tuple(updated_run if run.round == updated_run.round else run for run in task.runs)


def _find_run_violation(
    task: Task | None,
    run: Run | None,
    event: ResultCommitted | ResultDisclosed | TaskErrorReported,
) -> Violation | None:
    if task is None:
        return Violation.NOT_STARTED
    if task.ending is not None or (run is not None and run.ending is not None):
        return Violation.AFTER_TERMINAL
    if run is None:
        return _build_missing_run_violation(task)
    if run.disclosed_at or run.reported_at:
        return Violation.RESULT_TWICE
    return _find_commitment_violation(run, event)


def _build_missing_run_violation(task: Task) -> Violation:
    if task.node is not None:
        return Violation.NOT_OF_THIS_GENERATION
    return Violation.NODE_DOES_NOT_RUN_IT if task.runs else Violation.NOT_STARTED


def _find_commitment_violation(
    run: Run, event: ResultCommitted | ResultDisclosed | TaskErrorReported
) -> Violation | None:
    if isinstance(event, ResultCommitted) and run.committed_at:
        return Violation.RESULT_TWICE
    if isinstance(event, ResultDisclosed) and not run.committed_at:
        return Violation.NOT_COMMITTED
    return None


def find_open_runs(task: Task, node: Address | None) -> list[Run]:
    """Return the open runs of a node, or of all nodes if `node` is None."""
    return [run for run in task.runs if run.ending is None and node in (None, run.node)]


def build_unmatched_ending_violation(task: Task, node: Address | None) -> Violation:
    """Return the violation for a terminal event that matches no open run."""
    has_run = node is None or _find_run(task, node) is not None
    return Violation.AFTER_TERMINAL if has_run else Violation.NODE_DOES_NOT_RUN_IT


def end_runs(task: Task, runs: Sequence[Run], outcome: Ending) -> None:
    """Mark these runs of the task as ended."""
    for run in runs:
        _replace_run(task, run._replace(ending=outcome))
