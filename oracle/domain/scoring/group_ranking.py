"""Pure functions that rank the members of a validation group by speed, and score them.

See docs/reference/scoring-rules.md#task-groups.
"""

from collections.abc import Sequence, Set as AbstractSet
from operator import attrgetter
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Ending, GroupMember, Task

# The two rounds of a legacy task are the commitment and the disclosure.
_ROUNDS = 2
_UNANSWERED_ENDINGS = (Ending.ABORTED, Ending.TIMED_OUT)
# Endings of answers that the verdict did not confirm. A confirmed error report also ends as
# ABORTED.
_UNCONFIRMED_ENDINGS = (Ending.INVALIDATED, *_UNANSWERED_ENDINGS)
_has_reported_error = attrgetter("error_reported")


class ClosingMember(NamedTuple):
    """A member of a group that is closing.

    `timeout` is the time limit of the member's task.
    """

    task: TaskKey
    node: Address | None
    elapsed: int | None
    timeout: int | None


def compute_elapsed_seconds(task: Task) -> int | None:
    """Return the seconds from a task's start to its submission or error report.

    The result is None if neither happened.
    """
    if task.stopped_time is None or task.started_time is None:
        return None
    return max(0, task.stopped_time - task.started_time)


def rank_tasks_by_speed(
    tasks: Sequence[Task], rules: Rules, *, is_ordered: bool = False
) -> list[Task]:
    """Rank the tasks that were answered before the group closed, fastest first.

    Error reports come last, unless the rules rank them by their time. The list is empty if the
    whole group is rejected. Of two equally fast tasks, the task that was created first (or if
    unknown, started first) comes first. With `is_ordered`, the tasks are already in the order of
    their answers, so times are ignored.
    """
    if rules.creator_timeout_rejects_group and any(
        task.abort_reason is AbortReason.CREATOR_VALIDATION_TIMEOUT for task in tasks
    ):
        return []
    answered_tasks = [
        task
        for task in tasks
        if task.stopped_time is not None and task.ending not in _UNANSWERED_ENDINGS
    ]
    if not is_ordered:
        answered_tasks.sort(key=_get_speed_sort_key)
    if rules.error_rank == "last":
        answered_tasks.sort(key=_has_reported_error)
    return answered_tasks


def select_confirmed_answers(
    answered_tasks: Sequence[Task], size: int, invalid_tasks: AbstractSet[TaskKey] = frozenset()
) -> list[Task]:
    """Return the answers that the group's verdict confirms, keeping their order.

    An answer without a verdict counts as confirmed. The list is empty unless more than half of the
    group answered, because otherwise the answers were hardly compared with others.

    Args:
        answered_tasks: the tasks with an answer, and with the endings that the verdict gave them.
        size: the size of the group, including members that never answered.
        invalid_tasks: the wrong answers that the group's event lists.
    """
    if 2 * len(answered_tasks) <= size:
        return []
    error_tasks = [
        task for task in answered_tasks if task.abort_reason is AbortReason.ERROR_REPORTED
    ]
    is_error_majority = 2 * len(error_tasks) > size
    return [
        task
        for task in answered_tasks
        if task.key not in invalid_tasks
        and (
            task.ending not in _UNCONFIRMED_ENDINGS or (is_error_majority and task in error_tasks)
        )
    ]


def _get_speed_sort_key(task: Task) -> tuple[int, Position]:
    first_position = task.created_at or task.started_at
    elapsed = compute_elapsed_seconds(task)
    if first_position is None or elapsed is None:
        raise ValueError(f"task {task.key} has a result but was never started")
    return elapsed, first_position


def rank_closing_members(
    closing_members: Sequence[ClosingMember], ranked_keys: Sequence[TaskKey], rules: Rules
) -> tuple[GroupMember, ...]:
    """Rank and score the members of a closing group, keeping their order.

    This is the order of the chain.

    Args:
        closing_members: every member, including tasks that were never seen.
        ranked_keys: the ranked tasks, best first.
        rules: the rules that define the scores of ranks.
    """
    rank_by_task = {key: rank for rank, key in enumerate(ranked_keys, start=1)}
    return tuple(
        _score_member(closing_member, rank_by_task, rules) for closing_member in closing_members
    )


def build_closing_member(key: TaskKey, task: Task | None) -> ClosingMember:
    """Build the member of a closing group from a task.

    `task` is None if no event named the task.
    """
    if task is None or task.node is None:
        return ClosingMember(key, None, None, None)
    return ClosingMember(key, task.node, compute_elapsed_seconds(task), task.timeout)


def _score_member(
    closing_member: ClosingMember, rank_by_task: dict[TaskKey, int], rules: Rules
) -> GroupMember:
    if closing_member.node is None:
        return GroupMember(closing_member.task, None, None, None, None)
    rank = rank_by_task.get(closing_member.task)
    score: int | None = None
    if rank is not None:
        score = _compute_task_score(get_points_for_rank(rank, rules), rules)
    elif rank_by_task and rules.is_credible_timeout(closing_member.timeout):
        score = _compute_task_score(rules.absent_score, rules)
    return GroupMember(
        closing_member.task, closing_member.node, rank, closing_member.elapsed, score
    )


def _compute_task_score(points: int, rules: Rules) -> int:
    """Return the task score for the points of a rank.

    Legacy rules count the points twice. See docs/explanation/legacy.md#scores.
    """
    return points if rules.legacy is None else _ROUNDS * points


def get_points_for_rank(rank: int, rules: Rules) -> int:
    """Return the points for a rank, counting ranks from 1."""
    points_by_rank = rules.rank_scores
    return points_by_rank[min(rank, len(points_by_rank)) - 1]


def split_fee_by_scores(fee: int, scores: Sequence[int]) -> list[int]:
    """Split a validated group's fee among its paid members in proportion to their scores.

    The shares are in the order of `scores` and rounded down. The last member gets the remainder,
    or the whole fee if no member scored. Shares are never part of a report.

    Raises:
        ValueError: the fee or a score is negative, or there is no member to pay.
    """
    if fee < 0 or not scores or min(scores) < 0:
        raise ValueError(
            "splitting a fee requires at least one member, and no negative fee or score"
        )
    score_sum = sum(scores) or 1
    fee_shares = [fee * score // score_sum for score in scores[:-1]]
    return [*fee_shares, fee - sum(fee_shares)]


def split_group_fee(fee: int, members: Sequence[GroupMember]) -> dict[TaskKey, int]:
    """Split a validated group's fee among its scored tasks."""
    scored_members = [member for member in members if member.score is not None]
    fee_shares = split_fee_by_scores(fee, [member.score or 0 for member in scored_members])
    return {
        member.task: fee_share
        for member, fee_share in zip(scored_members, fee_shares, strict=True)
    }
