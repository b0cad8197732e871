"""Prints the text output of `attack`: a table for each system, and the known findings."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import typer

from lab.attack.attack import AttackPlan, Finding
from lab.closed_loop.economics import GWEI_PER_COIN
from lab.page.number_text import format_fraction, format_percent, format_system_name
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table

_COLUMN_NAMES = (
    "strategy", "drawn", "earned", "spent", "gain", "harm", "price", "spoiled", "out", "verdict",
)  # fmt: skip
_COLUMN_LEGEND = (
    "Drawn: tasks of the attacker's nodes, relative to the baseline. Earned, spent: in coins. "
    "Gain: profit minus the baseline's, as a share of the baseline's fees. Harm: profit that "
    "honest nodes lose, as a share of their fees in the baseline. Price: coins that the attacker "
    "loses for each coin that honest nodes lose. Spoiled: increase of the share of honest orders "
    "without a correct result. Out: nodes of the attacker that were kicked out or slashed."
)


def print_findings(findings: Sequence[Finding], plan: AttackPlan) -> None:
    """Print the findings for each system.

    Lines have at most 100 columns.
    """
    loop = plan.loop
    seeds_text = f"seed {loop.seed}" if plan.runs == 1 else f"{plan.runs} seeds from {loop.seed}"
    typer.echo(f"{loop.nodes:,} honest nodes, {loop.tasks:,} tasks, {seeds_text}")
    for name in dict.fromkeys(finding.column.name for finding in findings):
        typer.echo(f"\n{format_system_name(name)}")
        system_findings = [finding for finding in findings if finding.column.name == name]
        print_table(
            _COLUMN_NAMES,
            [tuple(_iter_finding_cells(finding, plan.limit)) for finding in system_findings],
            ("strategy", "verdict"),
        )
    _print_known_findings(findings, plan.limit)
    typer.echo(f"\n{fill(_COLUMN_LEGEND, TABLE_WIDTH)}")


def _iter_finding_cells(finding: Finding, limit: int) -> Iterator[str]:
    yield finding.strategy.name
    yield format_fraction(finding.task_ratio, 2)
    yield format_coins(finding.attacker_earnings)
    yield format_coins(finding.attacker_expenses)
    yield format_percent(finding.gain)
    yield format_percent(finding.harm)
    yield format_fraction(finding.loss_per_harm, 2)
    yield format_percent(finding.failure_rate_increase)
    yield str(finding.removed_attacker_node_count)
    yield format_verdict(finding, limit)


def format_verdict(finding: Finding, limit: int) -> str:
    """Format the verdict on a finding: its open faults, its known faults or "no gain"."""
    open_faults = finding.list_open_faults(limit)
    if open_faults:
        return "found: " + ", ".join(open_faults)
    accepted_faults = finding.list_faults(limit)
    return "known: " + ", ".join(accepted_faults) if accepted_faults else "no gain"


def format_coins(gwei: int) -> str:
    """Format an amount of gwei as coins with two decimals."""
    sign = "-" if gwei < 0 else ""
    return f"{sign}{abs(gwei) // GWEI_PER_COIN:,}.{abs(gwei) % GWEI_PER_COIN // 10**7:02d}"


def _print_known_findings(findings: Sequence[Finding], limit: int) -> None:
    known_findings = {
        (finding.strategy.name, fault, reason): None
        for finding in findings
        for fault in finding.list_faults(limit)
        if (reason := finding.find_acceptance_reason(fault)) is not None
    }
    if known_findings:
        typer.echo("\nKnown findings")
        column_names = ("strategy", "fault", "reason")
        print_table(column_names, list(known_findings), column_names)
