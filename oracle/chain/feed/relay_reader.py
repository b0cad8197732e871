"""Turns spans of the relay's rows into events, in the order of their ids.

Decoding is pure: the same rows with the same times and positions give the same events, whatever
part of the stream is read at once (docs/explanation/feed.md#the-profile-crynux-relay).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.feed.relay_groups import (
    CONTEXT_IDS,
    DetectedGroup,
    SubmittedResult,
    find_validation_groups,
    slice_rows_by_id,
)
from oracle.chain.feed.relay_rows import (
    DECODER_IDENTITY,
    KNOWN_KINDS,
    decode_event,
    parse_row_arguments,
    parse_task_key,
)
from oracle.chain.feed.silent_members import (
    SEARCH_IDS,
    find_silent_members,
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


@dataclass(frozen=True, slots=True)
class FeedSpan:
    """Rows to decode, each with a time and a position, and the rows around them.

    `context_rows` are `rows` and the rows of the same stream within `CONTEXT_IDS` ids of them, in
    order. If `RelayReader.has_silent_members` returns True, they start `2 * SEARCH_IDS` ids before
    `rows`. For each task that `find_scored_task` returns, `score_by_task` has the first submitted
    result, and `start_id_by_task` has the id of the first TaskStarted row.
    """

    rows: Sequence[FeedRow]
    context_rows: Sequence[FeedRow]
    score_by_task: Mapping[str, SubmittedResult] = field(default_factory=dict)
    start_id_by_task: Mapping[str, int] = field(default_factory=dict)


def find_unreadable_reason(row: FeedRow) -> str | None:
    """Return why a row of a known kind cannot be decoded, or None if it can be decoded."""
    try:
        decode_event(row, _PLACEHOLDER_POSITION)
    except ValueError as error:
        return str(error)
    return None


def has_unknown_kind(row: FeedRow) -> bool:
    """Return whether the row's kind is unknown, so that the row is only stored and counted."""
    return row.kind not in KNOWN_KINDS


def find_scored_task(row: FeedRow) -> str | None:
    """Return the row's task if its result is needed to find the row's group, else None."""
    return row.task if row.kind in _SCORED_KINDS else None


def collect_submitted_results(rows: Iterable[FeedRow]) -> dict[str, SubmittedResult]:
    """Return the first result submitted for each task, from rows in order of ids."""
    score_by_task: dict[str, SubmittedResult] = {}
    for row in rows:
        score = _parse_submitted_result(row)
        if score is not None:
            score_by_task.setdefault(row.task, SubmittedResult(row.id, score))
    return score_by_task


def collect_start_row_ids(rows: Iterable[FeedRow]) -> dict[str, int]:
    """Return the id of each task's first start row, from rows in order of ids."""
    start_id_by_task: dict[str, int] = {}
    for row in rows:
        if row.kind == "TaskStarted":
            start_id_by_task.setdefault(row.task, row.id)
    return start_id_by_task


def _parse_submitted_result(row: FeedRow) -> str | None:
    """Return the result that this row submits, as hex, or None if it submits none."""
    if row.kind != "TaskScoreReady":
        return None
    try:
        score = parse_row_arguments(row).get("score")
    except ValueError:
        return None
    return score if isinstance(score, str) else None


@dataclass(frozen=True, slots=True)
class RelayReader:
    """Decodes the rows of the relay's stream; decodes stakes only if `reads_stakes` is set.

    `reads_stakes` is set if the chain itself has no stakes.
    """

    reads_stakes: bool = True

    @property
    def identity(self) -> str:
        """A part of the rules id that changes with everything that affects decoding."""
        return f"{DECODER_IDENTITY} {'with' if self.reads_stakes else 'without'} stakes"

    def has_silent_members(self, span: FeedSpan) -> bool:
        """Return whether a group of the span has fewer rows than members."""
        first_id = span.rows[0].id
        last_id = span.rows[-1].id
        groups = find_validation_groups(_select_readable_rows(span), span.score_by_task).groups
        return any(
            group.missing_count and first_id <= group.first_id <= last_id for group in groups
        )

    def decode_span(self, span: FeedSpan) -> list[DomainEvent]:
        """Return the events of the span's rows, skipping rows that cannot be decoded."""
        readable = _select_readable_rows(span)
        group_search = find_validation_groups(readable, span.score_by_task)
        abort_rows = [row for row in readable if row.kind == "TaskEndAborted"]
        group_by_first_id = {group.first_id: group for group in group_search.groups}
        events: list[DomainEvent] = []
        for row in span.rows:
            group = group_by_first_id.get(row.id)
            group_event = None
            if group is not None:
                derived, possible = find_silent_members(
                    group, group_search, abort_rows, span.start_id_by_task
                )
                group_event = _build_group_event(group, row, derived, possible)
            row_events = self._decode_row(row, group_event, readable)
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
    derived = tuple(map(parse_task_key, derived_rows))
    return GroupValidated(
        first_row.position,
        first_row.time or 0,
        group.key,
        (*map(parse_task_key, group.rows), *derived),
        ranked=True,
        invalid=tuple(map(parse_task_key, group.invalid)) or None,
        derived=derived or None,
        possible=tuple(map(parse_task_key, possible_rows)) or None,
    )


def _is_forced_exit(row: FeedRow, context_rows: Sequence[FeedRow]) -> bool:
    """Return whether a node that quits here is kicked out or slashed in the same transaction.

    The relay writes the quit row before the row with the reason.
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
