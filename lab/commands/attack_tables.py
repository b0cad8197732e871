"""The text output of `attack`: a table per system, and the findings."""

from collections.abc import Iterator, Sequence

import typer

from lab.attack.attack import AttackPlan, Finding
from lab.closed_loop.economics import COIN
from lab.page.number_text import fraction, percent
from oracle.queries.text.text_tables import print_table, sanitize_text

_WHOLE = 80
_HEAD = (
    "strategy", "drawn", "earned", "spent", "gain", "harm", "price", "spoiled", "out", "verdict",
)  # fmt: skip


def print_findings(findings: Sequence[Finding], plan: AttackPlan) -> None:
    """Print findings in lines of 100 columns."""
    loop = plan.loop
    seeds = f"seed {loop.seed}" if plan.runs == 1 else f"{plan.runs} seeds from {loop.seed}"
    typer.echo(f"{loop.nodes:,} honest nodes, {loop.tasks:,} tasks, {seeds}")
    for name in dict.fromkeys(finding.column.name for finding in findings):
        typer.echo(f"\n{sanitize_text(name, max_length=_WHOLE)}")
        own = [finding for finding in findings if finding.column.name == name]
        print_table(
            _HEAD, [tuple(_cells(each, plan.limit)) for each in own], ("strategy", "verdict")
        )
    _print_known(findings, plan.limit)
    typer.echo(
        "\nDrawn: by the baseline's draws. Gain: profit beyond the baseline's, in parts of its "
        "fees. Harm: what\nhonest nodes lose, likewise. Price: what the attacker loses for each "
        "coin that they lose. Spoiled:\nhonest orders that fail. Out: nodes of the attacker "
        "kicked out or slashed. Earned, spent: in coins."
    )


def _cells(finding: Finding, limit: int) -> Iterator[str]:
    yield finding.strategy.name
    yield fraction(finding.share, 2)
    yield coins(finding.earned)
    yield coins(finding.spent)
    yield percent(finding.gain)
    yield percent(finding.harm)
    yield fraction(finding.price, 2)
    yield percent(finding.spoiled)
    yield str(finding.out)
    yield verdict(finding, limit)


def verdict(finding: Finding, limit: int) -> str:
    """Return the verdict of a finding: open faults, known faults, or no gain."""
    found = finding.open_faults(limit)
    if found:
        return "found: " + ", ".join(found)
    known = finding.faults(limit)
    return "known: " + ", ".join(known) if known else "no gain"


def coins(gwei: int) -> str:
    """Format gwei as coins."""
    sign = "-" if gwei < 0 else ""
    return f"{sign}{abs(gwei) // COIN:,}.{abs(gwei) % COIN // 10**7:02d}"


def _print_known(findings: Sequence[Finding], limit: int) -> None:
    known = {
        (finding.strategy.name, fault, reason): None
        for finding in findings
        for fault in finding.faults(limit)
        if (reason := finding.reason(fault)) is not None
    }
    if known:
        typer.echo("\nKnown")
        head = ("strategy", "what", "why it stays")
        print_table(head, list(known), head)
