"""Plots of scores: at the end as bars, and over time as lines."""

from collections.abc import Sequence

from lab.backtest.comparison import SystemResult
from lab.page.html import Axis, fraction, label, line, moment, plot, short, tag, tip
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address

_WIDTH = 1040.0
_NAMES = 118.0
_BAR, _BETWEEN = 9.0, 9.0
_ACROSS = 3
_PANEL_WIDTH, _PANEL_HEIGHT = 340.0, 168.0


def bars(sides: Sequence[SystemResult], nodes: Sequence[Address]) -> str:
    """Draw every node's score at the end, a bar for each system."""
    axis = Axis(0, UNIT, _NAMES, _WIDTH - 20)
    row = _BAR * len(sides) + _BETWEEN
    height = 22 + row * len(nodes)
    parts = []
    for mark in axis.marks(4):
        x = axis.at(mark)
        parts += [line(x, 18, x, height), label(fraction(mark, 2), x, 12, "middle")]
    for place, node in enumerate(nodes):
        top = 22 + row * place
        parts.append(label(short(node), 0, top + (row - _BETWEEN) / 2 + 4, class_="name"))
        for number, side in enumerate(sides):
            parts.append(_bar(side, node, number, top + _BAR * number, axis))
    return plot(_WIDTH, height, "Score of each node at the end, by system", parts)


def _bar(side: SystemResult, node: Address, number: int, top: float, axis: Axis) -> str:
    final = side.final_ranks.get(node)
    if final is None:
        return ""
    said = f"{node}, {side.column.name}: {fraction(final.score, 18)}, rank {final.rank}"
    return tag(
        "rect",
        tip(said),
        x=axis.start,
        y=top,
        # A score of nothing is seen, too.
        width=max(1.0, axis.at(final.score) - axis.start),
        height=_BAR - 1,
        class_=f"f{number}",
    )


def lines(sides: Sequence[SystemResult], nodes: Sequence[Address], instants: Sequence[int]) -> str:
    """Draw a panel for each node with its score over time, a line for each system."""
    rows = -(-len(nodes) // _ACROSS)
    parts = [
        _panel(sides, node, instants, (place % _ACROSS, place // _ACROSS))
        for place, node in enumerate(nodes)
    ]
    return plot(_WIDTH, rows * _PANEL_HEIGHT, "Score of each node over time, by system", parts)


def _panel(
    sides: Sequence[SystemResult], node: Address, instants: Sequence[int], place: tuple[int, int]
) -> str:
    left, top = place[0] * (_PANEL_WIDTH + 10), place[1] * _PANEL_HEIGHT
    across = Axis(instants[0], instants[-1], left + 26, left + _PANEL_WIDTH - 6)
    up = Axis(0, UNIT, top + _PANEL_HEIGHT - 28, top + 22)
    span = instants[-1] - instants[0]
    parts = [label(short(node), left + 26, top + 13, class_="name")]
    for mark in up.marks(2):
        parts.append(line(across.start, up.at(mark), across.end, up.at(mark)))
        parts.append(label(fraction(mark, 1), left + 20, up.at(mark) + 4, "end"))
    for mark, anchor in zip((instants[0], instants[-1]), ("start", "end"), strict=True):
        parts.append(label(moment(mark, span), across.at(mark), up.start + 15, anchor))
    for number, side in enumerate(sides):
        scores = side.measured.over_time.get(node, ())
        runs = _runs(list(zip(instants, scores, strict=False)))
        parts += [_curve(run, number, side.column.name, across, up) for run in runs]
    return "".join(parts)


def _runs(points: Sequence[tuple[int, int | None]]) -> list[list[tuple[int, int]]]:
    """Cut where the node had no score."""
    runs: list[list[tuple[int, int]]] = [[]]
    for time, score in points:
        if score is None:
            runs.append([])
        else:
            runs[-1].append((time, score))
    return [run for run in runs if run]


def _curve(run: Sequence[tuple[int, int]], number: int, name: str, across: Axis, up: Axis) -> str:
    if len(run) == 1:
        ((time, score),) = run
        return tag(
            "circle", tip(name), cx=across.at(time), cy=up.at(score), r=2.5, class_=f"f{number}"
        )
    points = " ".join(f"{across.at(time):.1f},{up.at(score):.1f}" for time, score in run)
    return tag("polyline", tip(name), points=points, class_=f"curve l{number}")
