"""The history of a node's figures: exact at every point, downsampled without losing extremes.

Between two events the long-term score is constant and H only rises: every extreme is just before
or just after an event, or at an end (docs/explanation/read-api.md#history).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT, multiply
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.scoring.node_scores import exclusion_end_time
from oracle.domain.scoring.reliability import healed_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_window import append_score, mean_of

# Points added to a span in which H recovers without events, so that its curve is drawn smoothly.
_HEALING_POINTS = 24
_LEAST_RISE = UNIT // 100
# First, last, and the minimum and maximum of QoS and of H.
_POINTS_OF_A_BUCKET = 6


class CoursePoint(NamedTuple):
    """The figures of a node at a time; all but `time` in units of 10^-18."""

    time: int
    qos: int
    long_term: int
    reliability: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The stored past of a node, in order; `earlier_scores` are the scores before the span."""

    earlier: list[ScoreEntry]
    scores: list[ScoreEntry]
    changes: list[ReliabilityChange]
    kickouts: list[KickoutDue]
    turns: list[MembershipChange]


def course(record: NodeRecord, span: tuple[int, int], rules: Rules) -> Iterator[CoursePoint]:
    """Yield the points of a span in order of time, two at each event: before it and after it."""
    first, last = span
    resets = list(_resets(record)) if rules.kickout_starts_anew else []
    pool = _pool_before(record, resets, first, rules)
    base, since = _reliability_before(record.changes, first)
    anew = {turn.at for turn in resets}

    def at(time: int) -> CoursePoint:
        mean, reliability = (
            mean_of(pool, None, rules),
            healed_reliability(base, since, time, rules),
        )
        return CoursePoint(time, multiply(mean, reliability), mean, reliability)

    yield at(first)
    time = first
    for event in _events(record, first, last):
        yield from _healing(at, time, event.time)
        time = event.time
        yield at(time)
        if isinstance(event, ScoreEntry):
            pool = append_score(pool, event.score, rules)
        else:
            base, since = event.after, event.time
            pool = b"" if event.at in anew else pool
        yield at(time)
    yield from _healing(at, time, last)
    yield at(last)


def thinned(points: list[CoursePoint], most: int) -> list[CoursePoint]:
    """Return the first point, the last one and the extremes of QoS and of H in equal parts of time.

    At most six points of each part are kept (M4 of Jugel et al., VLDB 2014, for two curves), in
    their order, and no point is interpolated. `max_points`: at least 12.
    """
    buckets = max(1, most // _POINTS_OF_A_BUCKET)
    begin, width = points[0].time, points[-1].time - points[0].time + 1
    parts: dict[int, list[int]] = {}
    for index, point in enumerate(points):
        parts.setdefault((point.time - begin) * buckets // width, []).append(index)
    kept: set[int] = set()
    for inside in parts.values():
        kept |= {inside[0], inside[-1]}
        for column in ("qos", "reliability"):
            found = [(getattr(points[index], column), index) for index in inside]
            kept |= {min(found)[1], max(found)[1]}
    return [points[index] for index in sorted(kept)]


def why_inexact(rules: Rules) -> str | None:
    """Return why the history may differ from what the fold computed, or None if it is exact."""
    if rules.legacy is not None:
        return "under legacy rules a score depends on all other nodes; `explain` tells it"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools, which the stored history does not tell"
    return None


def excluded_until(base: int, since: int, rules: Rules) -> int | None:
    """Return when an exclusion ends by recovery of H alone, or None if `base` excludes no node."""
    return None if base >= rules.exclude_enter else exclusion_end_time(base, since, rules)


def _events(record: NodeRecord, first: int, last: int) -> list[ScoreEntry | ReliabilityChange]:
    """Return the events inside the span, in the order of positions."""
    changes = [change for change in record.changes if first <= change.time <= last]
    both: list[ScoreEntry | ReliabilityChange] = [*record.scores, *changes]
    return sorted(both, key=_position_of)


def _position_of(event: ScoreEntry | ReliabilityChange) -> Position:
    return event.at


def _pool_before(
    record: NodeRecord, resets: list[MembershipChange], first: int, rules: Rules
) -> bytes:
    """Return the pool just before a time, from the scores since the node's last reset."""
    begun = max((turn.at for turn in resets if turn.time < first), default=None)
    pool = b""
    for entry in record.earlier:
        if begun is None or begun < entry.at:
            pool = append_score(pool, entry.score, rules)
    return pool


def _reliability_before(changes: list[ReliabilityChange], time: int) -> tuple[int, int]:
    """Return H's base and since just before a time; before its first change H is 1."""
    before = [change for change in changes if change.time < time]
    return (before[-1].after, before[-1].time) if before else (UNIT, time)


def _resets(record: NodeRecord) -> Iterator[MembershipChange]:
    """Yield the joins that reset a node: the first join after each kickout that was due.

    The kickout is the event that closed its interval
    (docs/reference/scoring-rules.md#qos-and-kickout).
    """
    closed = {interval.closed_at for interval in record.kickouts}
    is_anew = False
    for turn in record.turns:
        if turn.turn is MembershipTransition.KICKED_OUT:
            is_anew = turn.at in closed
        elif turn.turn is MembershipTransition.JOINED and is_anew:
            is_anew = False
            yield turn


def _healing(at: Callable[[int], CoursePoint], start: int, end: int) -> Iterator[CoursePoint]:
    """Yield points inside a span in which H recovers, at equal steps of H."""
    low, high = at(start).reliability, at(end).reliability
    if high - low < _LEAST_RISE:
        return
    for part in range(1, _HEALING_POINTS):
        wanted = low + (high - low) * part // _HEALING_POINTS
        time = start + bisect_left(range(start, end), wanted, key=lambda t: at(t).reliability)
        if start < time < end:
            yield at(time)
