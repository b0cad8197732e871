"""Turns spans of the relay's rows into events, in the order of their ids.

Decoding is pure: the same rows with the same times and positions give the same events, whatever
part of the stream is read at once (docs/explanation/feed.md#the-profile-crynux-relay).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.feed.relay_groups import (
    AROUND,
    FoundGroup,
    SubmittedResult,
    groups_in,
    rows_between,
)
from oracle.chain.feed.relay_rows import IDENTITY, KNOWN, arguments_of, event_of, task_of
from oracle.chain.feed.silent_members import (
    REACH,
    GroupSurroundings,
    SilentMembers,
    silent_members,
)
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent, GroupValidated, NodeUpdated
from oracle.domain.feed_rows import SAME_SECONDS, FeedRow

__all__ = ["AROUND", "REACH", "FeedSpan", "RelayReader", "scored_task", "why_unreadable"]

_LEAVES_OTHERWISE = ("NodeKickedOut", "NodeSlashed")
_SCORED = ("TaskValidated", "TaskEndGroupRefund", "TaskEndInvalidated", "TaskEndAborted")
_ANYWHERE = Position(0, -1, 0, 0)


@dataclass(frozen=True, slots=True)
class FeedSpan:
    """Rows to decode, each with a time and a position, and the rows around them.

    `context_rows` are the rows of the same stream within `CONTEXT_IDS` ids, in order, including
    `rows`; if `RelayReader.has_silent_members` is true, from `2 * SEARCH_IDS` ids before. The maps
    have, for the tasks of `find_scored_task`, the first submitted result and the id of the first
    TaskStarted row.
    """

    rows: Sequence[FeedRow]
    around: Sequence[FeedRow]
    scores: Mapping[str, SubmittedResult] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)


def why_unreadable(row: FeedRow) -> str | None:
    """Return why a row of a known kind cannot be decoded, or None if it can."""
    try:
        event_of(row, _ANYWHERE)
    except ValueError as error:
        return str(error)
    return None


def is_unknown(row: FeedRow) -> bool:
    """Return whether the row's kind is unknown; such rows are stored and counted."""
    return row.kind not in KNOWN


def scored_task(row: FeedRow) -> str | None:
    """Return the task whose result is needed to find the group of the row, or None."""
    return row.task if row.kind in _SCORED else None


def scores_in(rows: Iterable[FeedRow]) -> dict[str, SubmittedResult]:
    """Return the first result submitted for each task; `rows` are in order."""
    found: dict[str, SubmittedResult] = {}
    for row in rows:
        score = _score_in(row)
        if score is not None:
            found.setdefault(row.task, SubmittedResult(row.id, score))
    return found


def starts_in(rows: Iterable[FeedRow]) -> dict[str, int]:
    """Return the id of the first start row of each task; `rows` are in order."""
    found: dict[str, int] = {}
    for row in rows:
        if row.kind == "TaskStarted":
            found.setdefault(row.task, row.id)
    return found


def _score_in(row: FeedRow) -> str | None:
    """Return the result submitted by this row, as hex, or None."""
    if row.kind != "TaskScoreReady":
        return None
    try:
        score = arguments_of(row).get("score")
    except ValueError:
        return None
    return score if isinstance(score, str) else None


@dataclass(frozen=True, slots=True)
class RelayReader:
    """Decodes the rows of the relay's stream; `reads_stakes` if the chain has no stakes."""

    takes_stakes: bool = True

    @property
    def identity(self) -> str:
        """A part of the rules id that changes with everything that affects decoding."""
        return f"{IDENTITY} {'with' if self.takes_stakes else 'without'} stakes"

    def has_silent_members(self, span: FeedSpan) -> bool:
        """Return whether a group of the span has fewer rows than members."""
        first, last = span.rows[0].id, span.rows[-1].id
        groups = groups_in(_readable(span), span.scores).groups
        return any(group.missing and first <= group.first_id <= last for group in groups)

    def read(self, span: FeedSpan) -> list[DomainEvent]:
        """Return the events of the rows; an unreadable row yields no event."""
        readable = _readable(span)
        found = groups_in(readable, span.scores)
        ends = [row for row in readable if row.kind == "TaskEndAborted"]
        ambiguous = {row.id for row in found.ambiguous}
        surroundings = GroupSurroundings(found.groups, ends, span.starts, ambiguous)
        by_first = {group.first_id: group for group in found.groups}
        events: list[DomainEvent] = []
        for row in span.rows:
            group = by_first.get(row.id)
            closed = None if group is None else _validated(group, row, surroundings)
            said = self._said(row, closed, readable)
            events += [replace(event, at=row.at._replace(sub=sub)) for sub, event in said]
        return events

    def _said(
        self, row: FeedRow, closed: GroupValidated | None, around: Sequence[FeedRow]
    ) -> Iterator[tuple[int, DomainEvent]]:
        if why_unreadable(row) is not None or _is_expelled(row, around):
            return
        if closed is not None:
            yield 0, closed
        event = event_of(row, row.at)
        if event is not None and (self.takes_stakes or not isinstance(event, NodeUpdated)):
            yield 1, event


def _readable(span: FeedSpan) -> list[FeedRow]:
    return [row for row in span.around if why_unreadable(row) is None]


def _validated(
    group: FoundGroup, first: FeedRow, surroundings: GroupSurroundings
) -> GroupValidated:
    silent: SilentMembers = silent_members(group, surroundings)
    derived = tuple(map(task_of, silent.derived))
    return GroupValidated(
        first.at,
        first.time or 0,
        group.key,
        (*map(task_of, group.rows), *derived),
        ranked=True,
        invalid=tuple(map(task_of, group.invalid)) or None,
        derived=derived or None,
        possible=tuple(map(task_of, silent.possible)) or None,
    )


def _is_expelled(row: FeedRow, around: Sequence[FeedRow]) -> bool:
    """Return whether a node that quits here is kicked out or slashed in the same transaction.

    The relay writes the quit row before the row with the reason.
    """
    if row.kind != "NodeQuit":
        return False
    for later in rows_between(around, row.id + 1, row.id + AROUND):
        if later.node.lower() != row.node.lower():
            continue
        if later.kind == "NodeJoin" or later.seen_to - row.seen_to >= SAME_SECONDS:
            return False
        if later.kind in _LEAVES_OTHERWISE:
            return True
    return False
