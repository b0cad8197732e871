"""What a cancellation does, which names nobody as its cause: our record says who is to blame.

Networks of the commit/disclose kind cancel so
(docs/explanation/crynux.md#commit-and-disclose-contracts): whoever kept the others waiting timed
out, and the others are innocent.
"""

from collections.abc import Sequence

from oracle.domain.events.network_events import (
    AbortReason,
    TaskAborted,
    TaskCancelled,
    TaskTimedOut,
)
from oracle.domain.fold import task_endings, task_runs
from oracle.domain.fold.preconditions import Breach
from oracle.domain.fold.working_set import WorkingSet
from oracle.domain.state.task import Run, Task


def apply_task_cancelled(ledger: WorkingSet, event: TaskCancelled) -> None:
    """End the named node's run or, if no node is named, a task that nobody has started."""
    known = ledger.tasks.get(event.task)
    breach = _cancellation_breach(known, event)
    if breach is not None:
        ledger.anomaly(event, breach)
    elif event.node is None:
        _end_waiting(ledger, event, known)
    elif known is not None:
        (run,) = task_runs.open_runs(known, event.node)
        task_endings.apply_task_ended(ledger, _ending_event_of(event, run, known))


def _cancellation_breach(task: Task | None, event: TaskCancelled) -> Breach | None:
    if task is not None and task.node is not None:
        return Breach.NOT_OF_THIS_GENERATION
    if event.node is None:
        return Breach.AFTER_TERMINAL if task is not None and task.ending is not None else None
    if task is None or not task.runs:
        return Breach.NOT_STARTED
    return (
        None
        if task_runs.open_runs(task, event.node)
        else task_runs.no_open_run_breach(task, event.node)
    )


def _end_waiting(ledger: WorkingSet, event: TaskCancelled, task: Task | None) -> None:
    if task is not None and task.runs:
        # Its parts end by themselves.
        return
    task_endings.apply_task_ended(
        ledger, TaskAborted(event.at, event.time, event.task, reason=AbortReason.CANCELLED)
    )


def _ending_event_of(event: TaskCancelled, run: Run, task: Task) -> TaskTimedOut | TaskAborted:
    if _was_waited_for(run, task):
        return TaskTimedOut(event.at, event.time, event.task, run.node)
    return TaskAborted(event.at, event.time, event.task, run.node, AbortReason.CANCELLED)


def _was_waited_for(run: Run, task: Task) -> bool:
    """Tell whether the network could not go on without this node.

    First everybody has to commit, then to disclose; an error report is both. At last the node
    whose result was accepted has to bring it: it alone is still there then.
    """
    if not _has_any_commitment(task.runs):
        return not _has_committed(run)
    if run.disclosed_at or run.reported_at:
        return task.validated
    return True


def _has_any_commitment(parts: Sequence[Run]) -> bool:
    return all(_has_committed(part) for part in parts)


def _has_committed(part: Run) -> bool:
    return bool(part.committed_at or part.reported_at)
