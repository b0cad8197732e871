"""What `backtest` prints for people: a table of sums, then nodes, kickouts and spells."""

from collections.abc import Iterator
from textwrap import fill

import typer

from oracle.domain.ids import Address
from oracle.entrypoints.backtest_page.markup import NOTHING, fraction, lasting, whole_moment
from oracle.entrypoints.backtest_page.tables import ABOUT_SHARES, extent
from oracle.entrypoints.terminal import WIDTH, foreign, print_table
from oracle.services.backtest.comparing import Comparison, Side
from oracle.services.backtest.results import Kickout

# More systems than this stand below each other only; their nodes need --json or --html.
_SIDE_BY_SIDE = 4
# With so many, there is room for every digit.
_IN_FULL = 2
_SHORT_DIGITS, _ALL_DIGITS = 6, 18
_MOST_ROWS = 40
_MOST_SPELLS = 12


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
    _print_spells(compared)


def _print_sums(compared: Comparison) -> None:
    first = compared.sides[0]
    head = (
        "system", "excluded", "spells", "in all", "longest", "kickouts", "unplaced", "Gini",
        "like the first",
    )  # fmt: skip
    rows = [
        (
            foreign(side.column.name, longest=60),
            *_sums(side),
            fraction(compared.correlation(first, side), 4),
        )
        for side in compared.sides
    ]
    print_table(head, rows, left=("system",))
    actual = fraction(first.gini_actual, 4)
    typer.echo(
        f"\nStarted: {first.started:,} tasks, Gini {actual} as it was; judged by the policies: "
        f"{compared.judged:,}.\nLike the first: Spearman's rank correlation of the scores at the "
        f"end.\n{fill(ABOUT_SHARES, WIDTH)}"
    )


def _sums(side: Side) -> Iterator[str]:
    if side.column.has_rules:
        yield from (f"{side.exclusion.nodes:,}", f"{side.exclusion.spells:,}")
        yield from (lasting(side.exclusion.total), lasting(side.exclusion.longest))
        yield f"{len(side.measured.kickouts):,}"
    else:
        yield from 5 * (NOTHING,)
    spread = side.measured.spread
    yield f"{spread.unplaced:,}" if spread.judged else NOTHING
    yield fraction(side.gini_expected, 4)


def _print_nodes(compared: Comparison) -> None:
    sides = compared.sides
    digits = _ALL_DIGITS if len(sides) <= _IN_FULL else _SHORT_DIGITS
    nodes = _ranked(compared)
    head = ("node", *(foreign(side.column.name, longest=15) for side in sides))
    typer.echo("\nScores at the end, and ranks")
    print_table(
        head, [(node, *(_standing(each, node, digits) for each in sides)) for node in nodes]
    )
    _print_rest(len(compared.sides[0].standings), len(nodes))


def _ranked(compared: Comparison) -> list[Address]:
    """Return the first nodes as the first system ranks them."""
    standings = compared.sides[0].standings
    every = sorted(standings, key=lambda node: (standings[node].rank, node))
    return every[:_MOST_ROWS]


def _standing(side: Side, node: Address, digits: int) -> str:
    standing = side.standings.get(node)
    if standing is None:
        return NOTHING
    return f"{fraction(standing.score, digits)} #{standing.rank}"


def _print_shares(compared: Comparison) -> None:
    first = compared.sides[0]
    if not compared.judged:
        return
    names = (foreign(side.column.name, longest=15) for side in compared.sides)
    every = sorted(compared.present, key=lambda node: (-first.actual(node), node))
    nodes = every[:_MOST_ROWS]
    typer.echo("\nShares of tasks: as it was, and as each policy would have spread them")
    rows = [
        (
            node,
            str(first.actual(node)),
            _percent(first.actual_share(node)),
            *(_percent(side.expected_share(node)) for side in compared.sides),
        )
        for node in nodes
    ]
    print_table(("node", "tasks", "was", *names), rows)
    _print_rest(len(every), len(nodes))


def _percent(units: int | None) -> str:
    return NOTHING if units is None else f"{fraction(100 * units, 2)} %"


def _print_kickouts(compared: Comparison) -> None:
    rows = [
        (
            foreign(side.column.name, longest=24),
            due.node,
            str(due.block),
            whole_moment(due.time),
            _outcome(due),
        )
        for side in compared.sides
        for due in side.measured.kickouts
    ]
    if rows:
        typer.echo("\nKickouts due")
        head = ("system", "node", "block", "time", "kicked out")
        print_table(head, rows[:_MOST_SPELLS], ("system", "kicked out"))
        _print_rest(len(rows), _MOST_SPELLS)


def _outcome(due: Kickout) -> str:
    if due.kicked_block is not None:
        return f"block {due.kicked_block}"
    return "no, and still due" if due.closed_block is None else "no"


def _print_spells(compared: Comparison) -> None:
    spells = [(side, spell) for side in compared.sides for spell in side.measured.spells]
    spells.sort(key=lambda both: -both[1].seconds)
    rows = [
        (
            foreign(side.column.name, longest=24),
            spell.node,
            whole_moment(spell.since),
            "lasts" if spell.until is None else lasting(spell.seconds),
        )
        for side, spell in spells[:_MOST_SPELLS]
    ]
    if rows:
        typer.echo("\nExclusion, the longest spells first")
        print_table(("system", "node", "from", "for"), rows, ("system",))
        _print_rest(len(spells), len(rows))


def _print_rest(count: int, shown: int) -> None:
    if count > shown:
        typer.echo(f"… and {count - shown:,} more; --json and --html FILE list them all.")
