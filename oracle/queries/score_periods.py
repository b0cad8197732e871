"""The days or hours in which a node's QoS changed, each with its causes.

Pure functions of the answer `/v1/nodes/{node}/history`, so the periods cover the time range that
the reader selected.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.fold.working_set import CAUSES, ReliabilityCause, ReliabilityMark
from oracle.queries.api.history_points import HistoryPoint
from oracle.queries.api.node_history import HistoryMark, NodeHistory
from oracle.queries.text.human_numbers import (
    format_count,
    format_number_in_words,
    format_two_decimals,
    join_parts,
)

_DAY_SECONDS, _HOUR_SECONDS = 86_400, 3_600
# A longer history is divided into days, a shorter one into hours.
_MAX_HOURLY_SECONDS = 36 * _HOUR_SECONDS
# A smaller change of QoS, of the long-term score or of reliability is not mentioned.
_MIN_CHANGE = UNIT // 100


class ScorePeriod(NamedTuple):
    """A day or an hour in UTC in which a node's QoS changed, and the causes as sentences.

    `lowest_qos` is the minimum in the period. Scores are in units of 10^-18, `start` in unix
    seconds.
    """

    start: int
    seconds: int
    qos_before: int
    lowest_qos: int
    qos_after: int
    causes: str

    @property
    def change(self) -> int:
        """The QoS that the node gained, or lost if negative, as the rounded values have it."""
        return _round_down(self.qos_after) - _round_down(self.qos_before)


def list_score_periods(history: NodeHistory) -> list[ScorePeriod]:
    """Return the days or hours in which QoS rose or fell by 0.01 or more, newest first.

    QoS may fall and recover within one period, which is then listed because of its minimum. The
    list is empty under rules without a history of scores.
    """
    points = [_parse_row(row) for row in history.rows]
    is_short = history.last - history.first < _MAX_HOURLY_SECONDS
    seconds = _HOUR_SECONDS if is_short else _DAY_SECONDS
    before, periods = points[:1], []
    for start, period_points in _group_by_period(points, seconds):
        marks = [mark for mark in history.marks if mark.time // seconds * seconds == start]
        periods.append(_build_period(start, seconds, [*before, *period_points], marks))
        before = period_points[-1:]
    return [
        period
        for period in reversed(periods)
        if period.change or period.qos_before - period.lowest_qos >= _MIN_CHANGE
    ]


def _parse_row(row: tuple[int, str, str, str]) -> HistoryPoint:
    time, *scores = row
    qos, long_term, reliability = (int(Decimal(score) * UNIT) for score in scores)
    return HistoryPoint(time, qos, long_term, reliability, is_excluded=False)


def _group_by_period(
    points: Sequence[HistoryPoint], seconds: int
) -> Iterator[tuple[int, list[HistoryPoint]]]:
    for start, group in groupby(points, key=lambda point: point.time // seconds * seconds):
        yield start, list(group)


def _build_period(
    start: int, seconds: int, points: Sequence[HistoryPoint], marks: Sequence[HistoryMark]
) -> ScorePeriod:
    """Return a period; the first of `points` is the last one before the period."""
    before, after = points[0], points[-1]
    sentences = [_describe_reliability(points, marks), _describe_long_term(points)]
    return ScorePeriod(
        start=start,
        seconds=seconds,
        qos_before=before.qos,
        lowest_qos=min(point.qos for point in points),
        qos_after=after.qos,
        causes=" ".join(sentence for sentence in sentences if sentence),
    )


def _describe_reliability(points: Sequence[HistoryPoint], marks: Sequence[HistoryMark]) -> str:
    """Return how H changed, what that cost or brought, and why; empty if it hardly changed."""
    before, after = points[0], points[-1]
    lowest = min(point.reliability for point in points)
    falls = [
        mark
        for mark in marks
        if CAUSES[ReliabilityCause(mark.cause)].mark is ReliabilityMark.FALL
        and mark.before != mark.after
    ]
    change = after.reliability - before.reliability
    if not falls and abs(change) < _MIN_CHANGE:
        return ""
    cause = _describe_timeouts(falls) if falls else "it recovered"
    effect = multiply_fixed_point(before.long_term, abs(change))
    return (
        f"Reliability {format_two_decimals(before.reliability)} to "
        f"{format_two_decimals(after.reliability)}, lowest {format_two_decimals(lowest)}"
        f"{_format_effect(effect, change)}: {cause}."
    )


def _describe_timeouts(falls: Sequence[HistoryMark]) -> str:
    text = format_count(len(falls), "timeout")
    numbers = sorted({mark.incident for mark in falls if mark.incident is not None})
    if not numbers:
        return text
    count = sum(mark.incident is not None for mark in falls)
    names = join_parts([f"incident {number}" for number in numbers])
    return f"{text}, {format_number_in_words(count)} of them in {names}, probably not its fault"


def _describe_long_term(points: Sequence[HistoryPoint]) -> str:
    """Return how the long-term score changed, and what that cost; empty if it hardly changed."""
    before, after = points[0], points[-1]
    change = after.long_term - before.long_term
    if abs(change) < _MIN_CHANGE:
        return ""
    effect = multiply_fixed_point(abs(change), after.reliability)
    return (
        f"Long-term score {format_two_decimals(before.long_term)} to "
        f"{format_two_decimals(after.long_term)}{_format_effect(effect, change)}: "
        "ranks of its tasks."
    )


def _format_effect(effect: int, change: int) -> str:
    """Return what a change brought or cost, in brackets; empty for less than 0.01."""
    if effect < _MIN_CHANGE:
        return ""
    return f" ({'gained' if change > 0 else 'cost'} {format_two_decimals(effect)})"


def _round_down(units: int) -> int:
    return units // _MIN_CHANGE * _MIN_CHANGE
