"""The tables of the lab's pages: all values behind the plots, to the last digit."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

from lab.attack.attack import AttackPlan, Finding
from lab.backtest.comparison import Comparison, SystemResult, differing
from lab.closed_loop.economics import COIN
from lab.page.number_text import NOTHING, fraction, lasting, percent, whole_moment
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.event_history import History

ABOUT_SHARES = (
    "Shares rest on the history's own state: for each task that was started, the chances that a "
    "policy gives to the nodes that were free at that moment, added up. Nothing feeds back: whom "
    "a policy would have picked has no task more in the history for it."
)
# Maximum rows of a table; --json lists all of them.
_MAX_ROWS = 1_000


class Table(NamedTuple):
    """A table of texts; `kinds` are the CSS classes of its columns: code, hash, number or text.

    `total` is the number of rows before truncation.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Sequence[str]
    total: int


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], kinds: str, max_rows: int | None = None
) -> Table:
    """Return a table of at most `max_rows` rows; columns without a kind are numbers."""
    columns = kinds.split()
    columns += ["number"] * (len(head) - len(columns))
    return Table(head, rows[:max_rows], columns, len(rows))


def extent(history: History) -> str:
    """Return the counted events, blocks and times, as part of a sentence."""
    span = lasting(max(0, history.to_time - history.from_time))
    return (
        f"{history.event_count:,} events of the blocks {history.first_block} to "
        f"{history.last_block}, "
        f"{whole_moment(history.from_time)} to {whole_moment(history.to_time)} UTC ({span})"
    )


def option_table(options: Sequence[tuple[str, str]]) -> Table:
    """Return a table of the command line's options."""
    return _table(("option", "value"), options, "code text")


def system_table(compared: Comparison) -> Table:
    """Return a table of the systems' rule sets and policies."""
    rows = []
    for column in (side.column for side in compared.sides):
        rules = f"{column.rules.name} {column.rules.version}" if column.has_rules else "none"
        changes = ", ".join(f"{key} = {value}" for key, value in column.changes.items())
        rows.append((column.name, rules, column.policy, changes or "none"))
    return _table(("system", "rule set", "policy", "changes"), rows, "text text text text")


def rule_table(compared: Comparison) -> Table:
    """Return a table of the rules and policy parameters in which the systems differ."""
    columns = [side.column for side in compared.sides]
    # Only an empty list has an empty text.
    rows = [
        (name, *(value or "(empty)" for value in values))
        for name, values in differing(columns).items()
    ]
    return _table(("rule", *(column.name for column in columns)), rows, "code")


def total_table(compared: Comparison) -> Table:
    """Return a table of each system's totals."""
    head = (
        "system", "nodes excluded", "intervals", "in all", "longest", "kickouts due", "kicked out",
        "tasks unplaced", "Gini of tasks",
    )  # fmt: skip
    return _table(head, [(side.column.name, *_totals(side)) for side in compared.sides], "text")


def _totals(side: SystemResult) -> Iterator[str]:
    if side.column.has_rules:
        sums = side.exclusion
        yield from (f"{sums.nodes:,}", f"{sums.intervals:,}", lasting(sums.total))
        yield lasting(sums.longest)
        yield f"{len(side.measured.kickouts):,}"
        yield f"{sum(due.kicked_block is not None for due in side.measured.kickouts):,}"
    else:
        yield from 6 * (NOTHING,)
    spread = side.measured.spread
    yield f"{spread.unplaced:,}" if spread.judged else NOTHING
    yield fraction(side.gini_expected, 6)


def correlation_table(compared: Comparison) -> Table:
    """Return a table of the rank correlations of all pairs of systems."""
    sides = compared.sides
    rows = [
        (
            side.column.name,
            *(fraction(compared.correlation(side, other), 6) for other in sides),
        )
        for side in sides
    ]
    return _table(("", *(side.column.name for side in sides)), rows, "text")


def due_table(compared: Comparison) -> Table:
    """Return a table of due kickouts, and of what the history's network did."""
    rows = [
        (
            side.column.name,
            due.node,
            f"block {due.block}, {whole_moment(due.time)}",
            "still due" if due.closed_time is None else whole_moment(due.closed_time),
            "no" if due.kicked_block is None else f"block {due.kicked_block}",
        )
        for side in compared.sides
        for due in side.measured.kickouts
    ]
    head = ("system", "node", "due from", "until", "kicked out")
    return _table(head, rows, "text hash text text text", _MAX_ROWS)


