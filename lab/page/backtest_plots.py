"""Draws the plots of `backtest`: scores, exclusions and the distribution of tasks."""

from collections.abc import Sequence

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.event_history import History
from lab.backtest.statistics import compute_lorenz_curve
from lab.page.number_text import (
    format_axis_time,
    format_duration,
    format_fraction,
    format_time_to_second,
    shorten_address,
)
from lab.page.plots import (
    PLOT_WIDTH,
    Axis,
    Curve,
    Dot,
    Plot,
    PlotLabel,
    PlotLine,
    RowPlot,
    format_svg_points,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address

_PANELS_IN_ROW = 3
_PANEL_WIDTH, _PANEL_HEIGHT = 340.0, 168.0
_SQUARE_SIZE = 460.0
_TIME_MARK_COUNT = 5
# Approximate number of points of a Lorenz curve. More points would not be visible.
_MAX_POINTS = 200
# The CSS class of the actual distribution of tasks in the history.
HISTORY_CLASS = "history"


def plot_final_scores(results: Sequence[SystemResult], nodes: Sequence[Address]) -> Plot:
    """Draw each node's final score, as one bar per system."""
    title = "Score of each node at the end, by system"
    row_plot = RowPlot.create(title, [*map(shorten_address, nodes)], len(results), (0, UNIT))
    row_plot.add_ticks({tick: format_fraction(tick, 2) for tick in row_plot.axis.list_ticks(4)})
    for row, node in enumerate(nodes):
        for number, result in enumerate(results):
            final_rank = result.final_ranks.get(node)
            if final_rank is not None:
                score = f"{format_fraction(final_rank.score, 18)}, rank {final_rank.rank}"
                tooltip = f"{node}, {result.column.name}: {score}"
                row_plot.add_bar((row, number), (0, final_rank.score), f"s{number}", tooltip)
    return row_plot.plot


def plot_scores_over_time(
    results: Sequence[SystemResult], nodes: Sequence[Address], instants: Sequence[int]
) -> Plot:
    """Draw a panel for each node, with its score over time as one line per system."""
    height = -(-len(nodes) // _PANELS_IN_ROW) * _PANEL_HEIGHT
    plot = Plot("Score of each node over time, by system", PLOT_WIDTH, height)
    for panel_index, node in enumerate(nodes):
        left = panel_index % _PANELS_IN_ROW * (_PANEL_WIDTH + 10)
        top = panel_index // _PANELS_IN_ROW * _PANEL_HEIGHT
        x_axis = Axis(instants[0], instants[-1], left + 26, left + _PANEL_WIDTH - 6)
        y_axis = Axis(0, UNIT, top + _PANEL_HEIGHT - 28, top + 22)
        plot.row_names.append(PlotLabel(shorten_address(node), left + 26, top + 13))
        _add_grid(plot, x_axis, y_axis)
        for number, result in enumerate(results):
            scores = result.measurement.scores_over_time.get(node, ())
            for score_run in _split_at_missing_scores(list(zip(instants, scores, strict=False))):
                points = [
                    (x_axis.compute_pixel(time), y_axis.compute_pixel(score))
                    for time, score in score_run
                ]
                _add_score_segment(plot, points, f"s{number}", result.column.name)
    return plot


def _add_grid(plot: Plot, x_axis: Axis, y_axis: Axis) -> None:
    for tick in y_axis.list_ticks(2):
        y = y_axis.compute_pixel(tick)
        plot.grid.append(PlotLine(x_axis.start_pixel, y, x_axis.end_pixel, y))
        plot.labels.append(
            PlotLabel(format_fraction(tick, 1), x_axis.start_pixel - 6, y + 4, "end")
        )
    for time, anchor in ((x_axis.min_value, "start"), (x_axis.max_value, "end")):
        text = format_axis_time(time, x_axis.max_value - x_axis.min_value)
        plot.labels.append(
            PlotLabel(text, x_axis.compute_pixel(time), y_axis.start_pixel + 15, anchor)
        )


def _split_at_missing_scores(
    points: Sequence[tuple[int, int | None]],
) -> list[list[tuple[int, int]]]:
    """Split a series of times and scores into parts without missing scores."""
    runs: list[list[tuple[int, int]]] = [[]]
    for time, score in points:
        if score is None:
            runs.append([])
        else:
            runs[-1].append((time, score))
    return [run for run in runs if run]


def _add_score_segment(
    plot: Plot, points: Sequence[tuple[float, float]], series: str, tooltip: str
) -> None:
    if len(points) == 1:
        plot.dots.append(Dot(*points[0], series, tooltip))
    else:
        plot.curves.append(Curve(format_svg_points(points), series, tooltip))


def plot_exclusions(
    results: Sequence[SystemResult], nodes: Sequence[Address], history: History
) -> Plot:
    """Draw a lane of exclusions for each node and system.

    Only systems with rules have lanes. Exclusions are bars, and the moments from which kickouts
    were due are diamonds.
    """
    # A system's number determines its colour. Systems without rules are therefore numbered, too.
    systems_with_rules = [
        (number, result) for number, result in enumerate(results) if result.column.has_rules
    ]
    start, end = history.from_time, history.to_time
    title = "Exclusions and kickouts due over time, by node and system"
    short_addresses = [*map(shorten_address, nodes)]
    row_plot = RowPlot.create(title, short_addresses, len(systems_with_rules), (start, end))
    row_plot.add_ticks(
        {
            tick: format_axis_time(tick, end - start)
            for tick in row_plot.axis.list_ticks(_TIME_MARK_COUNT)
        }
    )
    for row, node in enumerate(nodes):
        for lane, (number, result) in enumerate(systems_with_rules):
            row_and_lane = (row, lane)
            css_class = f"s{number}"
            title_text = f"{node}, {result.column.name}"
            for interval in result.list_exclusion_intervals(node):
                end_text = (
                    "the end" if interval.until is None else format_time_to_second(interval.until)
                )
                span_text = (
                    f"{format_time_to_second(interval.since)} to {end_text}, "
                    f"{format_duration(interval.seconds)}"
                )
                bar_start_and_end = (
                    interval.since,
                    end if interval.until is None else interval.until,
                )
                row_plot.add_bar(
                    row_and_lane,
                    bar_start_and_end,
                    css_class,
                    f"{title_text}: excluded from {span_text}",
                )
            for due_interval in result.list_kickout_due_intervals(node):
                tooltip = (
                    f"{title_text}: kickout due from block {due_interval.block}, "
                    f"{format_time_to_second(due_interval.time)}"
                )
                row_plot.add_diamond(row_and_lane, due_interval.time, css_class, tooltip)
    return row_plot.plot


def plot_task_shares(results: Sequence[SystemResult], nodes: Sequence[Address]) -> Plot:
    """Draw each node's actual share of tasks as a bar, and the expected shares as dots."""
    first_result = results[0]
    max_share = max((_compute_largest_share(results, node) for node in nodes), default=0)
    title = "Share of tasks of each node, actual and by system"
    row_plot = RowPlot.create(title, [*map(shorten_address, nodes)], 1, (0, max_share or UNIT))
    row_plot.add_ticks(
        {mark: f"{100 * mark / UNIT:.1f} %" for mark in row_plot.axis.list_ticks(4)}
    )
    for row, node in enumerate(nodes):
        actual_share = first_result.compute_actual_share(node) or 0
        tooltip = (
            f"{node}: {first_result.get_started_task_count(node)} tasks, an actual share of "
            f"{format_fraction(actual_share, 6)}"
        )
        row_plot.add_bar((row, 0), (0, actual_share), HISTORY_CLASS, tooltip)
        for number, result in enumerate(results):
            expected_share = result.compute_expected_share(node)
            if expected_share is not None:
                # Shift the dots slightly up or down, so that equal values are all visible.
                y = (
                    row_plot.compute_lane_top(row, 0)
                    + 4.5
                    + (number - (len(results) - 1) / 2) * 2.5
                )
                expected_text = format_fraction(expected_share, 6)
                tooltip = f"{node}, {result.column.name}: an expected share of {expected_text}"
                row_plot.plot.dots.append(
                    Dot(row_plot.axis.compute_pixel(expected_share), y, f"s{number}", tooltip)
                )
    return row_plot.plot


def _compute_largest_share(results: Sequence[SystemResult], node: Address) -> int:
    expected_shares = (result.compute_expected_share(node) or 0 for result in results)
    return max(results[0].compute_actual_share(node) or 0, *expected_shares)


def plot_lorenz_curves(comparison: Comparison, results: Sequence[SystemResult]) -> Plot:
    """Draw the Lorenz curves of the actual tasks and of each system's expected tasks."""
    x_axis = Axis(0, UNIT, 40, _SQUARE_SIZE - 24)
    y_axis = Axis(0, UNIT, _SQUARE_SIZE - 40, 24)
    plot = Plot("Lorenz curves of tasks over nodes", _SQUARE_SIZE, _SQUARE_SIZE)
    for tick in x_axis.list_ticks(4):
        x = x_axis.compute_pixel(tick)
        y = y_axis.compute_pixel(tick)
        text = f"{100 * tick // UNIT} %"
        plot.grid += [
            PlotLine(x, y_axis.end_pixel, x, y_axis.start_pixel),
            PlotLine(x_axis.start_pixel, y, x_axis.end_pixel, y),
        ]
        plot.labels.append(PlotLabel(text, x, y_axis.start_pixel + 15, "middle"))
        plot.labels.append(PlotLabel(text, x_axis.start_pixel - 6, y + 4, "end"))
    plot.diagonals.append(
        PlotLine(x_axis.start_pixel, y_axis.start_pixel, x_axis.end_pixel, y_axis.end_pixel)
    )
    present_nodes = comparison.present_nodes
    tasks = [
        (
            "actual",
            HISTORY_CLASS,
            [results[0].get_started_task_count(node) for node in present_nodes],
        )
    ]
    for number, result in enumerate(results):
        expected_counts = [result.get_expected_task_count(node) for node in present_nodes]
        tasks.append((result.column.name, f"s{number}", expected_counts))
    for name, series, counts in tasks:
        curve = compute_lorenz_curve(counts)
        last_index = len(curve) - 1
        if last_index > 0:
            point_indices = [*range(0, last_index, max(1, last_index // _MAX_POINTS)), last_index]
            points = [
                (
                    x_axis.compute_pixel(point_index * UNIT // last_index),
                    y_axis.compute_pixel(curve[point_index]),
                )
                for point_index in point_indices
            ]
            plot.curves.append(Curve(format_svg_points(points), series, name))
    return plot
