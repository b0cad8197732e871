"""Lists the days or hours in which a node's QoS changed, with the causes of each change.

The functions use only the history that `/v1/nodes/{node}/history` returns, so the periods cover
the time range that the reader selected.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.reliability import DECREASE_CAUSES, ReliabilityCause
from oracle.queries.api.history_points import HistoryPoint
from oracle.queries.api.node_history import HistoryMark, NodeHistory

_DAY_SECONDS, _HOUR_SECONDS = 86_400, 3_600
# Maximum length of a history that is divided into hours. A longer history is divided into days.
_MAX_HOURLY_SECONDS = 36 * _HOUR_SECONDS
# Minimum change of QoS that is mentioned.
_MIN_CHANGE = UNIT // 100


class ScorePeriod(NamedTuple):
    """A day, hour or other time span, and the causes of the QoS change in this span.

    Days and hours are in UTC. `lowest_qos` is the minimum in the period. `parts` are pairs of a
    cause and the QoS that it brought (negative if it cost QoS); their sum is `change`. `decreases`
    are the changes that lowered reliability; `has_recovered` is whether reliability ends as high
    as it began in spite of them. Scores are in units of 10^-18, `start` in unix seconds.
    """

    start: int
    seconds: int
    qos_before: int
    lowest_qos: int
    qos_after: int
    parts: list[tuple[str, int]]
    decreases: list[HistoryMark]
    has_recovered: bool

    @property
    def change(self) -> int:
        """The QoS that the node gained (negative if lost), from values rounded down to 0.01."""
        return _round_down_to_hundredths(self.qos_after) - _round_down_to_hundredths(
            self.qos_before
        )


def list_score_periods(history: NodeHistory, points: Sequence[HistoryPoint]) -> list[ScorePeriod]:
    """Return the days or hours in which QoS changed by at least 0.01, newest first.

    Periods in which only one cause changed QoS by this amount are included.

    `points` are all points of the history, while the rows of a long history leave some out. If QoS
    falls and recovers within one period, the period is listed because of its minimum. The list is
    empty under rules without a history of scores.
    """
    has_hourly_periods = history.last - history.first < _MAX_HOURLY_SECONDS
    seconds = _HOUR_SECONDS if has_hourly_periods else _DAY_SECONDS
    points_before: Sequence[HistoryPoint] = points[:1]
    periods = []
    for start, period_points in _group_by_period(points, seconds):
        marks = [mark for mark in history.marks if mark.time // seconds * seconds == start]
        periods.append(
            _build_score_period(start, seconds, [*points_before, *period_points], marks)
        )
        points_before = period_points[-1:]
    return [
        period
        for period in reversed(periods)
        if period.parts or period.qos_before - period.lowest_qos >= _MIN_CHANGE
    ]


def list_total_periods(history: NodeHistory, points: Sequence[HistoryPoint]) -> list[ScorePeriod]:
    """Return the periods of a history's last UTC day and of its whole span.

    The whole span is left out if it began on the last day.

    `points` are all points of the history. The list is empty under rules without a history of
    scores.
    """
    if not points:
        return []
    day_start = history.last // _DAY_SECONDS * _DAY_SECONDS
    total_periods = []
    for start in sorted({max(day_start, history.first), history.first}, reverse=True):
        split_index = bisect_left(points, start, key=lambda point: point.time)
        marks = [mark for mark in history.marks if mark.time >= start]
        total_periods.append(
            _build_score_period(
                start, history.last - start, points[max(0, split_index - 1) :], marks
            )
        )
    return total_periods


def _group_by_period(
    points: Sequence[HistoryPoint], seconds: int
) -> Iterator[tuple[int, list[HistoryPoint]]]:
    for start, group in groupby(points, key=lambda point: point.time // seconds * seconds):
        yield start, list(group)


def _build_score_period(
    start: int, seconds: int, points: Sequence[HistoryPoint], marks: Sequence[HistoryMark]
) -> ScorePeriod:
    """Build a score period from history points.

    The first point precedes the period.
    """
    decrease_marks = [
        mark
        for mark in marks
        if ReliabilityCause(mark.cause) in DECREASE_CAUSES and mark.before != mark.after
    ]
    first_point, last_point = points[0], points[-1]
    period = ScorePeriod(
        start=start,
        seconds=seconds,
        qos_before=first_point.qos,
        lowest_qos=min(point.qos for point in points),
        qos_after=last_point.qos,
        parts=[],
        decreases=decrease_marks,
        has_recovered=bool(decrease_marks)
        and last_point.reliability > first_point.reliability - _MIN_CHANGE,
    )
    return period._replace(parts=_split_change_by_cause(first_point, last_point, period.change))


def _split_change_by_cause(
    point_before: HistoryPoint, point_after: HistoryPoint, qos_change: int
) -> list[tuple[str, int]]:
    """Split a QoS change into the parts due to scores and to reliability.

    The parts are in whole hundredths. Only the states at both ends count, so that a fall of
    reliability that has recovered costs nothing. The change of each factor is multiplied by the
    mean of the other one, so that the two parts add up to the change of the product. The rounding
    difference is added to the largest part.
    """
    change_by_scores = (
        (point_after.long_term - point_before.long_term)
        * (point_before.reliability + point_after.reliability)
    ) // (2 * UNIT)
    change_by_reliability = point_after.qos - point_before.qos - change_by_scores
    change_by_cause = {
        "scores of its tasks": change_by_scores,
        "reliability": change_by_reliability,
    }
    rounded_changes = {
        name: (part + _MIN_CHANGE // 2) // _MIN_CHANGE * _MIN_CHANGE
        for name, part in change_by_cause.items()
    }
    largest_cause = max(rounded_changes, key=lambda name: abs(change_by_cause[name]))
    rounded_changes[largest_cause] += qos_change - sum(rounded_changes.values())
    return [(name, part) for name, part in rounded_changes.items() if part]


def _round_down_to_hundredths(units: int) -> int:
    return units // _MIN_CHANGE * _MIN_CHANGE
