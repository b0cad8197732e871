"""The plot of who was excluded when, and whose kickout fell due, as a timeline."""

from collections.abc import Sequence

from lab.backtest.comparison import SystemResult
from lab.backtest.results import DueInterval, ExclusionInterval
from lab.page.html import (
    Axis,
    label,
    lasting,
    line,
    moment,
    plot,
    short,
    tag,
    tip,
    whole_moment,
)
from oracle.domain.ids import Address
from oracle.queries.event_history import History

_WIDTH = 1040.0
_NAMES = 118.0
_LANE, _BETWEEN = 11.0, 9.0
_LEAST = 1.5
_MARKS = 5


def timeline(sides: Sequence[SystemResult], nodes: Sequence[Address], history: History) -> str:
    """Draw a lane for each node and system with rules: bars for exclusion, marks for kickouts."""
    axis = Axis(history.from_time, history.to_time, _NAMES, _WIDTH - 52)
    # A system keeps its colour, whatever stands beside it.
    ruled = [(number, side) for number, side in enumerate(sides) if side.column.has_rules]
    row = _LANE * len(ruled) + _BETWEEN
    height = 24 + row * len(nodes)
    span = history.to_time - history.from_time
    parts = []
    for mark in axis.marks(_MARKS):
        x = axis.at(mark)
        parts += [line(x, 18, x, height), label(moment(mark, span), x, 12, "middle")]
    for place, node in enumerate(nodes):
        top = 24 + row * place
        parts.append(label(short(node), 0, top + (row - _BETWEEN) / 2 + 4, class_="name"))
        for lane, (number, side) in enumerate(ruled):
            parts += _lane(side, node, number, top + _LANE * lane, axis)
    return plot(_WIDTH, height, "Exclusions and kickouts due over time, by node and system", parts)


def _lane(side: SystemResult, node: Address, number: int, top: float, axis: Axis) -> list[str]:
    intervals = [_interval(each, side, number, top, axis) for each in side.intervals_of(node)]
    due = [_kickout(each, side, number, top, axis) for each in side.kickouts_of(node)]
    return [*intervals, *due]


def _interval(
    interval: ExclusionInterval, side: SystemResult, number: int, top: float, axis: Axis
) -> str:
    end = "the end" if interval.until is None else whole_moment(interval.until)
    said = (
        f"{interval.node}, {side.column.name}: excluded from {whole_moment(interval.since)} "
        f"to {end}, {lasting(interval.seconds)}"
    )
    left = axis.at(interval.since)
    right = axis.end if interval.until is None else axis.at(interval.until)
    return tag(
        "rect",
        tip(said),
        x=left,
        y=top,
        width=max(_LEAST, right - left),
        height=_LANE - 2,
        class_=f"f{number}",
    )


def _kickout(due: DueInterval, side: SystemResult, number: int, top: float, axis: Axis) -> str:
    x, y, half = axis.at(due.time), top + (_LANE - 2) / 2, 5.5
    said = (
        f"{due.node}, {side.column.name}: kickout due from block {due.block}, "
        f"{whole_moment(due.time)}"
    )
    corners = ((x - half, y), (x, y - half), (x + half, y), (x, y + half))
    points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
    return tag("polygon", tip(said), points=points, class_=f"due l{number}")