def kick_table(compared: Comparison) -> Table:
    """Return a table of the network's kickouts, and under which systems they were due."""
    sides = compared.sides
    rows = [
        (
            kick.node,
            f"block {kick.block}, {whole_moment(kick.time)}",
            *("yes" if side.measured.kicks[place].due else "no" for side in sides),
        )
        for place, kick in enumerate(sides[0].measured.kicks)
    ]
    head = ("node", "kicked out", *(side.column.name for side in sides))
    return _table(head, rows, "hash text" + " text" * len(sides), _MAX_ROWS)


def interval_table(compared: Comparison) -> Table:
    """Return a table of the intervals of exclusion, the longest first."""
    intervals = [
        (side, interval) for side in compared.sides for interval in side.measured.intervals
    ]
    intervals.sort(key=lambda pair: -pair[1].seconds)
    rows = [
        (
            side.column.name,
            interval.node,
            f"block {interval.block}, {whole_moment(interval.since)}",
            "lasts" if interval.until is None else whole_moment(interval.until),
            lasting(interval.seconds),
        )
        for side, interval in intervals
    ]
    head = ("system", "node", "from", "to", "counted")
    return _table(head, rows, "text hash text text", _MAX_ROWS)


def node_table(compared: Comparison) -> Table:
    """Return a table of all nodes with score, rank and shares under each system."""
    first, names = compared.sides[0], [side.column.name for side in compared.sides]
    head = [
        "node", "status", "hardware", *(f"score: {name}" for name in names), "tasks", "share",
        *(f"share: {name}" for name in names),
    ]  # fmt: skip
    rows = []
    for end in first.measured.nodes:
        memory = "" if end.gpu_vram is None else f"{end.gpu_vram} GB"
        rows.append(
            (
                end.node,
                end.status.replace("_", " "),
                f"{end.gpu_name or ''} {memory}".strip() or NOTHING,
                *(_final_rank(side, end.node) for side in compared.sides),
                str(first.actual(end.node)),
                fraction(first.actual_share(end.node), 6),
                *(fraction(side.expected_share(end.node), 6) for side in compared.sides),
            )
        )
    return _table(head, rows, "hash text text")


def _final_rank(side: SystemResult, node: Address) -> str:
    final = side.final_ranks.get(node)
    return NOTHING if final is None else f"{fraction(final.score, 18)} #{final.rank}"


def finding_table(findings: Sequence[Finding], limit: int) -> Table:
    """Return a table of each strategy's gain and harm; `limit` is in percent."""
    head = (
        "strategy", "what it does", "drawn", "earned", "spent", "gain", "harm", "price", "spoiled",
        "honest kicked out", "held", "out", "verdict",
    )  # fmt: skip
    rows = [
        (
            finding.strategy.name,
            finding.strategy.about,
            fraction(finding.share, 2),
            _coins(finding.earned),
            _coins(finding.spent),
            _gain(finding),
            percent(finding.harm),
            fraction(finding.price, 2),
            percent(finding.spoiled),
            str(finding.kicked_good),
            str(finding.held_good),
            str(finding.out),
            _verdict(finding, limit),
        )
        for finding in findings
    ]
    return _table(head, rows, "code text" + " number" * 10 + " text")


def _gain(finding: Finding) -> str:
    low, high = finding.band
    band = "" if low == high else f" ({percent(low)} to {percent(high)})"
    return percent(finding.gain) + band


def _verdict(finding: Finding, limit: int) -> str:
    reasons = {fault: finding.reason(fault) for fault in finding.faults(limit)}
    return (
        "; ".join(
            f"found: {fault}" if reason is None else f"known: {fault}: {reason}"
            for fault, reason in reasons.items()
        )
        or "no gain"
    )


def _coins(gwei: int) -> str:
    return fraction(gwei * (UNIT // COIN), 2)


def network_table(plan: AttackPlan) -> Table:
    """Return a table of the simulated network's economic parameters."""
    economics = plan.loop.economics
    rows = [
        (field.name, str(getattr(economics, field.name)).lower()) for field in fields(economics)
    ]
    return _table(("number", "value"), rows, "code")
