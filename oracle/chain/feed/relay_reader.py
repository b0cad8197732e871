"""Converts spans of the relay's rows to events, in id order.

The same rows with the same times and positions always give the same events, whatever part of the
stream is read at once (docs/explanation/feed.md#the-profile-crynux-relay).
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import NamedTuple

from oracle.chain.feed.relay_groups import (
    CONTEXT_IDS,
    MAX_ID_GAP,
    DetectedGroup,
    GroupSearchResult,
    SubmittedResult,
    find_validation_groups,
    slice_rows_by_id,
)
from oracle.chain.feed.relay_rows import (
    CANCELLED,
    CREATOR_TIMEOUT,
    DECODER_IDENTITY,
    ERROR_REPORTED,
    GROUP_TIMEOUT,
    INCORRECT,
    KNOWN_KINDS,
    UPLOAD_TIMEOUT,
    decode_event,
    is_execution_timeout,
    parse_abort_row,
    parse_row_arguments,
    parse_task_key,
)
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent, GroupValidated, NodeUpdated
from oracle.domain.feed_rows import SAME_TRANSACTION_SECONDS, FeedRow

__all__ = [
    "CONTEXT_IDS",
    "SEARCH_IDS",
    "FeedSpan",
    "RelayReader",
    "find_scored_task",
    "find_unreadable_reason",
]

_FORCED_EXIT_KINDS = ("NodeKickedOut", "NodeSlashed")
_SCORED_KINDS = ("TaskValidated", "TaskEndGroupRefund", "TaskEndInvalidated", "TaskEndAborted")
_PLACEHOLDER_POSITION = Position(0, -1, 0, 0)
# Members of a group may have ended before the group's first row, but at most this many ids
# earlier.
SEARCH_IDS = 2_000
# Maximum distances between the ids of the start rows of one group. A task within the first
# distance is derived as a member. Up to the second distance, it is only a possible member.
_MAX_DERIVED_DISTANCE, _MAX_POSSIBLE_DISTANCE = 24, 240
# A candidate is uncertain if another task lies within this multiple of the candidate's distance.
_RIVAL_FACTOR = 3
# Maximum distance between the row that cancels a queued member and the start rows of the other
# members.
_MAX_QUEUED_IDS = 100
# A task aborted for one of these reasons is never a silent member. It belongs to no group, it ends
# with or after its group, or its group is rejected.
_NON_SILENT_REASONS = frozenset({INCORRECT, GROUP_TIMEOUT, ERROR_REPORTED, CREATOR_TIMEOUT})


@dataclass(frozen=True, slots=True)
class FeedSpan:
    """The feed rows to decode, with times and positions, and the surrounding rows.

    `context_rows` are `rows` and the rows of the same stream within `CONTEXT_IDS` ids of them, in
    order. If `RelayReader.has_silent_members` returns True, they start `2 * SEARCH_IDS` ids before
    `rows`. For each task that `find_scored_task` returns, `score_by_task` contains the first
    submitted result, and `start_id_by_task` the id of the first TaskStarted row.
    """

    rows: Sequence[FeedRow]
    context_rows: Sequence[FeedRow]
    score_by_task: Mapping[str, SubmittedResult] = field(default_factory=dict)
    start_id_by_task: Mapping[str, int] = field(default_factory=dict)


def find_unreadable_reason(row: FeedRow) -> str | None:
    """Return why a row of a known kind cannot be decoded, or None if it can."""
    try:
        decode_event(row, _PLACEHOLDER_POSITION)
    except ValueError as error:
        return str(error)
    return None


def has_unknown_kind(row: FeedRow) -> bool:
    """Return whether the row's kind is unknown.

    Such rows are only stored and counted.
    """
    return row.kind not in KNOWN_KINDS


def find_scored_task(row: FeedRow) -> str | None:
    """Return the row's task if its result is needed to find the validation group.

    Otherwise, the result is None.
    """
    return row.task if row.kind in _SCORED_KINDS else None


def collect_submitted_results(rows: Iterable[FeedRow]) -> dict[str, SubmittedResult]:
    """Return the first submitted result of each task, from rows in id order."""
    score_by_task: dict[str, SubmittedResult] = {}
    for row in rows:
        score = _parse_submitted_result(row)
        if score is not None:
            score_by_task.setdefault(row.task, SubmittedResult(row.id, score))
    return score_by_task


def collect_start_row_ids(rows: Iterable[FeedRow]) -> dict[str, int]:
    """Return the id of the first start row of each task, from rows in id order."""
    start_id_by_task: dict[str, int] = {}
    for row in rows:
        if row.kind == "TaskStarted":
            start_id_by_task.setdefault(row.task, row.id)
    return start_id_by_task


def _parse_submitted_result(row: FeedRow) -> str | None:
    """Return the result that this row submits, as hex, or None if it has none."""
    if row.kind != "TaskScoreReady":
        return None
    try:
        score = parse_row_arguments(row).get("score")
    except ValueError:
        return None
    return score if isinstance(score, str) else None


@dataclass(frozen=True, slots=True)
class RelayReader:
    """Decodes the rows of the relay's stream.

    `reads_stakes` is whether stakes are decoded, which is necessary if no event of the chain
    contains stakes.
    """

    reads_stakes: bool = True

    @property
    def identity(self) -> str:
        """The part of the rules id that depends on how rows are decoded."""
        return f"{DECODER_IDENTITY} {'with' if self.reads_stakes else 'without'} stakes"

    def has_silent_members(self, span: FeedSpan) -> bool:
        """Return whether a group in the span has fewer rows than members."""
        first_id = span.rows[0].id
        last_id = span.rows[-1].id
        groups = find_validation_groups(_select_readable_rows(span), span.score_by_task).groups
        return any(
            group.missing_count and first_id <= group.first_id <= last_id for group in groups
        )

    def decode_span(self, span: FeedSpan) -> list[DomainEvent]:
        """Decode the rows of the span, skipping rows that cannot be decoded."""
        readable_rows = _select_readable_rows(span)
        group_search = find_validation_groups(readable_rows, span.score_by_task)
        abort_rows = [row for row in readable_rows if row.kind == "TaskEndAborted"]
        group_by_first_id = {group.first_id: group for group in group_search.groups}
        events: list[DomainEvent] = []
        for row in span.rows:
            group = group_by_first_id.get(row.id)
            group_event = None
            if group is not None:
                derived_rows, possible_rows = find_silent_members(
                    group, group_search, abort_rows, span.start_id_by_task
                )
                group_event = _build_group_event(group, row, derived_rows, possible_rows)
            row_events = self._decode_row(row, group_event, readable_rows)
            events += [
                replace(event, at=row.position._replace(sub=sub)) for sub, event in row_events
            ]
        return events

    def _decode_row(
        self, row: FeedRow, group_event: GroupValidated | None, context_rows: Sequence[FeedRow]
    ) -> Iterator[tuple[int, DomainEvent]]:
        if find_unreadable_reason(row) is not None or _is_forced_exit(row, context_rows):
            return
        if group_event is not None:
            yield 0, group_event
        event = decode_event(row, row.position)
        if event is not None and (self.reads_stakes or not isinstance(event, NodeUpdated)):
            yield 1, event


def _select_readable_rows(span: FeedSpan) -> list[FeedRow]:
    return [row for row in span.context_rows if find_unreadable_reason(row) is None]


def _build_group_event(
    group: DetectedGroup,
    first_row: FeedRow,
    derived_rows: Sequence[FeedRow],
    possible_rows: Sequence[FeedRow],
) -> GroupValidated:
    derived_tasks = tuple(map(parse_task_key, derived_rows))
    return GroupValidated(
        first_row.position,
        first_row.time or 0,
        group.key,
        (*map(parse_task_key, group.rows), *derived_tasks),
        ranked=True,
        invalid=tuple(map(parse_task_key, group.invalid)) or None,
        derived=derived_tasks or None,
        possible=tuple(map(parse_task_key, possible_rows)) or None,
    )


def _is_forced_exit(row: FeedRow, context_rows: Sequence[FeedRow]) -> bool:
    """Return whether a quit row belongs to a kickout or slash in the same transaction.

    The relay writes the row of the quit before the row that states the reason.
    """
    if row.kind != "NodeQuit":
        return False
    for later_row in slice_rows_by_id(context_rows, row.id + 1, row.id + CONTEXT_IDS):
        if later_row.node.lower() != row.node.lower():
            continue
        if (
            later_row.kind == "NodeJoin"
            or later_row.seen_to - row.seen_to >= SAME_TRANSACTION_SECONDS
        ):
            return False
        if later_row.kind in _FORCED_EXIT_KINDS:
            return True
    return False


class SilentMembers(NamedTuple):
    """The end rows of group members that did not answer.

    No row states that they are members. `derived` are the rows of tasks that must be members
    according to the rows near them, and `possible` the rows of tasks that may be members.
    """

    derived: tuple[FeedRow, ...] = ()
    possible: tuple[FeedRow, ...] = ()


def find_silent_members(
    group: DetectedGroup,
    group_search: GroupSearchResult,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
) -> SilentMembers:
    """Find the members of a group that did not answer.

    No task is a member of two groups. A member that timed out has no row in the transaction of its
    group, so its score of 0 is not recorded there. The members of a group start at the same time,
    and the group closes after all of them have ended. Therefore the silent member is the task with
    a timeout that started and ended nearest to the group. The result depends only on stored rows
    with lower ids, which are settled before the rows of the group
    (docs/explanation/feed.md#silent-members).

    `abort_rows` are the rows of kind TaskEndAborted from `2 * SEARCH_IDS` ids before the group on,
    in order of ids. `start_id_by_task` contains the id of the start row of each task in this span.

    Groups that start up to `SEARCH_IDS` ids earlier claim their members first, so that the result
    does not depend on the part of the stream that is read.
    """
    if not group.missing_count:
        return SilentMembers()
    claimed_tasks: set[str] = set()
    members = SilentMembers()
    get_first_id = attrgetter("first_id")
    start_index = bisect_right(group_search.groups, group.first_id - SEARCH_IDS, key=get_first_id)
    end_index = bisect_right(group_search.groups, group.first_id, key=get_first_id)
    for earlier_group in group_search.groups[start_index:end_index]:
        if not earlier_group.missing_count:
            continue
        members = _derive_silent_members(
            earlier_group, group_search, abort_rows, start_id_by_task, claimed_tasks
        )
        claimed_tasks |= {end_row.task for end_row in members.derived}
    return members


def _derive_silent_members(
    group: DetectedGroup,
    group_search: GroupSearchResult,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
    claimed_tasks: Collection[str],
) -> SilentMembers:
    start_ids = [start_id_by_task[row.task] for row in group.rows if row.task in start_id_by_task]
    # Start rows after the group's first row are ignored, because some of them may not be stored
    # yet.
    earlier_start_ids = [start_id for start_id in start_ids if start_id < group.first_id]
    if not earlier_start_ids:
        return SilentMembers()
    timeouts, has_inconclusive = _collect_candidate_end_rows(
        group, abort_rows, start_id_by_task, earlier_start_ids, claimed_tasks
    )
    ranked_ends = sorted(timeouts, key=itemgetter(0))
    near_ends = [
        (distance, end_row)
        for distance, start_distance, end_row in ranked_ends
        if start_distance <= _MAX_DERIVED_DISTANCE
    ]
    all_ends = tuple(end_row for _, _, end_row in ranked_ends)
    is_near_ambiguous = any(
        0 < group.first_id - row.id <= 2 * MAX_ID_GAP for row in group_search.ambiguous
    )
    if has_inconclusive or is_near_ambiguous:
        return SilentMembers(possible=all_ends)
    ambiguous_rows = _find_ambiguous_end_rows(near_ends, group.missing_count)
    if ambiguous_rows:
        return SilentMembers(possible=tuple(ambiguous_rows))
    derived_rows = tuple(end_row for _, end_row in near_ends[: group.missing_count])
    if len(derived_rows) == group.missing_count:
        return SilentMembers(derived_rows)
    return SilentMembers(
        derived_rows, tuple(end_row for end_row in all_ends if end_row not in derived_rows)
    )


def _collect_candidate_end_rows(
    group: DetectedGroup,
    abort_rows: Sequence[FeedRow],
    start_id_by_task: Mapping[str, int],
    start_ids: Sequence[int],
    claimed_tasks: Collection[str],
) -> tuple[list[tuple[int, int, FeedRow]], bool]:
    """Return the end rows of tasks that may be silent members of a group.

    These rows are before the group. The first value is a list of (total distance from the group,
    distance of the starts, row), with distances in ids. The second value is True if a task that
    may be a member ended without a score of 0. In this case no member can be derived.
    """
    timeout_candidates = list[tuple[int, int, FeedRow]]()
    has_inconclusive = False
    # The creator is None if no row names the creator of the group's tasks.
    own_abort_rows = [row for row in group.rows if row.kind == "TaskEndAborted"]
    creator = parse_abort_row(own_abort_rows[0])[2] if own_abort_rows else None
    for end_row in slice_rows_by_id(abort_rows, group.first_id - SEARCH_IDS, group.first_id - 1):
        if end_row.task in claimed_tasks:
            continue
        reason, status, end_issuer = parse_abort_row(end_row)
        if is_execution_timeout(reason, status):
            end_start_id = start_id_by_task.get(end_row.task)
            if end_start_id is None or end_start_id > end_row.id:
                continue
            start_distance = min(abs(end_start_id - start_id) for start_id in start_ids)
            if start_distance <= _MAX_POSSIBLE_DISTANCE:
                timeout_candidates.append(
                    (start_distance + group.first_id - end_row.id, start_distance, end_row)
                )
        elif reason not in _NON_SILENT_REASONS and reason != UPLOAD_TIMEOUT:
            is_of_other_creator = reason == CANCELLED and creator not in {None, end_issuer}
            has_inconclusive |= (
                end_row.id >= min(start_ids) - _MAX_QUEUED_IDS and not is_of_other_creator
            )
    return timeout_candidates, has_inconclusive


def _find_ambiguous_end_rows(
    near_ends: Sequence[tuple[int, FeedRow]], missing_count: int
) -> list[FeedRow]:
    """Return the candidate end rows if there are more of them than missing members.

    Otherwise, the list is empty.
    """
    if len(near_ends) <= missing_count:
        return []
    max_distance = near_ends[missing_count - 1][0]
    rival_rows = [
        end_row
        for distance, end_row in near_ends
        if distance <= _RIVAL_FACTOR * max_distance + MAX_ID_GAP
    ]
    return rival_rows if len(rival_rows) > missing_count else []
