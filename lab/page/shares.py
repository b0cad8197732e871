"""Plots of how tasks spread: shares of each node, and the Lorenz curve of all of them."""

from collections.abc import Sequence

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.statistics import lorenz
from lab.page.html import Axis, fraction, label, line, plot, short, tag, tip
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address

_WIDTH = 1040.0
_NAMES = 118.0
_ROW = 20.0
_SQUARE = 460.0
# Points of a curve; more are not seen.
_POINTS = 200


def shares(sides: Sequence[SystemResult], nodes: Sequence[Address]) -> str:
    """Draw what each node got as a bar, and what each system would have given it as dots."""
    most = max((_largest(sides, node) for node in nodes), default=0)
    axis = Axis(0, most or UNIT, _NAMES, _WIDTH - 30)
    height = 24 + _ROW * len(nodes)
    parts = []
    for mark in axis.marks(4):
        x = axis.at(mark)
        parts += [line(x, 18, x, height), label(f"{100 * mark / UNIT:.1f} %", x, 12, "middle")]
    for place, node in enumerate(nodes):
        parts += _row(sides, node, 24 + _ROW * place, axis)
    return plot(_WIDTH, height, "Share of tasks of each node, actual and by system", parts)


def _largest(sides: Sequence[SystemResult], node: Address) -> int:
    return max(sides[0].actual_share(node) or 0, *(s.expected_share(node) or 0 for s in sides))


def _row(sides: Sequence[SystemResult], node: Address, top: float, axis: Axis) -> list[str]:
    actual = sides[0].actual_share(node) or 0
    said = f"{node}: got {sides[0].actual(node)} tasks, a share of {fraction(actual, 6)}"
    parts = [
        label(short(node), 0, top + 12, class_="name"),
        tag(
            "rect",
            tip(said),
            x=axis.start,
            y=top + 2,
            width=axis.at(actual) - axis.start,
            height=_ROW - 7,
            class_="actual",
        ),
    ]
    for number, side in enumerate(sides):
        expected = side.expected_share(node)
        if expected is not None:
            said = f"{node}, {side.column.name}: a share of {fraction(expected, 6)}"
            # A little apart, so that equal ones are all seen.
            y = top + _ROW / 2 - 1.5 + (number - (len(sides) - 1) / 2) * 2.5
            parts.append(
                tag("circle", tip(said), cx=axis.at(expected), cy=y, r=4, class_=f"mark f{number}")
            )
    return parts


def lorenz_curves(compared: Comparison, sides: Sequence[SystemResult]) -> str:
    """Draw which share of tasks the poorest part of the nodes has, actual and by system."""
    across, up = Axis(0, UNIT, 40, _SQUARE - 24), Axis(0, UNIT, _SQUARE - 40, 24)
    parts = []
    for mark in across.marks(4):
        x, y, said = across.at(mark), up.at(mark), f"{100 * mark // UNIT} %"
        parts += [line(x, up.end, x, up.start), label(said, x, up.start + 15, "middle")]
        parts += [
            line(across.start, y, across.end, y),
            label(said, across.start - 6, y + 4, "end"),
        ]
    parts.append(line(across.start, up.start, across.end, up.end, "even"))
    present = compared.present
    actual = lorenz([sides[0].actual(node) for node in present])
    parts.append(_curve(actual, "as it was", "taken", (across, up)))
    for number, side in enumerate(sides):
        curve = lorenz([side.expected(node) for node in present])
        parts.append(_curve(curve, side.column.name, f"curve l{number}", (across, up)))
    return plot(_SQUARE, _SQUARE, "Lorenz curves of tasks over nodes", parts)


def _curve(curve: Sequence[int], name: str, class_: str, axes: tuple[Axis, Axis]) -> str:
    if not curve:
        return ""
    across, up = axes
    last = len(curve) - 1
    step = max(1, last // _POINTS)
    places = [*range(0, last, step), last]
    points = " ".join(
        f"{across.at(place * UNIT // last):.1f},{up.at(curve[place]):.1f}" for place in places
    )
    return tag("polyline", tip(name), points=points, class_=class_)
