"""Renders the HTML page of `backtest`, with options, tables and plots."""

from collections.abc import Callable, Iterable, Sequence

from lab.backtest.comparison import Comparison, SystemResult
from lab.page import backtest_plots as plots, tables
from lab.page.number_text import format_fraction
from lab.page.plots import MAX_SYSTEMS, Figure, Plot
from lab.page.render import render_page
from oracle.domain.ids import Address

# Maximum number of nodes in each of the three kinds of plots. The tables list more nodes.
_MAX_BAR_NODES, _MAX_PANEL_NODES, _MAX_LANE_NODES = 30, 12, 30


def render_backtest_page(comparison: Comparison, options: Sequence[tuple[str, str]]) -> str:
    """Render the HTML page of a comparison.

    `options` are the names and values of the command line's options, in the order in which they
    are shown.
    """
    return render_page(
        "backtest.html",
        compared=comparison,
        names=[result.column.name for result in comparison.results],
        extent=tables.format_history_extent(comparison.history),
        about_shares=tables.SHARES_NOTE,
        gini_actual=format_fraction(comparison.results[0].gini_actual, 6),
        options=tables.build_option_table(options),
        systems=tables.build_system_table(comparison),
        rules=tables.build_rule_table(comparison),
        totals=tables.build_total_table(comparison),
        correlations=tables.build_correlation_table(comparison),
        due=tables.build_due_kickout_table(comparison),
        kicks=tables.build_network_kickout_table(comparison),
        intervals=tables.build_interval_table(comparison),
        nodes=tables.build_node_table(comparison),
        **_build_figures(comparison, comparison.results[:MAX_SYSTEMS]),
    )


def _build_figures(
    comparison: Comparison, results: Sequence[SystemResult]
) -> dict[str, Figure | None]:
    """Build the figures by their names in the template.

    A figure is None if there is nothing to draw.
    """
    systems = [result.column.name for result in results]

    def draw_figure(
        nodes: Sequence[Address], limit: int, draw_plot: Callable[[Sequence[Address]], Plot]
    ) -> Figure | None:
        shown_nodes = nodes[:limit]
        return (
            Figure(draw_plot(shown_nodes), systems, len(shown_nodes), len(nodes))
            if nodes
            else None
        )

    def draw_scores(nodes: Sequence[Address]) -> Plot:
        return plots.plot_final_scores(results, _sort_nodes_by_rank(comparison, nodes))

    def draw_scores_over_time(nodes: Sequence[Address]) -> Plot:
        return plots.plot_scores_over_time(
            results, _sort_nodes_by_rank(comparison, nodes), comparison.instants
        )

    nodes_by_disagreement = _sort_nodes_by_disagreement(comparison)
    nodes_by_share_change = (
        _sort_nodes_by_share_change(comparison, results) if comparison.judged else []
    )
    return {
        "final_scores": draw_figure(nodes_by_disagreement, _MAX_BAR_NODES, draw_scores),
        "courses": draw_figure(
            nodes_by_disagreement if comparison.instants else [],
            _MAX_PANEL_NODES,
            draw_scores_over_time,
        ),
        "exclusions": draw_figure(
            _sort_nodes_by_exclusion(results),
            _MAX_LANE_NODES,
            lambda nodes: plots.plot_exclusions(results, nodes, comparison.history),
        ),
        "shares": draw_figure(
            nodes_by_share_change,
            _MAX_BAR_NODES,
            lambda nodes: plots.plot_task_shares(results, nodes),
        ),
        "lorenz": draw_figure(
            nodes_by_share_change,
            len(nodes_by_share_change),
            lambda _: plots.plot_lorenz_curves(comparison, results),
        ),
    }


def _sort_nodes_by_disagreement(comparison: Comparison) -> list[Address]:
    """Return the nodes with a final score, largest score differences first."""

    def compute_agreement(node: Address) -> int:
        scores = [
            result.final_ranks[node].score
            for result in comparison.results
            if node in result.final_ranks
        ]
        return min(scores) - max(scores)

    scored_nodes = {node for result in comparison.results for node in result.final_ranks}
    return sorted(sorted(scored_nodes), key=compute_agreement)


def _sort_nodes_by_rank(comparison: Comparison, nodes: Iterable[Address]) -> list[Address]:
    """Return the nodes in rank order under the first system."""
    final_ranks = comparison.results[0].final_ranks
    last_rank = len(final_ranks) + 1
    return sorted(
        sorted(nodes),
        key=lambda node: final_ranks[node].rank if node in final_ranks else last_rank,
    )


def _sort_nodes_by_exclusion(results: Sequence[SystemResult]) -> list[Address]:
    """Return the nodes that were excluded or due for a kickout, longest exclusion first."""
    total_by_node: dict[Address, int] = {}
    for result in results:
        for interval in result.measurement.intervals:
            total_by_node[interval.node] = total_by_node.get(interval.node, 0) + interval.seconds
        for due_interval in result.measurement.kickouts:
            total_by_node.setdefault(due_interval.node, 0)
    return sorted(sorted(total_by_node), key=lambda node: -total_by_node[node])


def _sort_nodes_by_share_change(
    comparison: Comparison, results: Sequence[SystemResult]
) -> list[Address]:
    """Return the present nodes, largest changes of task share first."""

    def compute_shift(node: Address) -> int:
        actual_share = results[0].compute_actual_share(node) or 0
        return -max(
            abs((result.compute_expected_share(node) or 0) - actual_share) for result in results
        )

    shifts = {node: compute_shift(node) for node in comparison.present_nodes}
    return sorted(comparison.present_nodes, key=shifts.__getitem__)
