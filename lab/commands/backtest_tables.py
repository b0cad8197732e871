"""The text output of `backtest`: totals, then nodes, kickouts and intervals."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import typer

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.results import DueInterval
from lab.page.number_text import NOTHING, fraction, lasting, percent, whole_moment
from lab.page.tables import ABOUT_SHARES, extent
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table, sanitize_text

# With more systems than this, nodes are only listed by --json and --html.
_SIDE_BY_SIDE = 4
# Digits of a score that fit beside an address, by the number of systems.
_DIGITS = {1: 18, 2: 18, 3: 6, 4: 4}
# Fixed widths of a line: the address, and the tasks with their share.
_ADDRESS, _TASKS = 42, 16
_RANK, _PERCENT = 6, 8
# Width of a system's name in the lists below.
_BESIDE_KICKOUTS, _BESIDE_INTERVALS = 8, 20
_MOST_ROWS = 40
# Longer names are truncated.
_WHOLE = 80
_MOST_INTERVALS = 12


def print_comparison(compared: Comparison) -> None:
    """Print a comparison in lines of 100 columns."""
    typer.echo(f"{extent(compared.history)}\n")
    _print_sums(compared)
    if len(compared.sides) > _SIDE_BY_SIDE:
        typer.echo("\nToo many systems to list nodes here; --json and --html FILE list them all.")
    else:
        _print_nodes(compared)
        _print_shares(compared)
    _print_kickouts(compared)
    _print_intervals(compared)


def _print_sums(compared: Comparison) -> None:
    first = compared.sides[0]
    head = (
        "system", "excluded", "intervals", "in all", "longest", "kickouts", "unplaced", "Gini",
        "like the first",
    )  # fmt: skip
    rows = [
        (
            sanitize_text(side.column.name, max_length=_WHOLE),
            *_sums(side),
            fraction(compared.correlation(first, side), 4),
        )
        for side in compared.sides
    ]
    print_table(head, rows, left_columns=("system",))
    actual = fraction(first.gini_actual, 4)
    typer.echo(
        f"\nStarted: {first.started:,} tasks, Gini {actual} as it was; judged by the policies: "
        f"{compared.judged:,}.\nLike the first: Spearman's rank correlation of the scores at the "
        f"end.\n{fill(ABOUT_SHARES, TABLE_WIDTH)}"
    )


def _sums(side: SystemResult) -> Iterator[str]:
    if side.column.has_rules:
        yield from (f"{side.exclusion.nodes:,}", f"{side.exclusion.intervals:,}")
        yield from (lasting(side.exclusion.total), lasting(side.exclusion.longest))
        yield f"{len(side.measured.kickouts):,}"
    else:
        yield from 5 * (NOTHING,)
    spread = side.measured.spread
    yield f"{spread.unplaced:,}" if spread.judged else NOTHING
    yield fraction(side.gini_expected, 4)


def _print_nodes(compared: Comparison) -> None:
    sides = compared.sides
    digits = _DIGITS[len(sides)]
    nodes = _ranked(compared)
    typer.echo("\nScores at the end, and ranks")
    names = _heads(sides, TABLE_WIDTH - _ADDRESS, digits + _RANK)
    print_table(
        ("node", *names),
        [(node, *(_final_rank(each, node, digits) for each in sides)) for node in nodes],
    )
    _print_rest(len(compared.sides[0].final_ranks), len(nodes))


def _heads(sides: Sequence[SystemResult], room: int, least: int) -> list[str]:
    """Return the column names of the systems; names that are too long become ordinals.

    An ordinal is explained in a line above the table. `total_width` is the total width,
    `min_width` the minimum width of a column.
    """
    heads = [sanitize_text(side.column.name, max_length=_WHOLE) for side in sides]
    while sum(2 + max(least, len(head)) for head in heads) > room:
        place = max(range(len(heads)), key=lambda each: len(heads[each]))
        if len(heads[place]) <= len(_ordinal(place)):
            break
        heads[place] = _explained(sides[place], place)
    return heads


def _ordinal(place: int) -> str:
    return f"system {place + 1}"


def _explained(side: SystemResult, place: int) -> str:
    """Print which system an ordinal stands for, and return the ordinal."""
    typer.echo(f"{_ordinal(place)}: {sanitize_text(side.column.name, max_length=_WHOLE)}")
    return _ordinal(place)


def _ranked(compared: Comparison) -> list[Address]:
    """Return the best nodes by the ranks of the first system."""
    final_ranks = compared.sides[0].final_ranks
    every = sorted(final_ranks, key=lambda node: (final_ranks[node].rank, node))
    return every[:_MOST_ROWS]


def _final_rank(side: SystemResult, node: Address, digits: int) -> str:
    final = side.final_ranks.get(node)
    if final is None:
        return NOTHING
    return f"{fraction(final.score, digits)} #{final.rank}"


def _print_shares(compared: Comparison) -> None:
    first = compared.sides[0]
    if not compared.judged:
        return
    every = sorted(compared.present, key=lambda node: (-first.actual(node), node))
    nodes = every[:_MOST_ROWS]
    typer.echo("\nShares of tasks: as it was, and as each policy would have spread them")
    names = _heads(compared.sides, TABLE_WIDTH - _ADDRESS - _TASKS, _PERCENT)
    rows = [
        (
            node,
            str(first.actual(node)),
            percent(first.actual_share(node), 2),
            *(percent(side.expected_share(node), 2) for side in compared.sides),
        )
        for node in nodes
    ]
    print_table(("node", "tasks", "was", *names), rows)
    _print_rest(len(every), len(nodes))


def _print_kickouts(compared: Comparison) -> None:
    kickouts = [
        (place, due) for place, side in enumerate(compared.sides) for due in side.measured.kickouts
    ]
    if not kickouts:
        return
    shown = kickouts[:_MOST_INTERVALS]
    typer.echo("\nKickouts due")
    names = _names_for(compared.sides, {place for place, _ in shown}, _BESIDE_KICKOUTS)
    print_table(
        ("system", "node", "block", "time", "kicked out"),
        [
            (names[place], due.node, str(due.block), whole_moment(due.time), _outcome(due))
            for place, due in shown
        ],
        ("system", "kicked out"),
    )
    _print_rest(len(kickouts), len(shown))


def _names_for(sides: Sequence[SystemResult], places: set[int], longest: int) -> dict[int, str]:
    """Return the names of the systems at some indices, within a maximum width."""
    return {
        place: name
        if len(name := sanitize_text(sides[place].column.name, max_length=_WHOLE)) <= longest
        else _explained(sides[place], place)
        for place in sorted(places)
    }


def _outcome(due: DueInterval) -> str:
    if due.kicked_block is not None:
        return f"block {due.kicked_block}"
    return "still due" if due.closed_block is None else "no"


def _print_intervals(compared: Comparison) -> None:
    intervals = [
        (place, interval)
        for place, side in enumerate(compared.sides)
        for interval in side.measured.intervals
    ]
    if not intervals:
        return
    intervals.sort(key=lambda both: -both[1].seconds)
    shown = intervals[:_MOST_INTERVALS]
    typer.echo("\nExclusion, the longest intervals first")
    names = _names_for(compared.sides, {place for place, _ in shown}, _BESIDE_INTERVALS)
    rows = [
        (
            names[place],
            interval.node,
            whole_moment(interval.since),
            "lasts" if interval.until is None else lasting(interval.seconds),
        )
        for place, interval in shown
    ]
    print_table(("system", "node", "from", "for"), rows, ("system",))
    _print_rest(len(intervals), len(shown))


def _print_rest(count: int, shown: int) -> None:
    if count > shown:
        typer.echo(f"… and {count - shown:,} more; --json and --html FILE list them all.")
