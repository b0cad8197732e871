"""Checks whether an event is allowed in the current state of a task or node.

Each function returns the rule that the event would break, or None. Every event about a task that
has already ended breaks a rule, which the docstrings do not repeat. See
docs/reference/events-and-jsonl.md#what-is-legal.
"""

from enum import StrEnum

from oracle.domain.events.network_events import (
    DomainEvent,
    FeeShared,
    LastStatus,
    ResultDisclosed,
    TaskAborted,
    TaskErrorReported,
    TaskStarted,
    TaskSubmitted,
    TaskTimedOut,
)
from oracle.domain.state import Membership, Node, PendingLeave, Task


class Violation(StrEnum):
    """The rules that an event can break, as recorded in anomalies.

    An event that breaks one of the last six rules is still applied. If the event contradicts the
    record that was folded from earlier events, the record is used.
    """

    JOINED_WHILE_MEMBER = "joined_while_member"
    NOT_A_MEMBER = "not_a_member"
    PAUSED_TWICE = "paused_twice"
    NOT_PAUSED = "not_paused"
    PENDING_ALREADY = "pending_already"

    CREATED_TWICE = "created_twice"
    QUEUED_AFTER_START = "queued_after_start"
    STARTED_TWICE = "started_twice"
    NOT_STARTED = "not_started"
    NODE_DOES_NOT_RUN_IT = "node_does_not_run_it"
    RESULT_TWICE = "result_twice"
    VALIDATED_WITHOUT_RESULT = "validated_without_result"
    VALIDATED_TWICE = "validated_twice"
    PAID_TWICE = "paid_twice"
    AFTER_TERMINAL = "after_terminal"

    # On networks where nodes commit and disclose, each pair of task and round is checked
    # separately.
    ROUND_MISSING = "round_missing"
    ROUND_TAKEN = "round_taken"
    NOT_OF_THIS_GENERATION = "not_of_this_generation"
    NOT_COMMITTED = "not_committed"

    GROUP_NAMES_TASK_TWICE = "group_names_task_twice"

    GROUP_NAMES_UNSEEN_TASK = "group_names_unseen_task"
    TASK_SCORED_BEFORE = "task_scored_before"
    NODE_DIFFERS = "node_differs"
    LAST_STATUS_DIFFERS = "last_status_differs"
    LIMIT_NOT_BELIEVED = "limit_not_believed"
    TIME_FELL = "time_fell"


def find_membership_violation(node: Node | None) -> Violation | None:
    """Return a violation if the node is not a member, otherwise None."""
    if node is None or node.membership is not Membership.MEMBER:
        return Violation.NOT_A_MEMBER
    return None


def find_leave_request_violation(node: Node | None, request: PendingLeave) -> Violation | None:
    """Check a request to leave, and return its violation, if any.

    Neither a repeated request nor the request of a non-member is allowed.
    """
    if node is None or node.membership is not Membership.MEMBER:
        return Violation.NOT_A_MEMBER
    if node.pending is PendingLeave.QUIT:
        return Violation.PENDING_ALREADY
    is_paused = node.paused or node.pending is PendingLeave.PAUSE
    return Violation.PAUSED_TWICE if is_paused and request is PendingLeave.PAUSE else None


def find_creation_violation(task: Task) -> Violation | None:
    """Return a violation if the created task already exists or has ended.

    Otherwise, the result is None.
    """
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    return None if task.created_at is None else Violation.CREATED_TWICE


def find_queueing_violation(task: Task) -> Violation | None:
    """Return a violation if the queued task has already started or ended.

    Otherwise, the result is None.
    """
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    return None if task.started_at is None and not task.runs else Violation.QUEUED_AFTER_START


def find_start_violation(task: Task, event: TaskStarted) -> Violation | None:
    """Return a violation if the task was already started in this round or by this node, else None.

    A task without rounds can be started only once, and a task with rounds only with a round.
    """
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    if task.node is not None:
        return Violation.STARTED_TWICE
    if not task.runs:
        return None
    if event.round is None:
        return Violation.ROUND_MISSING
    is_round_or_node_taken = any(
        run.round == event.round or run.node == event.node for run in task.runs
    )
    return Violation.ROUND_TAKEN if is_round_or_node_taken else None


def find_result_violation(
    task: Task | None, event: TaskSubmitted | TaskErrorReported
) -> Violation | None:
    """Return a violation if the result is repeated or comes from another node, else None.

    In networks that reveal results, a submission may later turn out to be an error report.
    """
    violation = _find_node_violation(task, event)
    if violation is not None or task is None or task.stopped_at is None:
        return violation
    is_reveal = isinstance(event, TaskErrorReported) and not _is_result_revealed(task)
    return None if is_reveal else Violation.RESULT_TWICE


def find_disclosure_violation(task: Task | None, event: ResultDisclosed) -> Violation | None:
    """Return a violation if the node submitted no result, or has already disclosed it.

    Otherwise, the result is None.
    """
    violation = _find_node_violation(task, event)
    if violation is not None or task is None:
        return violation
    if task.stopped_at is None:
        return Violation.NOT_COMMITTED
    return Violation.RESULT_TWICE if _is_result_revealed(task) else None


def find_fee_share_violation(task: Task | None, event: FeeShared) -> Violation | None:
    """Return a violation if the task was already paid, or not run by the node.

    Otherwise, the result is None.
    """
    violation = _find_node_violation(task, event)
    if violation is not None or task is None:
        return violation
    return None if task.paid is None else Violation.PAID_TWICE


def _is_result_revealed(task: Task) -> bool:
    return task.error_reported or task.revealed_at is not None or task.validated


def _find_node_violation(
    task: Task | None, event: TaskSubmitted | TaskErrorReported | ResultDisclosed | FeeShared
) -> Violation | None:
    if task is None:
        return Violation.NOT_STARTED
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    if task.node != event.node:
        return Violation.NOT_STARTED if task.node is None else Violation.NODE_DOES_NOT_RUN_IT
    return None


def find_validation_violation(task: Task | None) -> Violation | None:
    """Return a violation if the task was already validated or has no result.

    Otherwise, the result is None.
    """
    if task is None:
        return Violation.VALIDATED_WITHOUT_RESULT
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    if task.validated:
        return Violation.VALIDATED_TWICE
    is_answered = task.stopped_at is not None or any(
        run.disclosed_at or run.reported_at for run in task.runs
    )
    return None if is_answered else Violation.VALIDATED_WITHOUT_RESULT


def find_ending_violation(task: Task | None, event: DomainEvent) -> Violation | None:
    """Return a violation if the task has already ended or was never started, else None.

    A task that was never started may still abort.
    """
    if task is None:
        return None if isinstance(event, TaskAborted) else Violation.NOT_STARTED
    if task.ending is not None:
        return Violation.AFTER_TERMINAL
    if task.node is None and not task.runs and not isinstance(event, TaskAborted):
        return Violation.NOT_STARTED
    return None


def get_last_status(task: Task) -> LastStatus:
    """Return a task's last status, as known from earlier events."""
    if task.validated:
        return LastStatus.VALIDATED
    if task.stopped_at is not None:
        return LastStatus.ERROR_REPORTED if task.error_reported else LastStatus.SUBMITTED
    if task.node is not None:
        return LastStatus.STARTED
    return LastStatus.QUEUED if task.queued else LastStatus.CREATED


def has_last_status_mismatch(task: Task, event: TaskAborted | TaskTimedOut) -> bool:
    """Return whether a terminal event contradicts the known last status of its task."""
    return event.last_status is not None and event.last_status is not get_last_status(task)
