"""Shapes of a plot with their pixel positions; templates render them as SVG."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

PLOT_WIDTH = 1040
# Maximum systems of a plot, each with its own colour (style.css); tables show all.
MAX_SYSTEMS = 8
_LABEL_WIDTH, _RIGHT_MARGIN = 150.0, 52.0
_TOP_MARGIN, _LANE_HEIGHT, _ROW_GAP = 24.0, 10.0, 9.0


class PlotLabel(NamedTuple):
    """A text at a position; `anchor` is SVG's text-anchor."""

    text: str
    x: float
    y: float
    anchor: str = "start"


class PlotLine(NamedTuple):
    """A straight line from one point to another."""

    x1: float
    y1: float
    x2: float
    y2: float


class PlotBar(NamedTuple):
    """A rectangle; `series` is the CSS class of its colour, `tip` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    series: str
    tip: str


class Dot(NamedTuple):
    """A circle."""

    x: float
    y: float
    series: str
    tip: str


class Curve(NamedTuple):
    """A line through points in SVG's notation."""

    points: str
    series: str
    tip: str


@dataclass(slots=True)
class Plot:
    """The shapes of one drawing, `width` by `height` pixels large."""

    name: str
    width: float
    height: float
    grid: list[PlotLine] = field(default_factory=list)
    diagonals: list[PlotLine] = field(default_factory=list)
    labels: list[PlotLabel] = field(default_factory=list)
    row_names: list[PlotLabel] = field(default_factory=list)
    bars: list[PlotBar] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    diamonds: list[Curve] = field(default_factory=list)


class Figure(NamedTuple):
    """A plot, the systems of its legend, and the numbers of shown and of all nodes."""

    plot: Plot
    systems: Sequence[str]
    shown: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values from `min_value` to `max_value` to pixels from `start_pixel` to `end_pixel`."""

    min_value: int
    max_value: int
    start_pixel: float
    end_pixel: float

    def to_pixel(self, value: int) -> float:
        """Return the pixel of a value; values outside of the axis are drawn at its edge."""
        if self.max_value <= self.min_value:
            return self.start_pixel
        offset = min(max(value, self.min_value), self.max_value) - self.min_value
        return round(
            self.start_pixel
            + (self.end_pixel - self.start_pixel) * offset / (self.max_value - self.min_value),
            1,
        )

    def list_marks(self, count: int) -> list[int]:
        """Return values evenly over the axis, both ends included."""
        if self.max_value <= self.min_value:
            return [self.min_value]
        return [
            self.min_value + (self.max_value - self.min_value) * step // count
            for step in range(count + 1)
        ]


@dataclass(slots=True)
class RowPlot:
    """A plot with one row per name, several lanes per row, and one horizontal axis."""

    plot: Plot
    axis: Axis
    lane_count: int

    @classmethod
    def create(
        cls, title: str, names: Sequence[str], lane_count: int, values: tuple[int, int]
    ) -> Self:
        """Return a plot without shapes; `values` are the ends of the axis."""
        height = _LANE_HEIGHT * lane_count + _ROW_GAP
        plot = Plot(title, PLOT_WIDTH, _TOP_MARGIN + height * len(names))
        plot.row_names = [
            PlotLabel(name, 0, _TOP_MARGIN + height * row + _LANE_HEIGHT * lane_count / 2 + 4)
            for row, name in enumerate(names)
        ]
        return cls(plot, Axis(*values, _LABEL_WIDTH, PLOT_WIDTH - _RIGHT_MARGIN), lane_count)

    def add_marks(self, texts: Mapping[int, str]) -> None:
        """Draw a vertical line and a text at each value."""
        for value, text in texts.items():
            x = self.axis.to_pixel(value)
            self.plot.grid.append(PlotLine(x, _TOP_MARGIN - 6, x, self.plot.height))
            self.plot.labels.append(PlotLabel(text, x, _TOP_MARGIN - 12, "middle"))

    def get_lane_top(self, row: int, lane: int) -> float:
        """Return the upper edge of a lane."""
        return (
            _TOP_MARGIN + (_LANE_HEIGHT * self.lane_count + _ROW_GAP) * row + _LANE_HEIGHT * lane
        )

    def add_bar(
        self, row_and_lane: tuple[int, int], values: tuple[int, int], series: str, tip: str
    ) -> None:
        """Draw a bar in a row and lane between two values; bars have a minimum width."""
        left, right = sorted(map(self.axis.to_pixel, values))
        width = max(1.5, round(right - left, 1))
        self.plot.bars.append(
            PlotBar(left, self.get_lane_top(*row_and_lane), width, _LANE_HEIGHT - 1, series, tip)
        )

    def add_diamond(
        self, row_and_lane: tuple[int, int], value: int, series: str, tip: str
    ) -> None:
        """Draw a diamond in a row and lane at a value."""
        x, y, half_size = (
            self.axis.to_pixel(value),
            self.get_lane_top(*row_and_lane) + (_LANE_HEIGHT - 1) / 2,
            5.5,
        )
        corners = ((x - half_size, y), (x, y - half_size), (x + half_size, y), (x, y + half_size))
        self.plot.diamonds.append(Curve(format_points(corners), series, tip))


def format_points(points: Iterable[tuple[float, float]]) -> str:
    """Return points in SVG's notation."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
