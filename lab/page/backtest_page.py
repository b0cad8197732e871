"""The page of a backtest: options, numbers, and plots."""

from collections.abc import Callable, Iterable, Sequence

from lab.backtest.comparison import Comparison, SystemResult
from lab.page import backtest_plots as plots, tables
from lab.page.number_text import fraction
from lab.page.plots import MAX_SYSTEMS, Figure, Plot
from lab.page.render import render_page
from oracle.domain.ids import Address

# Maximum nodes of a plot; tables show all of them.
_IN_BARS, _IN_PANELS, _IN_LANES = 30, 12, 30


def backtest_page(compared: Comparison, options: Sequence[tuple[str, str]]) -> str:
    """Return the HTML page of a comparison.

    `options`: names and values of the command line's options, in the order shown.
    """
    return render_page(
        "backtest.html",
        compared=compared,
        names=[side.column.name for side in compared.sides],
        extent=tables.extent(compared.history),
        about_shares=tables.ABOUT_SHARES,
        gini_actual=fraction(compared.sides[0].gini_actual, 6),
        options=tables.option_table(options),
        systems=tables.system_table(compared),
        rules=tables.rule_table(compared),
        totals=tables.total_table(compared),
        correlations=tables.correlation_table(compared),
        due=tables.due_table(compared),
        kicks=tables.kick_table(compared),
        intervals=tables.interval_table(compared),
        nodes=tables.node_table(compared),
        **_figures(compared, compared.sides[:MAX_SYSTEMS]),
    )


def _figures(compared: Comparison, sides: Sequence[SystemResult]) -> dict[str, Figure | None]:
    """Return every figure by its name in the template, None if there is nothing to draw."""
    systems = [side.column.name for side in sides]

    def figure(
        nodes: Sequence[Address], limit: int, draw: Callable[[Sequence[Address]], Plot]
    ) -> Figure | None:
        shown = nodes[:limit]
        return Figure(draw(shown), systems, len(shown), len(nodes)) if nodes else None

    def draw_scores(nodes: Sequence[Address]) -> Plot:
        return plots.final_scores(sides, _in_order(compared, nodes))

    def draw_courses(nodes: Sequence[Address]) -> Plot:
        return plots.scores_over_time(sides, _in_order(compared, nodes), compared.instants)

    disputed = _most_disputed(compared)
    shifted = _most_shifted(compared, sides) if compared.judged else []
    return {
        "final_scores": figure(disputed, _IN_BARS, draw_scores),
        "courses": figure(disputed if compared.instants else [], _IN_PANELS, draw_courses),
        "exclusions": figure(
            _most_excluded(sides),
            _IN_LANES,
            lambda nodes: plots.exclusions(sides, nodes, compared.history),
        ),
        "shares": figure(shifted, _IN_BARS, lambda nodes: plots.task_shares(sides, nodes)),
        "lorenz": figure(shifted, len(shifted), lambda _: plots.lorenz_curves(compared, sides)),
    }


def _most_disputed(compared: Comparison) -> list[Address]:
    """Return the nodes with a final score, first those with the largest differences."""

    def agreement(node: Address) -> int:
        scores = [
            side.final_ranks[node].score for side in compared.sides if node in side.final_ranks
        ]
        return min(scores) - max(scores)

    scored = {node for side in compared.sides for node in side.final_ranks}
    return sorted(sorted(scored), key=agreement)


def _in_order(compared: Comparison, nodes: Iterable[Address]) -> list[Address]:
    """Return nodes in the order of the first system's ranks."""
    final_ranks = compared.sides[0].final_ranks
    last = len(final_ranks) + 1
    return sorted(
        sorted(nodes),
        key=lambda node: final_ranks[node].rank if node in final_ranks else last,
    )


def _most_excluded(sides: Sequence[SystemResult]) -> list[Address]:
    """Return the nodes that were excluded or due for a kickout, the longest excluded first."""
    totals: dict[Address, int] = {}
    for side in sides:
        for interval in side.measured.intervals:
            totals[interval.node] = totals.get(interval.node, 0) + interval.seconds
        for due in side.measured.kickouts:
            totals.setdefault(due.node, 0)
    return sorted(sorted(totals), key=lambda node: -totals[node])


def _most_shifted(compared: Comparison, sides: Sequence[SystemResult]) -> list[Address]:
    """Return the present nodes, first those whose share of tasks differs most."""

    def shift(node: Address) -> int:
        actual = sides[0].actual_share(node) or 0
        return -max(abs((side.expected_share(node) or 0) - actual) for side in sides)

    shifts = {node: shift(node) for node in compared.present}
    return sorted(compared.present, key=shifts.__getitem__)
