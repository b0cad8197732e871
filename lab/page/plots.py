"""The shapes of a plot with their pixel positions, for templates that render SVG."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

PLOT_WIDTH = 1040
# Maximum number of systems in a plot, because each needs its own colour (lab.css).
MAX_SYSTEMS = 8
_LABEL_WIDTH, _RIGHT_MARGIN = 150.0, 52.0
_TOP_MARGIN, _LANE_HEIGHT, _ROW_GAP = 24.0, 10.0, 9.0


class PlotLabel(NamedTuple):
    """A text at a position.

    `anchor` is the value of SVG's `text-anchor`.
    """

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
    """A rectangle.

    `series` is its CSS class, which sets the colour, and `tooltip` is its <title>.
    """

    x: float
    y: float
    width: float
    height: float
    series: str
    tooltip: str


class Dot(NamedTuple):
    """A circle around a point.

    `series` and `tooltip` are as in `PlotBar`.
    """

    x: float
    y: float
    series: str
    tooltip: str


class Curve(NamedTuple):
    """A line through points, or the outline of a diamond.

    `points` is in SVG's notation.
    """

    points: str
    series: str
    tooltip: str


@dataclass(slots=True)
class Plot:
    """The shapes of one drawing.

    Its size is `width` by `height` pixels.
    """

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
    """A plot with the systems in its legend.

    `shown` is the number of nodes in the plot, `total` the number of nodes that could be shown.
    """

    plot: Plot
    systems: Sequence[str]
    shown: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values between `min_value` and `max_value` to pixels.

    The pixels are from `start_pixel` to `end_pixel`.
    """

    min_value: int
    max_value: int
    start_pixel: float
    end_pixel: float

    def compute_pixel(self, value: int) -> float:
        """Return the pixel of a value.

        A value beyond the axis gets the nearer end's pixel.
        """
        if self.max_value <= self.min_value:
            return self.start_pixel
        offset = min(max(value, self.min_value), self.max_value) - self.min_value
        return round(
            self.start_pixel
            + (self.end_pixel - self.start_pixel) * offset / (self.max_value - self.min_value),
            1,
        )

    def list_ticks(self, count: int) -> list[int]:
        """Return values that divide the axis into `count` equal parts, including both ends."""
        if self.max_value <= self.min_value:
            return [self.min_value]
        return [
            self.min_value + (self.max_value - self.min_value) * step // count
            for step in range(count + 1)
        ]


@dataclass(slots=True)
class RowPlot:
    """A plot with named rows of several lanes, and one horizontal axis."""

    plot: Plot
    axis: Axis
    lane_count: int

    @classmethod
    def create(
        cls, title: str, names: Sequence[str], lane_count: int, values: tuple[int, int]
    ) -> Self:
        """Create an empty plot with named rows.

        `values` are the ends of the horizontal axis.
        """
        height = _LANE_HEIGHT * lane_count + _ROW_GAP
        plot = Plot(title, PLOT_WIDTH, _TOP_MARGIN + height * len(names))
        plot.row_names = [
            PlotLabel(name, 0, _TOP_MARGIN + height * row + _LANE_HEIGHT * lane_count / 2 + 4)
            for row, name in enumerate(names)
        ]
        return cls(plot, Axis(*values, _LABEL_WIDTH, PLOT_WIDTH - _RIGHT_MARGIN), lane_count)

    def add_ticks(self, texts: Mapping[int, str]) -> None:
        """Draw a vertical line at each value, with a text above it."""
        for value, text in texts.items():
            x = self.axis.compute_pixel(value)
            self.plot.grid.append(PlotLine(x, _TOP_MARGIN - 6, x, self.plot.height))
            self.plot.labels.append(PlotLabel(text, x, _TOP_MARGIN - 12, "middle"))

    def compute_lane_top(self, row: int, lane: int) -> float:
        """Return the vertical position of a lane's upper edge, in pixels."""
        return (
            _TOP_MARGIN + (_LANE_HEIGHT * self.lane_count + _ROW_GAP) * row + _LANE_HEIGHT * lane
        )

    def add_bar(
        self, row_and_lane: tuple[int, int], values: tuple[int, int], series: str, tooltip: str
    ) -> None:
        """Draw a bar in a lane from one value to another.

        Short bars have a minimum width.
        """
        left, right = sorted(map(self.axis.compute_pixel, values))
        width = max(1.5, round(right - left, 1))
        self.plot.bars.append(
            PlotBar(
                left,
                self.compute_lane_top(*row_and_lane),
                width,
                _LANE_HEIGHT - 1,
                series,
                tooltip,
            )
        )

    def add_diamond(
        self, row_and_lane: tuple[int, int], value: int, series: str, tooltip: str
    ) -> None:
        x = self.axis.compute_pixel(value)
        y = self.compute_lane_top(*row_and_lane) + (_LANE_HEIGHT - 1) / 2
        half_size = 5.5
        corners = ((x - half_size, y), (x, y - half_size), (x + half_size, y), (x, y + half_size))
        self.plot.diamonds.append(Curve(format_svg_points(corners), series, tooltip))


def format_svg_points(points: Iterable[tuple[float, float]]) -> str:
    """Format points in SVG's notation."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
