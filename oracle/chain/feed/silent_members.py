"""Derives which timed-out tasks were members of groups that have fewer rows than members.

A member that timed out has no row in its group's transaction, and its score of 0 is not recorded
there. A group closes after all its members have ended, and they start at the same time, so the
member is the task that started and timed out nearest. Derivation is pure: it depends only on
stored rows of lower ids, which settle before those of the group
(docs/explanation/feed.md#silent-members).
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from oracle.chain.feed.relay_groups import NEAR, FoundGroup, rows_between
from oracle.chain.feed.relay_rows import (
    CANCELLED,
    CREATOR_TIMEOUT,
    ERROR_REPORTED,
    GROUP_TIMEOUT,
    INCORRECT,
    UPLOAD_TIMEOUT,
    abort_of,
    is_execution_timeout,
)
from oracle.domain.feed_rows import FeedRow

# Ends up to this many ids before a group's first row may be those of its members.
REACH = 2_000
# Maximum id distance between the starts of one group; beyond it, and up to the second number, a
# member is possible but never derived.
_NEAR_STARTS, _FAR_STARTS = 24, 240
# A task within this multiple of the distance is a rival candidate.
_RIVAL = 3
# Maximum ids between the end of a member cancelled in the queue and the others' starts.
_QUEUED_BEFORE = 100
# Abort reasons that no silent member has: the task ends with its group, alone, after its group,
# or its group is rejected for good.
_SPOKEN_ENDS = frozenset({INCORRECT, GROUP_TIMEOUT, ERROR_REPORTED, CREATOR_TIMEOUT})


@dataclass(frozen=True, slots=True)
class SilentMembers:
    """Ends of tasks that no row names as members of a group.

    `derived` are members according to all surrounding rows; of `possible`, one may be a member.
    """

    derived: tuple[FeedRow, ...] = ()
    possible: tuple[FeedRow, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """The rows around groups, from `2 * SEARCH_IDS` ids before, that decide who was silent.

    `groups` are in order of their first rows, `abort_rows` (kind TaskEndAborted) in order of ids.
    `start_id_by_task` has the id of each task's start row; `ambiguous_ids` are the ids of rows
    that could belong to two groups.
    """

    groups: Sequence[FoundGroup]
    ends: Sequence[FeedRow]
    starts: Mapping[str, int]
    ambiguous: Collection[int] = ()


@dataclass(slots=True)
class _Silent:
    """Silent ends before one group.

    Some ends give no score of 0; with one of those, a missing 0 cannot be detected.
    """

    timeouts: list[tuple[int, int, FeedRow]] = field(default_factory=list)
    has_void: bool = False


def silent_members(group: FoundGroup, around: GroupSurroundings) -> SilentMembers:
    """Return the silent members of a group; each task is a member of at most one group.

    Groups up to `SEARCH_IDS` ids before claim their members first, whatever part of the stream is
    read.
    """
    if not group.missing:
        return SilentMembers()
    taken: set[str] = set()
    found = SilentMembers()
    first_id = attrgetter("first_id")
    low = bisect_right(around.groups, group.first_id - REACH, key=first_id)
    high = bisect_right(around.groups, group.first_id, key=first_id)
    for other in around.groups[low:high]:
        if not other.missing:
            continue
        found = _derive(other, around, taken)
        taken |= {end.task for end in found.derived}
    return found


def _derive(group: FoundGroup, around: GroupSurroundings, taken: Collection[str]) -> SilentMembers:
    known = [around.starts[row.task] for row in group.rows if row.task in around.starts]
    # Rows of higher ids may not have arrived yet, so they must not affect the result.
    starts = [start for start in known if start < group.first_id]
    if not starts:
        return SilentMembers()
    silent = _silent_before(group, around, starts, taken)
    ranked = sorted(silent.timeouts, key=lambda ranked: ranked[0])
    near = [(distance, end) for distance, apart, end in ranked if apart <= _NEAR_STARTS]
    every = tuple(end for _, _, end in ranked)
    is_doubted = any(0 < group.first_id - number <= 2 * NEAR for number in around.ambiguous)
    if silent.has_void or is_doubted:
        return SilentMembers(possible=every)
    rivals = _rivals(near, group.missing)
    if rivals:
        return SilentMembers(possible=tuple(rivals))
    derived = tuple(end for _, end in near[: group.missing])
    if len(derived) == group.missing:
        return SilentMembers(derived)
    return SilentMembers(derived, tuple(end for end in every if end not in derived))


def _silent_before(
    group: FoundGroup, around: GroupSurroundings, starts: Sequence[int], taken: Collection[str]
) -> _Silent:
    """Return the ends before a group that may be its members', with their distances."""
    silent, issuer = _Silent(), _creator_of(group)
    for end in rows_between(around.ends, group.first_id - REACH, group.first_id - 1):
        if end.task in taken:
            continue
        reason, status, end_issuer = abort_of(end)
        if is_execution_timeout(reason, status):
            start = around.starts.get(end.task)
            if start is None or start > end.id:
                continue
            apart = min(abs(start - other) for other in starts)
            if apart <= _FAR_STARTS:
                silent.timeouts.append((apart + group.first_id - end.id, apart, end))
        elif reason not in _SPOKEN_ENDS and reason != UPLOAD_TIMEOUT:
            is_of_another = reason == CANCELLED and issuer not in {None, end_issuer}
            silent.has_void |= end.id >= min(starts) - _QUEUED_BEFORE and not is_of_another
    return silent


def _creator_of(group: FoundGroup) -> str | None:
    """Return the creator of the group's tasks, or None if no row shows it."""
    ends = [row for row in group.rows if row.kind == "TaskEndAborted"]
    return abort_of(ends[0])[2] if ends else None


def _rivals(near: Sequence[tuple[int, FeedRow]], missing: int) -> list[FeedRow]:
    """Return the candidate ends if they outnumber the missing members, else an empty list."""
    if len(near) <= missing:
        return []
    farthest = near[missing - 1][0]
    meant = [end for distance, end in near if distance <= _RIVAL * farthest + NEAR]
    return meant if len(meant) > missing else []
