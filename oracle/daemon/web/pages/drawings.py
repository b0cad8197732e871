"""Computes the layout of lines and bars that templates render as SVG.

Each chart is laid out twice, wide and narrow, and the style sheet shows one of the two. Therefore
text has the same size on all screens. This module processes only numbers and no foreign text
(docs/explanation/pages.md#drawings).
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.history_points import MAX_TREND_POINTS

BROAD, NARROW = 1_120, 340
_TOP_MARGIN, _LEFT_MARGIN, _RIGHT_MARGIN = 22, 34, 8
_PLOT_HEIGHT = 240
_FOOT_HEIGHT = 24
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
_TICKS_BY_WIDTH = {BROAD: 6, NARROW: 2}
_SPARKLINE_WIDTH, _SPARKLINE_HEIGHT, _SPARKLINE_MARGIN = 90, 20, 2


class Label(NamedTuple):
    """A text and its position."""

    x: float
    y: float
    text: str


class Bar(NamedTuple):
    """A rectangle; `value` is the number that it stands for."""

    x: float
    y: float
    width: float
    height: float
    value: int


class ChartPoint(NamedTuple):
    """A point in time on a chart.

    `value` is the index of a mark (from 0), or the time of a tick in unix seconds.
    """

    x: float
    y: float
    value: int


class Sample(NamedTuple):
    """A sample of a chart: its time in unix seconds, and three scores from 0 to 1."""

    time: int
    qos: float
    long_term: float
    reliability: float


class TrendChart(NamedTuple):
    """A chart of QoS, long-term score and reliability over time: SVG paths, axes and marks.

    `shaded` has the x and the width of each exclusion.
    """

    width: int
    height: int
    left: float
    right: float
    qos: str
    long_term: str
    reliability: str
    grid: tuple[Label, ...]
    ticks: tuple[ChartPoint, ...]
    foot: float
    limit: float
    shaded: tuple[tuple[float, float], ...]
    decreases: tuple[ChartPoint, ...]
    increases: tuple[ChartPoint, ...]


def _build_grid_labels() -> tuple[Label, ...]:
    return tuple(Label(_LEFT_MARGIN - 6, _compute_y(value), f"{value:g}") for value in _GRID)


def build_trend_chart(
    samples: Sequence[Sample],
    limit: float,
    width: int,
    *,
    decreases: Sequence[tuple[int, float, int]],
    increases: Sequence[tuple[int, float, int]],
    excluded: Sequence[tuple[int, int]],
) -> TrendChart | None:
    """Lay out a node's chart, or return None if there are no samples.

    `limit` is the reliability (H) below which a node is excluded. `decreases` and `increases` are
    changes of H as (time, value, index), and `excluded` are exclusions as (start, end). Times are
    in unix seconds, and `width` is in units of the drawing.
    """
    if not samples:
        return None
    first_time = samples[0].time
    last_time = max(samples[-1].time, samples[0].time + 1)
    right = width - _RIGHT_MARGIN

    def compute_x(time: int) -> float:
        clamped_time = min(max(time, first_time), last_time)
        return round(
            _LEFT_MARGIN
            + (clamped_time - first_time) * (right - _LEFT_MARGIN) / (last_time - first_time),
            1,
        )

    def build_path(column: str) -> str:
        return "M" + " L".join(
            f"{compute_x(sample.time)} {_compute_y(getattr(sample, column))}" for sample in samples
        )

    tick_count = _TICKS_BY_WIDTH.get(width, 2)
    return TrendChart(
        width=width,
        height=_TOP_MARGIN + _PLOT_HEIGHT + _FOOT_HEIGHT,
        left=_LEFT_MARGIN,
        right=right,
        qos=build_path("qos"),
        long_term=build_path("long_term"),
        reliability=build_path("reliability"),
        grid=_build_grid_labels(),
        ticks=tuple(
            ChartPoint(
                round(_LEFT_MARGIN + tick_index * (right - _LEFT_MARGIN) / tick_count, 1),
                0,
                first_time + tick_index * (last_time - first_time) // tick_count,
            )
            for tick_index in range(tick_count + 1)
        ),
        foot=_TOP_MARGIN + _PLOT_HEIGHT,
        limit=_compute_y(limit),
        shaded=tuple(
            (compute_x(since), round(max(1.0, compute_x(until) - compute_x(since)), 1))
            for since, until in excluded
            if until >= first_time
        ),
        decreases=tuple(
            ChartPoint(compute_x(time), _TOP_MARGIN - 6, index) for time, _, index in decreases
        ),
        increases=tuple(
            ChartPoint(compute_x(time), _compute_y(_interpolate_reliability(samples, time)), index)
            for time, _, index in increases
        ),
    )


def _interpolate_reliability(samples: Sequence[Sample], time: int) -> float:
    """Return the reliability that the chart's line shows at a given time.

    The value is interpolated, because some samples may have been left out of the chart.
    """
    index = bisect_right(samples, time, key=lambda sample: sample.time)
    sample_before = samples[max(0, index - 1)]
    sample_after = samples[min(index, len(samples) - 1)]
    if sample_after.time <= sample_before.time:
        return sample_before.reliability
    elapsed_share = (time - sample_before.time) / (sample_after.time - sample_before.time)
    return sample_before.reliability + elapsed_share * (
        sample_after.reliability - sample_before.reliability
    )


def _compute_y(value: float) -> float:
    return round(_TOP_MARGIN + (1 - min(max(value, 0.0), 1.0)) * _PLOT_HEIGHT, 1)


def lay_out_bars(
    values: Sequence[int], slot_count: int, box: tuple[float, float], max_value: int | None = None
) -> list[Bar]:
    """Lay out bars from left to right in a box (width, height) with `slot_count` slots.

    A bar of `max_value` is as high as the box. If `max_value` is None, the greatest value is used.
    """
    width, height = box
    slot_width = width / max(1, slot_count)
    full_value = max_value or max([1, *values])
    return [
        Bar(
            x=round(index * slot_width + slot_width * 0.06, 2),
            y=round(height - value * height / full_value, 2),
            width=round(slot_width * 0.88, 2),
            height=round(value * height / full_value, 2),
            value=value,
        )
        for index, value in enumerate(values)
    ]


def lay_out_share_bars(counts: Sequence[tuple[str, int]], width: float) -> list[tuple[str, Bar]]:
    """Lay out shares of a total as one row of bars, leaving out zero counts.

    Each bar is at least 3 wide.
    """
    present_counts = [(name, count) for name, count in counts if count]
    total_count = sum(count for _, count in present_counts)
    min_width = 3.0
    free_width = width - min_width * len(present_counts)
    named_bars, x = [], 0.0
    for name, count in present_counts:
        bar_width = min_width + free_width * count / total_count
        named_bars.append((name, Bar(round(x, 2), 0, round(bar_width - 1, 2), 20, count)))
        x += bar_width
    return named_bars


def build_sparkline_path(qos_values: Sequence[int]) -> str | None:
    """Return the SVG path of a sparkline of QoS values, or None if there are fewer than two.

    The values are in units of 10^-18, and the scale is from 0 to 1. The newest value is at the
    right end. The distance between two values is the same in all sparklines.
    """
    if len(qos_values) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    width = _SPARKLINE_WIDTH - 2 * _SPARKLINE_MARGIN
    height = _SPARKLINE_HEIGHT - 2 * _SPARKLINE_MARGIN
    point_distance = width / (MAX_TREND_POINTS - 1)
    first_x = _SPARKLINE_WIDTH - _SPARKLINE_MARGIN - point_distance * (len(qos_values) - 1)
    bottom_y = _SPARKLINE_HEIGHT - _SPARKLINE_MARGIN
    points = (
        f"{first_x + point_distance * index:.1f} {bottom_y - qos * height / UNIT:.1f}"
        for index, qos in enumerate(qos_values)
    )
    return "M" + " L".join(points)
