"""Puts the page together: what was asked, the numbers, the plots and how to read each."""

from collections.abc import Iterable, Sequence
from html import escape

from lab.backtest.comparison import Comparison, SystemResult
from lab.page import figures, page_tables, shares, spans
from lab.page.document import document, legend
from lab.page.html import PLOTTED, tag, text
from oracle.domain.ids import Address

# Nodes that a plot shows; tables show them all.
_IN_BARS, _IN_PANELS, _IN_LANES = 30, 12, 30


def page_of(compared: Comparison, options: Sequence[tuple[str, str]]) -> str:
    """Return the HTML of a comparison.

    `options`: what was asked for, as names and values, in the order in which they are shown.
    """
    sides = compared.sides[:PLOTTED]
    body = [
        tag("h1", "Backtest"),
        tag("p", _opening(compared), class_="soft"),
        *_asked(compared, options),
        *_numbers(compared),
        *_plots_of_scores(compared, sides),
        *_plot_of_intervals(compared, sides),
        *_plots_of_shares(compared, sides),
        *_lists(compared),
    ]
    return document("qos-oracle backtest", body)


def _opening(compared: Comparison) -> str:
    names = ", ".join(text(side.column.name) for side in compared.sides)
    return f"One history, folded anew under {names}; {page_tables.extent(compared.history)}."


def _asked(compared: Comparison, options: Sequence[tuple[str, str]]) -> Iterable[str]:
    yield tag("h2", "What was asked")
    yield page_tables.of_options(options)
    yield tag("h3", "Systems")
    yield page_tables.of_systems(compared)
    yield tag("h3", "Numbers in which they differ")
    yield page_tables.of_rules(compared)


def _numbers(compared: Comparison) -> Iterable[str]:
    yield tag("h2", "In numbers")
    yield page_tables.of_totals(compared)
    yield tag("p", escape(page_tables.ABOUT_SHARES), class_="soft")
    if len(compared.sides) > 1:
        yield tag("h3", "Rank correlation of the scores at the end")
        yield tag(
            "p",
            "Spearman's: 1 where two systems put all nodes into the same order, 0 where the "
            "orders have nothing in common, -1 where they are opposite.",
        )
        yield page_tables.of_correlations(compared)


def _plots_of_scores(compared: Comparison, sides: Sequence[SystemResult]) -> Iterable[str]:
    nodes = _most_disputed(compared)
    yield tag("h2", "Scores at the end")
    yield tag(
        "p",
        "The longer the bar, the better the node stands when the history ends; bars of unequal "
        "length beside one name are nodes on which the systems disagree.",
    )
    yield from _shown(nodes[:_IN_BARS], len(nodes), "on which the systems differ most")
    yield _legend(sides)
    yield figures.bars(sides, _in_order(compared, nodes[:_IN_BARS]))
    if compared.instants and nodes:
        yield tag("h2", "Scores over time")
        yield tag(
            "p",
            "Each panel is a node; a line that falls is a score lost, to failures or to rank, "
            "and where it rises again the node has healed. A gap: it was no member.",
        )
        yield from _shown(nodes[:_IN_PANELS], len(nodes), "on which the systems differ most")
        yield _legend(sides)
        yield figures.lines(sides, _in_order(compared, nodes[:_IN_PANELS]), compared.instants)


def _plot_of_intervals(compared: Comparison, sides: Sequence[SystemResult]) -> Iterable[str]:
    touched = _most_excluded(sides)
    yield tag("h2", "Exclusion and kickouts over time")
    yield tag(
        "p",
        "A bar is a time in which the node was to get no tasks under that system; a diamond is "
        "the moment from which its kickout was due. Systems without rules of their own exclude "
        "nobody.",
    )
    if not touched:
        yield tag("p", "Nobody was excluded, and no kickout was due.", class_="soft")
        return
    yield from _shown(touched[:_IN_LANES], len(touched), "excluded the longest")
    yield _legend(sides)
    yield spans.timeline(sides, touched[:_IN_LANES], compared.history)


def _plots_of_shares(compared: Comparison, sides: Sequence[SystemResult]) -> Iterable[str]:
    if not compared.judged:
        return
    nodes = _most_shifted(compared, sides)
    yield tag("h2", "How tasks spread")
    yield tag(
        "p",
        "The bar is the share of tasks that the node really got; a dot to its right is a system "
        "that would have given it more, a dot inside one that would have given it less.",
    )
    yield from _shown(nodes[:_IN_BARS], len(nodes), "whose shares would have changed most")
    yield _legend(sides, "as it was")
    yield shares.shares(sides, nodes[:_IN_BARS])
    yield tag("h3", "How even")
    yield tag(
        "p",
        "Read it as: the poorest so many percent of the nodes (across) have so many percent of "
        "the tasks (up); the nearer to the dotted diagonal, the more even.",
    )
    yield _legend(sides, "as it was (dashed)")
    yield shares.lorenz_curves(compared, sides)


def _lists(compared: Comparison) -> Iterable[str]:
    yield tag("h2", "Kickouts")
    yield _folded("every kickout, that was due or made", page_tables.of_kickouts(compared))
    yield tag("h2", "Intervals of exclusion")
    yield _folded("every interval, the longest first", page_tables.of_intervals(compared))
    yield tag("h2", "Nodes")
    yield _folded("every node with its scores, ranks and shares", page_tables.of_nodes(compared))


def _folded(name: str, inside: str) -> str:
    """Return what opens at a click: long lists would hide what stands below them."""
    return tag("details", tag("summary", escape(name)), inside)


def _shown(nodes: Sequence[Address], count: int, which: str) -> Iterable[str]:
    if len(nodes) < count:
        yield tag("p", f"Shown are {len(nodes)} of {count} nodes: those {which}.", class_="soft")


def _legend(sides: Sequence[SystemResult], actual: str | None = None) -> str:
    return legend([side.column.name for side in sides], actual)


def _most_disputed(compared: Comparison) -> list[Address]:
    """Return who has a score at the end, those first on whom the systems differ most."""

    def quarrel(node: Address) -> int:
        known = [
            side.final_ranks[node].score for side in compared.sides if node in side.final_ranks
        ]
        return min(known) - max(known)

    scored = {node for side in compared.sides for node in side.final_ranks}
    return sorted(sorted(scored), key=quarrel)


def _in_order(compared: Comparison, nodes: Iterable[Address]) -> list[Address]:
    """Return nodes as the first system ranks them."""
    final_ranks = compared.sides[0].final_ranks
    last = len(final_ranks) + 1
    return sorted(
        sorted(nodes),
        key=lambda node: final_ranks[node].rank if node in final_ranks else last,
    )


def _most_excluded(sides: Sequence[SystemResult]) -> list[Address]:
    """Return who was excluded or due for a kickout under any system, the longest first."""
    totals: dict[Address, int] = {}
    for side in sides:
        for interval in side.measured.intervals:
            totals[interval.node] = totals.get(interval.node, 0) + interval.seconds
        for due in side.measured.kickouts:
            totals.setdefault(due.node, 0)
    return sorted(sorted(totals), key=lambda node: -totals[node])


def _most_shifted(compared: Comparison, sides: Sequence[SystemResult]) -> list[Address]:
    """Return who had or would have had tasks, those first whose share differs most."""

    def shift(node: Address) -> int:
        actual = sides[0].actual_share(node) or 0
        return -max(abs((side.expected_share(node) or 0) - actual) for side in sides)

    shifts = {node: shift(node) for node in compared.present}
    return sorted(compared.present, key=shifts.__getitem__)
