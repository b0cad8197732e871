"""The plots of a backtest: scores, exclusions, and the distribution of tasks."""

from collections.abc import Sequence

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.statistics import lorenz
from lab.page.number_text import fraction, lasting, moment, short_address, whole_moment
from lab.page.plots import WIDTH, Axis, Curve, Dot, Plot, PlotLabel, PlotLine, RowPlot, points_text
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.event_history import History

_PANELS_IN_ROW = 3
_PANEL_WIDTH, _PANEL_HEIGHT = 340.0, 168.0
_SQUARE = 460.0
_TIME_MARKS = 5
# Maximum points of a Lorenz curve; more are not visible.
_MAX_POINTS = 200
# The CSS class of the history itself.
HISTORY = "history"


def final_scores(sides: Sequence[SystemResult], nodes: Sequence[Address]) -> Plot:
    """Draw every node's final score, with a bar for each system."""
    title = "Score of each node at the end, by system"
    rows = RowPlot.of_rows(title, [*map(short_address, nodes)], len(sides), (0, UNIT))
    rows.add_marks({mark: fraction(mark, 2) for mark in rows.axis.marks(4)})
    for row, node in enumerate(nodes):
        for number, side in enumerate(sides):
            final = side.final_ranks.get(node)
            if final is not None:
                score = f"{fraction(final.score, 18)}, rank {final.rank}"
                tip = f"{node}, {side.column.name}: {score}"
                rows.add_bar((row, number), (0, final.score), f"s{number}", tip)
    return rows.plot


