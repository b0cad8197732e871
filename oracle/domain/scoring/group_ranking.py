"""Who was fastest in a validation group, and what that is worth. Pure functions.

See docs/reference/scoring-rules.md#task-groups.
"""

from collections.abc import Sequence

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.group import GroupMember
from oracle.domain.state.task import Ending, Task

# Of a legacy task: the commitment and the disclosure.
_ROUNDS = 2
_FRUITLESS = (Ending.ABORTED, Ending.TIMED_OUT)


def elapsed_of(task: Task) -> int | None:
    """Return the seconds from start to submission or error report; None without one."""
    if task.stopped_time is None or task.started_time is None:
        return None
    return max(0, task.stopped_time - task.started_time)


def ranked(tasks: Sequence[Task], rules: Rules, *, in_order: bool = False) -> list[Task]:
    """Return the tasks that have a result as the group closes, fastest first.

    Error reports come last, unless the rules rank them as reported. Empty where the whole group is
    rejected. Ties go to the task created, else
    started, first. `in_order`: they stand as they finished, and no time is looked at.
    """
    if rules.creator_timeout_rejects_group and any(
        task.abort_reason is AbortReason.CREATOR_VALIDATION_TIMEOUT for task in tasks
    ):
        return []
    finishers = [
        task for task in tasks if task.stopped_time is not None and task.ending not in _FRUITLESS
    ]
    errors_last = rules.error_rank == "last"
    if not in_order:
        finishers.sort(key=_speed_of)
    finishers.sort(key=lambda task: errors_last and task.error_reported)
    return finishers


def _speed_of(task: Task) -> tuple[int, Position]:
    came = task.created_at or task.started_at
    elapsed = elapsed_of(task)
    if came is None or elapsed is None:
        raise ValueError(f"task {task.key} has a result but was never started")
    return elapsed, came


def judged(
    keys: Sequence[TaskKey], known: Sequence[Task], rules: Rules, *, in_order: bool = False
) -> tuple[GroupMember, ...]:
    """Return the members of a closing group in the chain's order, with ranks and scores.

    Args:
        keys: every member, those never seen included.
        known: the tasks of those that were seen.
        rules: what a rank is worth.
        in_order: they stand as they finished.
    """
    fastest = ranked(known, rules, in_order=in_order)
    ranks = {task.key: rank for rank, task in enumerate(fastest, start=1)}
    tasks = {task.key: task for task in known}
    return tuple(_member(key, tasks.get(key), ranks, rules) for key in keys)


def _member(
    key: TaskKey, task: Task | None, ranks: dict[TaskKey, int], rules: Rules
) -> GroupMember:
    if task is None or task.node is None:
        return GroupMember(key, None, None, None, None)
    rank = ranks.get(key)
    score: int | None = None
    if rank is not None:
        score = _task_score(score_of(rank, rules), rules)
    elif ranks and rules.is_believed(task.timeout):
        score = _task_score(rules.absent_score, rules)
    return GroupMember(key, task.node, rank, elapsed_of(task), score)


def _task_score(points: int, rules: Rules) -> int:
    """Return what a place is worth: under legacy rules it is taken once for both rounds.

    See docs/explanation/legacy.md#scores.
    """
    return points if rules.legacy is None else _ROUNDS * points


def score_of(rank: int, rules: Rules) -> int:
    """Return the task score of a rank, counted from 1."""
    table = rules.rank_scores
    return table[min(rank, len(table)) - 1]


def fee_shares(fee: int, scores: Sequence[int]) -> list[int]:
    """Split a validated group's fee by task score among the paid members, in their order.

    Shares are rounded down, the remainder goes to the last; with no score at all, everything.
    Never part of a report.

    Raises:
        ValueError: a negative fee or score, or nobody to pay.
    """
    if fee < 0 or not scores or min(scores) < 0:
        raise ValueError("a fee is split among one or more members, nothing negative")
    total = sum(scores) or 1
    shares = [fee * score // total for score in scores[:-1]]
    return [*shares, fee - sum(shares)]
