"""The course of a node's numbers over time: exact at every point, thinned without losing extremes.

Between two events long-term stands still and H only rises: every extreme stands just before or
just after an event, or at an end (docs/reference/read-api.md#history).
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

# Added where a span without events heals, so that its curve is drawn as one.
_HEALING_POINTS = 24
_LEAST_RISE = UNIT // 100
# First, last, and least and greatest of QoS and of H.
_POINTS_OF_A_BUCKET = 6


class CoursePoint(NamedTuple):
    """A node at a time; all but `time` in units of 10^-18."""

    time: int
    qos: int
    long_term: int
    reliability: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What is stored of a node's past, in order; `earlier` are the scores before the span."""

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
    """Keep first, last and the extremes of QoS and of H in equal parts of time.

    Of each part at most six are kept (M4 of Jugel et al., VLDB 2014, for two curves); the order
    stays, and no point is made up. `most`: at least 12.
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
    """Return why the course may differ from what the fold said; None: it does not."""
    if rules.legacy is not None:
        return "under legacy rules a score depends on all other nodes; `explain` tells it"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools, which the stored history does not tell"
    return None


def excluded_until(base: int, since: int, rules: Rules) -> int | None:
    """Return when H, healing alone, ends an exclusion; None: it excludes nobody."""
    return None if base >= rules.exclude_enter else exclusion_end_time(base, since, rules)


def _events(record: NodeRecord, first: int, last: int) -> list[ScoreEntry | ReliabilityChange]:
    """Return what happened inside the span, in the order of positions."""
    changes = [change for change in record.changes if first <= change.time <= last]
    both: list[ScoreEntry | ReliabilityChange] = [*record.scores, *changes]
    return sorted(both, key=_position_of)


def _position_of(event: ScoreEntry | ReliabilityChange) -> Position:
    return event.at


def _pool_before(
    record: NodeRecord, resets: list[MembershipChange], first: int, rules: Rules
) -> bytes:
    """Return the pool just before a time: of the scores since the node last began anew."""
    begun = max((turn.at for turn in resets if turn.time < first), default=None)
    pool = b""
    for entry in record.earlier:
        if begun is None or begun < entry.at:
            pool = append_score(pool, entry.score, rules)
    return pool


def _reliability_before(changes: list[ReliabilityChange], time: int) -> tuple[int, int]:
    """Return H's base and since just before a time; a node is whole until something happens."""
    before = [change for change in changes if change.time < time]
    return (before[-1].after, before[-1].time) if before else (UNIT, time)


def _resets(record: NodeRecord) -> Iterator[MembershipChange]:
    """Yield the joins at which a node began anew: the next ones after a kickout while due.

    The kickout is what closed its interval (docs/reference/scoring-rules.md#qos-and-kickout).
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
    """Yield points inside a span that heals, at equal steps of H."""
    low, high = at(start).reliability, at(end).reliability
    if high - low < _LEAST_RISE:
        return
    for part in range(1, _HEALING_POINTS):
        wanted = low + (high - low) * part // _HEALING_POINTS
        time = start + bisect_left(range(start, end), wanted, key=lambda t: at(t).reliability)
        if start < time < end:
            yield at(time)
