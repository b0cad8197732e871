"""The layout of lines and bars, which templates render as SVG.

Coordinates are in units of the drawing's own width, so that its text keeps its size: each chart is
laid out twice, wide and narrow, and the style sheet shows one of them. Only numbers pass through
this module, no foreign text (docs/explanation/pages.md#drawings).
"""

from collections.abc import Sequence
from typing import NamedTuple

BROAD, NARROW = 1_120, 340
_TOP, _LEFT, _RIGHT = 22, 34, 8
_PLOT_HEIGHT = 240
_FOOT = 24
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
_TICKS = {BROAD: 6, NARROW: 2}


class Label(NamedTuple):
    """A text with its position."""

    x: float
    y: float
    text: str


class Bar(NamedTuple):
    """A rectangle; `value` is the number that it represents."""

    x: float
    y: float
    width: float
    height: float
    value: int


class Moment(NamedTuple):
    """A point in time on a chart.

    `value` is the index of a mark, from 0, or the unix seconds of a tick.
    """

    x: float
    y: float
    value: int


class Sample(NamedTuple):
    """A sample: unix seconds and three fractions of 1."""

    time: int
    qos: float
    long_term: float
    reliability: float


class Span(NamedTuple):
    """A range on the x axis."""

    x: float
    width: float


class CourseChart(NamedTuple):
    """QoS, long-term score and H over time: SVG paths, axes and marks."""

    width: int
    height: int
    left: float
    right: float
    qos: str
    long_term: str
    reliability: str
    grid: tuple[Label, ...]
    ticks: tuple[Moment, ...]
    foot: float
    limit: float
    shaded: tuple[Span, ...]
    falls: tuple[Moment, ...]
    rises: tuple[Moment, ...]


class Marks(NamedTuple):
    """Changes of H as (time, value, index), and the times (from, to) of exclusion."""

    falls: Sequence[tuple[int, float, int]]
    rises: Sequence[tuple[int, float, int]]
    excluded: Sequence[tuple[int, int]]


def course_chart(
    samples: Sequence[Sample], marks: Marks, limit: float, width: int
) -> CourseChart | None:
    """Lay out a node's chart, or return None without samples; `limit` is for exclusion."""
    if not samples:
        return None
    first, last = samples[0].time, max(samples[-1].time, samples[0].time + 1)
    right = width - _RIGHT

    def x(time: int) -> float:
        inside = min(max(time, first), last)
        return round(_LEFT + (inside - first) * (right - _LEFT) / (last - first), 1)

    def path(column: str) -> str:
        return "M" + " L".join(
            f"{x(sample.time)} {_height(getattr(sample, column))}" for sample in samples
        )

    many = _TICKS.get(width, 2)
    return CourseChart(
        width=width,
        height=_TOP + _PLOT_HEIGHT + _FOOT,
        left=_LEFT,
        right=right,
        qos=path("qos"),
        long_term=path("long_term"),
        reliability=path("reliability"),
        grid=tuple(Label(_LEFT - 6, _height(value), f"{value:g}") for value in _GRID),
        ticks=tuple(
            Moment(round(_LEFT + part * (right - _LEFT) / many, 1), 0, first + part
                   * (last - first) // many)
            for part in range(many + 1)
        ),
        foot=_TOP + _PLOT_HEIGHT,
        limit=_height(limit),
        shaded=tuple(
            Span(x(since), round(max(1.0, x(until) - x(since)), 1))
            for since, until in marks.excluded
            if until >= first
        ),
        falls=tuple(Moment(x(time), _TOP - 6, index) for time, _, index in marks.falls),
        rises=tuple(Moment(x(time), _height(value), index) for time, value, index in marks.rises),
    )  # fmt: skip


def _height(value: float) -> float:
    return round(_TOP + (1 - min(max(value, 0.0), 1.0)) * _PLOT_HEIGHT, 1)


def bars(
    values: Sequence[int], places: int, box: tuple[float, float], most: int | None = None
) -> list[Bar]:
    """Lay out bars from the left in a box (width, height) with `slot_count` slots.

    A bar of `max_value` is as high as the box; None: the greatest value is.
    """
    width, height = box
    step = width / max(1, places)
    top = most or max([1, *values])
    return [
        Bar(
            x=round(index * step + step * 0.06, 2),
            y=round(height - value * height / top, 2),
            width=round(step * 0.88, 2),
            height=round(value * height / top, 2),
            value=value,
        )
        for index, value in enumerate(values)
    ]


def shares(counts: Sequence[tuple[str, int]], width: float) -> list[tuple[str, Bar]]:
    """Lay out shares of a total in one line, each at least 3 wide; zero counts are omitted."""
    present = [(name, count) for name, count in counts if count]
    total = sum(count for _, count in present)
    least = 3.0
    free = width - least * len(present)
    found, x = [], 0.0
    for name, count in present:
        part = least + free * count / total
        found.append((name, Bar(round(x, 2), 0, round(part - 1, 2), 20, count)))
        x += part
    return found