def scores_over_time(
    sides: Sequence[SystemResult], nodes: Sequence[Address], instants: Sequence[int]
) -> Plot:
    """Draw a panel for each node with its score over time, a line for each system."""
    height = -(-len(nodes) // _PANELS_IN_ROW) * _PANEL_HEIGHT
    plot = Plot("Score of each node over time, by system", WIDTH, height)
    for place, node in enumerate(nodes):
        left = place % _PANELS_IN_ROW * (_PANEL_WIDTH + 10)
        top = place // _PANELS_IN_ROW * _PANEL_HEIGHT
        across = Axis(instants[0], instants[-1], left + 26, left + _PANEL_WIDTH - 6)
        up = Axis(0, UNIT, top + _PANEL_HEIGHT - 28, top + 22)
        plot.row_names.append(PlotLabel(short_address(node), left + 26, top + 13))
        _add_grid(plot, across, up)
        for number, side in enumerate(sides):
            scores = side.measured.over_time.get(node, ())
            for run in _runs(list(zip(instants, scores, strict=False))):
                points = [(across.pixel(time), up.pixel(score)) for time, score in run]
                _add_run(plot, points, f"s{number}", side.column.name)
    return plot


def _add_grid(plot: Plot, across: Axis, up: Axis) -> None:
    for mark in up.marks(2):
        y = up.pixel(mark)
        plot.grid.append(PlotLine(across.start, y, across.end, y))
        plot.labels.append(PlotLabel(fraction(mark, 1), across.start - 6, y + 4, "end"))
    for time, anchor in ((across.low, "start"), (across.high, "end")):
        text = moment(time, across.high - across.low)
        plot.labels.append(PlotLabel(text, across.pixel(time), up.start + 15, anchor))


def _runs(points: Sequence[tuple[int, int | None]]) -> list[list[tuple[int, int]]]:
    """Split times and scores where the node had no score."""
    runs: list[list[tuple[int, int]]] = [[]]
    for time, score in points:
        if score is None:
            runs.append([])
        else:
            runs[-1].append((time, score))
    return [run for run in runs if run]


def _add_run(plot: Plot, points: Sequence[tuple[float, float]], series: str, tip: str) -> None:
    if len(points) == 1:
        plot.dots.append(Dot(*points[0], series, tip))
    else:
        plot.curves.append(Curve(points_text(points), series, tip))


def exclusions(sides: Sequence[SystemResult], nodes: Sequence[Address], history: History) -> Plot:
    """Draw lanes by node and system with rules: exclusions as bars, due kickouts as diamonds."""
    # A system keeps its colour even if others are left out.
    ruled = [(number, side) for number, side in enumerate(sides) if side.column.has_rules]
    start, end = history.from_time, history.to_time
    title = "Exclusions and kickouts due over time, by node and system"
    names = [*map(short_address, nodes)]
    rows = RowPlot.of_rows(title, names, len(ruled), (start, end))
    rows.add_marks({mark: moment(mark, end - start) for mark in rows.axis.marks(_TIME_MARKS)})
    for row, node in enumerate(nodes):
        for lane, (number, side) in enumerate(ruled):
            place, series, name = (row, lane), f"s{number}", f"{node}, {side.column.name}"
            for interval in side.intervals_of(node):
                until = "the end" if interval.until is None else whole_moment(interval.until)
                span = f"{whole_moment(interval.since)} to {until}, {lasting(interval.seconds)}"
                times = (interval.since, end if interval.until is None else interval.until)
                rows.add_bar(place, times, series, f"{name}: excluded from {span}")
            for due in side.kickouts_of(node):
                tip = f"{name}: kickout due from block {due.block}, {whole_moment(due.time)}"
                rows.add_diamond(place, due.time, series, tip)
    return rows.plot


def task_shares(sides: Sequence[SystemResult], nodes: Sequence[Address]) -> Plot:
    """Draw each node's share of tasks as a bar, and the share by each system as a dot."""
    first = sides[0]
    largest = max((_largest_share(sides, node) for node in nodes), default=0)
    title = "Share of tasks of each node, actual and by system"
    rows = RowPlot.of_rows(title, [*map(short_address, nodes)], 1, (0, largest or UNIT))
    rows.add_marks({mark: f"{100 * mark / UNIT:.1f} %" for mark in rows.axis.marks(4)})
    for row, node in enumerate(nodes):
        actual = first.actual_share(node) or 0
        tip = f"{node}: got {first.actual(node)} tasks, a share of {fraction(actual, 6)}"
        rows.add_bar((row, 0), (0, actual), HISTORY, tip)
        for number, side in enumerate(sides):
            expected = side.expected_share(node)
            if expected is not None:
                # Slightly apart, so that equal values are all visible.
                y = rows.top(row, 0) + 4.5 + (number - (len(sides) - 1) / 2) * 2.5
                tip = f"{node}, {side.column.name}: a share of {fraction(expected, 6)}"
                rows.plot.dots.append(Dot(rows.axis.pixel(expected), y, f"s{number}", tip))
    return rows.plot


def _largest_share(sides: Sequence[SystemResult], node: Address) -> int:
    expected = (side.expected_share(node) or 0 for side in sides)
    return max(sides[0].actual_share(node) or 0, *expected)


def lorenz_curves(compared: Comparison, sides: Sequence[SystemResult]) -> Plot:
    """Draw Lorenz curves of the tasks, actual and by system."""
    across, up = Axis(0, UNIT, 40, _SQUARE - 24), Axis(0, UNIT, _SQUARE - 40, 24)
    plot = Plot("Lorenz curves of tasks over nodes", _SQUARE, _SQUARE)
    for mark in across.marks(4):
        x, y, text = across.pixel(mark), up.pixel(mark), f"{100 * mark // UNIT} %"
        plot.grid += [PlotLine(x, up.end, x, up.start), PlotLine(across.start, y, across.end, y)]
        plot.labels.append(PlotLabel(text, x, up.start + 15, "middle"))
        plot.labels.append(PlotLabel(text, across.start - 6, y + 4, "end"))
    plot.diagonals.append(PlotLine(across.start, up.start, across.end, up.end))
    present = compared.present
    tasks = [("as it was", HISTORY, [sides[0].actual(node) for node in present])]
    for number, side in enumerate(sides):
        expected = [side.expected(node) for node in present]
        tasks.append((side.column.name, f"s{number}", expected))
    for name, series, counts in tasks:
        curve = lorenz(counts)
        last = len(curve) - 1
        if last > 0:
            places = [*range(0, last, max(1, last // _MAX_POINTS)), last]
            points = [(across.pixel(at * UNIT // last), up.pixel(curve[at])) for at in places]
            plot.curves.append(Curve(points_text(points), series, name))
    return plot
