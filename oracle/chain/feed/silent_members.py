"""Derives which timed-out tasks were members of groups that have fewer rows than members.

A member that timed out has no row in its group's transaction, and its score of 0 is not recorded
there. A group closes after all its members have ended, and its members start at the same time, so
the silent member is the timed-out task that started and ended nearest to the group. The result
depends only on stored rows with lower ids, which settle before the rows of the group
(docs/explanation/feed.md#silent-members).
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from oracle.chain.feed.relay_groups import (
    MAX_ID_GAP,
    DetectedGroup,
    GroupSearchResult,
    slice_rows_by_id,
)
from oracle.chain.feed.relay_rows import (
    CANCELLED,
    CREATOR_TIMEOUT,
    ERROR_REPORTED,
    GROUP_TIMEOUT,
    INCORRECT,
    UPLOAD_TIMEOUT,
    is_execution_timeout,
    parse_abort_row,
)
from oracle.domain.feed_rows import FeedRow

# A task that ended up to this many ids before a group's first row may be a member of the group.
SEARCH_IDS = 2_000
# Maximum id distances between the starts of one group: for derived and for possible members.
_MAX_DERIVED_DISTANCE, _MAX_POSSIBLE_DISTANCE = 24, 240
# A task within this multiple of the distance is a competing candidate.
_RIVAL_FACTOR = 3
# Maximum ids between the end of a member cancelled in the queue and the others' starts.
_MAX_QUEUED_IDS = 100
# A task that was aborted for one of these reasons is not a silent member: it belongs to no group,
# ends together with or after its group, or its group is rejected.
_NON_SILENT_REASONS = frozenset({INCORRECT, GROUP_TIMEOUT, ERROR_REPORTED, CREATOR_TIMEOUT})


class SilentMembers(NamedTuple):
    """The end rows of silent members: tasks in a group that no row names as its members.

    `derived` are the rows of tasks that the surrounding rows show to be members, and `possible`
    those of tasks that may be members.
    """

    derived: tuple[FeedRow, ...] = ()
    possible: tuple[FeedRow, ...] = ()


def find_silent_members(
    group: DetectedGroup,
    detected: GroupSearchResult,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
) -> SilentMembers:
    """Return the silent members of a group, where no task belongs to two groups.

    `abort_rows` are the rows of kind TaskEndAborted from `2 * SEARCH_IDS` ids before the group on,
    in order of ids. `start_id_by_task` has the id of the start row of each task in this span.

    Groups that start up to `SEARCH_IDS` ids earlier claim their members first, so that the result
    does not depend on the part of the stream that is read.
    """
    if not group.missing_count:
        return SilentMembers()
    claimed_tasks: set[str] = set()
    members = SilentMembers()
    get_first_id = attrgetter("first_id")
    start_index = bisect_right(detected.groups, group.first_id - SEARCH_IDS, key=get_first_id)
    end_index = bisect_right(detected.groups, group.first_id, key=get_first_id)
    for earlier_group in detected.groups[start_index:end_index]:
        if not earlier_group.missing_count:
            continue
        members = _derive_silent_members(
            earlier_group, detected, abort_rows, start_id_by_task, claimed_tasks
        )
        claimed_tasks |= {end.task for end in members.derived}
    return members


def _derive_silent_members(
    group: DetectedGroup,
    detected: GroupSearchResult,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
    claimed_tasks: Collection[str],
) -> SilentMembers:
    start_ids = [start_id_by_task[row.task] for row in group.rows if row.task in start_id_by_task]
    # Rows with higher ids may be missing, so they must not affect the result.
    earlier_start_ids = [start for start in start_ids if start < group.first_id]
    if not earlier_start_ids:
        return SilentMembers()
    timeouts, has_inconclusive = _collect_candidate_end_rows(
        group, abort_rows, start_id_by_task, earlier_start_ids, claimed_tasks
    )
    ranked_ends = sorted(timeouts, key=itemgetter(0))
    near_ends = [
        (distance, end)
        for distance, start_distance, end in ranked_ends
        if start_distance <= _MAX_DERIVED_DISTANCE
    ]
    all_ends = tuple(end for _, _, end in ranked_ends)
    is_near_ambiguous = any(
        0 < group.first_id - row.id <= 2 * MAX_ID_GAP for row in detected.ambiguous
    )
    if has_inconclusive or is_near_ambiguous:
        return SilentMembers(possible=all_ends)
    rivals = _find_ambiguous_end_rows(near_ends, group.missing_count)
    if rivals:
        return SilentMembers(possible=tuple(rivals))
    derived = tuple(end for _, end in near_ends[: group.missing_count])
    if len(derived) == group.missing_count:
        return SilentMembers(derived)
    return SilentMembers(derived, tuple(end for end in all_ends if end not in derived))


def _collect_candidate_end_rows(
    group: DetectedGroup,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
    start_ids: Sequence[int],
    claimed_tasks: Collection[str],
) -> tuple[list[tuple[int, int, FeedRow]], bool]:
    """Return the end rows, before a group, of tasks that may be silent members of it.

    Each row comes with its total distance from the group and the distance of the starts, in ids.
    The second value is True if a task that may be a member ended without a score of 0. In this
    case no member can be derived.
    """
    timeouts = list[tuple[int, int, FeedRow]]()
    has_inconclusive = False
    # The creator of the group's tasks, or None if no row shows it.
    own_abort_rows = [row for row in group.rows if row.kind == "TaskEndAborted"]
    creator = parse_abort_row(own_abort_rows[0])[2] if own_abort_rows else None
    for end in slice_rows_by_id(abort_rows, group.first_id - SEARCH_IDS, group.first_id - 1):
        if end.task in claimed_tasks:
            continue
        reason, status, end_issuer = parse_abort_row(end)
        if is_execution_timeout(reason, status):
            end_start_id = start_id_by_task.get(end.task)
            if end_start_id is None or end_start_id > end.id:
                continue
            start_distance = min(abs(end_start_id - start_id) for start_id in start_ids)
            if start_distance <= _MAX_POSSIBLE_DISTANCE:
                timeouts.append((start_distance + group.first_id - end.id, start_distance, end))
        elif reason not in _NON_SILENT_REASONS and reason != UPLOAD_TIMEOUT:
            is_of_other_creator = reason == CANCELLED and creator not in {None, end_issuer}
            has_inconclusive |= (
                end.id >= min(start_ids) - _MAX_QUEUED_IDS and not is_of_other_creator
            )
    return timeouts, has_inconclusive


def _find_ambiguous_end_rows(
    near_ends: Sequence[tuple[int, FeedRow]], missing_count: int
) -> list[FeedRow]:
    """Return the candidate ends if they outnumber the missing members, else an empty list."""
    if len(near_ends) <= missing_count:
        return []
    max_distance = near_ends[missing_count - 1][0]
    candidates = [
        end for distance, end in near_ends if distance <= _RIVAL_FACTOR * max_distance + MAX_ID_GAP
    ]
    return candidates if len(candidates) > missing_count else []
