"""The tables of the page: everything that the plots show in part, in whole and to the digit."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from lab.backtest.comparison import Comparison, SystemResult, differing
from lab.page.html import NOTHING, fraction, lasting, table, tag, text, whole_moment
from oracle.domain.ids import Address
from oracle.queries.event_history import History

ABOUT_SHARES = (
    "Shares rest on the history's own state: for each task that was started, the chances that a "
    "policy gives to the nodes that were free at that moment, added up. Nothing feeds back: whom "
    "a policy would have picked has no task more in the history for it."
)
# Rows of a list; --json has them all.
_MOST_ROWS = 1_000


def extent(history: History) -> str:
    """Say in a sentence's part what is counted."""
    span = lasting(max(0, history.to_time - history.from_time))
    return (
        f"{history.events:,} events of the blocks {history.first_block} to {history.last_block}, "
        f"{whole_moment(history.from_time)} to {whole_moment(history.to_time)} UTC ({span})"
    )


def of_options(options: Sequence[tuple[str, str]]) -> str:
    """What was asked for on the command line."""
    rows = [(tag("code", text(name)), text(value)) for name, value in options]
    return table(("option", "value"), rows, left=2)


def of_systems(compared: Comparison) -> str:
    """Which rule set and policy each column stands for."""
    rows = []
    for column in (side.column for side in compared.sides):
        rules = f"{column.rules.name} {column.rules.version}" if column.has_rules else "none"
        changes = ", ".join(f"{key} = {value}" for key, value in column.changes.items())
        rows.append((text(column.name), text(rules), text(column.policy), text(changes or "none")))
    return table(("system", "rule set", "policy", "changes"), rows, left=4)


def of_rules(compared: Comparison) -> str:
    """The rules, and the policies' own numbers, in which the systems differ."""
    columns = [side.column for side in compared.sides]
    found = differing(columns)
    if not found:
        return tag("p", "None.", class_="soft")
    rows = [(tag("code", text(name)), *map(_rule, texts)) for name, texts in found.items()]
    return table(("rule", *(text(column.name) for column in columns)), rows)


def _rule(value: str) -> str:
    """Write a rule's value; only an empty list is no text at all."""
    return text(value or "(empty)")


def of_totals(compared: Comparison) -> str:
    """A row for each system with what came of it."""
    head = (
        "system", "nodes excluded", "intervals", "in all", "longest", "kickouts due", "kicked out",
        "tasks unplaced", "Gini of tasks",
    )  # fmt: skip
    rows = [(text(side.column.name), *_totals(side)) for side in compared.sides]
    starts = compared.sides[0].started
    actual = compared.sides[0].gini_actual
    said = (
        f"The history started {starts:,} tasks and kicked "
        f"{len(compared.sides[0].measured.kicks):,} nodes out; the Gini coefficient of its tasks "
        f"is {fraction(actual, 6)}. The policies judged {compared.judged:,} starts."
    )
    return tag("p", said) + table(head, rows)


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


def of_correlations(compared: Comparison) -> str:
    """Every system against every other."""
    sides = compared.sides
    rows = [
        (
            text(one.column.name),
            *(fraction(compared.correlation(one, other), 6) for other in sides),
        )
        for one in sides
    ]
    return table(("", *(text(side.column.name) for side in sides)), rows)


def of_kickouts(compared: Comparison) -> str:
    """Whose kickout was due when, and what the history's network did."""
    rows = [
        (
            text(side.column.name),
            _address(due.node),
            f"block {due.block}, {whole_moment(due.time)}",
            "still due" if due.closed_time is None else whole_moment(due.closed_time),
            "no" if due.kicked_block is None else f"block {due.kicked_block}",
        )
        for side in compared.sides
        for due in side.measured.kickouts
    ]
    known = table(("system", "node", "due from", "until", "kicked out"), _cut(rows), left=5)
    kicks = [
        (
            _address(kick.node),
            f"block {kick.block}, {whole_moment(kick.time)}",
            *("yes" if side.measured.kicks[place].due else "no" for side in compared.sides),
        )
        for place, kick in enumerate(compared.sides[0].measured.kicks)
    ]
    names = (text(side.column.name) for side in compared.sides)
    whole = known if rows else tag("p", "None was due.", class_="soft")
    if kicks:
        whole += tag("h3", "Whom the history's network kicked out, and whether it was due")
        whole += table(("node", "kicked out", *names), _cut(kicks), left=2 + len(compared.sides))
    return whole + _rest(max(len(rows), len(kicks)))


def of_intervals(compared: Comparison) -> str:
    """Who was excluded from when to when, the longest first."""
    intervals = [
        (side, interval) for side in compared.sides for interval in side.measured.intervals
    ]
    intervals.sort(key=lambda both: -both[1].seconds)
    rows = (
        (
            text(side.column.name),
            _address(interval.node),
            f"block {interval.block}, {whole_moment(interval.since)}",
            "lasts" if interval.until is None else whole_moment(interval.until),
            lasting(interval.seconds),
        )
        for side, interval in intervals
    )
    if not intervals:
        return tag("p", "None.", class_="soft")
    head = ("system", "node", "from", "to", "counted")
    return table(head, _cut(rows), left=4) + _rest(len(intervals))


def of_nodes(compared: Comparison) -> str:
    """Every node with its score, rank and shares under each system."""
    names = [text(side.column.name) for side in compared.sides]
    head = [
        "node", "status", "hardware", *(f"score: {name}" for name in names), "tasks", "share",
        *(f"share: {name}" for name in names),
    ]  # fmt: skip
    rows = []
    for end in compared.sides[0].measured.nodes:
        hardware = " ".join(
            (end.gpu_name or "", "" if end.gpu_vram is None else f"{end.gpu_vram} GB")
        ).strip()
        first = compared.sides[0]
        rows.append(
            (
                _address(end.node),
                text(end.status.replace("_", " ")),
                text(hardware or NOTHING),
                *(_final_rank(side, end.node) for side in compared.sides),
                str(first.actual(end.node)),
                fraction(first.actual_share(end.node), 6),
                *(fraction(side.expected_share(end.node), 6) for side in compared.sides),
            )
        )
    return table(head, rows, left=3)


def _final_rank(side: SystemResult, node: Address) -> str:
    final = side.final_ranks.get(node)
    if final is None:
        return NOTHING
    return f"{fraction(final.score, 18)} #{final.rank}"


def _address(node: Address) -> str:
    return tag("span", text(node), class_="mono")


def _cut(rows: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    return islice(rows, _MOST_ROWS)


def _rest(count: int) -> str:
    if count <= _MOST_ROWS:
        return ""
    return tag("p", f"{_MOST_ROWS:,} of {count:,} rows; --json has all.", class_="soft")
