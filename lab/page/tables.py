"""Builds the tables of the lab's pages, with the exact values shown in the plots."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

from lab.attack.attack import AttackPlan, Finding
from lab.backtest.comparison import Comparison, SystemResult, list_rule_differences
from lab.backtest.event_history import History
from lab.closed_loop.economics import GWEI_PER_COIN
from lab.page.number_text import (
    NO_VALUE,
    format_duration,
    format_fraction,
    format_percent,
    format_time_to_second,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address

SHARES_NOTE = (
    "An expected share is based on the node's probabilities of being drawn, summed over the task "
    "starts of the history, among the nodes that were free at each moment. There is no feedback: "
    "a node that a policy would have drawn gets no additional task in the history."
)
# Maximum number of rows of a table. --json lists all rows.
_MAX_ROWS = 1_000


class Table(NamedTuple):
    """A table of texts.

    `kinds` are the CSS classes of its columns: code, hash, number or text. `total` is the number
    of rows before the table was truncated.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Sequence[str]
    total: int


def _build_table(
    column_names: Sequence[str],
    rows: Sequence[Sequence[str]],
    column_kinds: str,
    max_rows: int | None = None,
) -> Table:
    """Build a table of at most `max_rows` rows.

    Columns without a kind have the kind number.
    """
    columns = column_kinds.split()
    columns += ["number"] * (len(column_names) - len(columns))
    return Table(column_names, rows[:max_rows], columns, len(rows))


def format_history_extent(history: History) -> str:
    """Format a phrase with a history's number of counted events, its blocks and times.

    The phrase fits into the middle of a sentence.
    """
    duration_text = format_duration(max(0, history.to_time - history.from_time))
    return (
        f"{history.event_count:,} events in blocks {history.first_block} to "
        f"{history.last_block}, {format_time_to_second(history.from_time)} to "
        f"{format_time_to_second(history.to_time)} UTC ({duration_text})"
    )


def build_option_table(options: Sequence[tuple[str, str]]) -> Table:
    """Build a table of the command-line options."""
    return _build_table(("option", "value"), options, "code text")


def build_system_table(comparison: Comparison) -> Table:
    """Build a table of the systems' rule sets and policies."""
    rows = []
    for column in (result.column for result in comparison.results):
        rules_title = f"{column.rules.name} {column.rules.version}" if column.has_rules else "none"
        changes_text = ", ".join(f"{key} = {value}" for key, value in column.changes.items())
        rows.append((column.name, rules_title, column.policy, changes_text or "none"))
    return _build_table(("system", "rule set", "policy", "changes"), rows, "text text text text")


def build_rule_table(comparison: Comparison) -> Table:
    """Build a table of the rules and policy parameters that differ between systems."""
    columns = [result.column for result in comparison.results]
    # The value of an empty list is an empty text. Show "(empty)" instead.
    rows = [
        (name, *(value or "(empty)" for value in values))
        for name, values in list_rule_differences(columns).items()
    ]
    return _build_table(("rule", *(column.name for column in columns)), rows, "code")


def build_total_table(comparison: Comparison) -> Table:
    """Build a table of the totals for each system."""
    column_names = (
        "system", "nodes excluded", "intervals", "total", "longest", "kickouts due", "kicked out",
        "tasks unplaced", "Gini of tasks",
    )  # fmt: skip
    return _build_table(
        column_names,
        [(result.column.name, *_iter_total_cells(result)) for result in comparison.results],
        "text",
    )


def _iter_total_cells(result: SystemResult) -> Iterator[str]:
    if result.column.has_rules:
        exclusion_totals = result.exclusion
        yield from (
            f"{exclusion_totals.node_count:,}",
            f"{exclusion_totals.interval_count:,}",
            format_duration(exclusion_totals.total_seconds),
        )
        yield format_duration(exclusion_totals.longest_seconds)
        due_intervals = result.measurement.kickouts
        yield f"{len(due_intervals):,}"
        yield f"{sum(interval.kicked_block is not None for interval in due_intervals):,}"
    else:
        yield from 6 * (NO_VALUE,)
    task_spread = result.measurement.spread
    yield f"{task_spread.unplaced:,}" if task_spread.judged else NO_VALUE
    yield format_fraction(result.gini_expected, 6)


def build_correlation_table(comparison: Comparison) -> Table:
    """Build a table of the rank correlations of all pairs of systems."""
    results = comparison.results
    rows = [
        (
            result.column.name,
            *(
                format_fraction(comparison.compute_rank_correlation(result, other_result), 6)
                for other_result in results
            ),
        )
        for result in results
    ]
    return _build_table(("", *(result.column.name for result in results)), rows, "text")


def build_due_kickout_table(comparison: Comparison) -> Table:
    """Build a table of due kickouts, with the block of the network's own kickout."""
    rows = [
        (
            result.column.name,
            due_interval.node,
            f"block {due_interval.block}, {format_time_to_second(due_interval.time)}",
            "still due"
            if due_interval.closed_time is None
            else format_time_to_second(due_interval.closed_time),
            "no" if due_interval.kicked_block is None else f"block {due_interval.kicked_block}",
        )
        for result in comparison.results
        for due_interval in result.measurement.kickouts
    ]
    column_names = ("system", "node", "due from", "until", "kicked out")
    return _build_table(column_names, rows, "text hash text text text", _MAX_ROWS)


def build_network_kickout_table(comparison: Comparison) -> Table:
    """Build a table of the network's kickouts, with the systems that agreed.

    A system agreed if the kickout was due under it.
    """
    results = comparison.results
    rows = [
        (
            kick.node,
            f"block {kick.block}, {format_time_to_second(kick.time)}",
            *(
                "yes" if result.measurement.kicks[kick_index].was_due else "no"
                for result in results
            ),
        )
        for kick_index, kick in enumerate(results[0].measurement.kicks)
    ]
    column_names = ("node", "kicked out", *(result.column.name for result in results))
    return _build_table(column_names, rows, "hash text" + " text" * len(results), _MAX_ROWS)


def build_interval_table(comparison: Comparison) -> Table:
    """Build a table of the exclusion intervals, longest first."""
    intervals = [
        (result, interval)
        for result in comparison.results
        for interval in result.measurement.intervals
    ]
    intervals.sort(key=lambda pair: -pair[1].seconds)
    rows = [
        (
            result.column.name,
            interval.node,
            f"block {interval.block}, {format_time_to_second(interval.since)}",
            "ongoing" if interval.until is None else format_time_to_second(interval.until),
            format_duration(interval.seconds),
        )
        for result, interval in intervals
    ]
    column_names = ("system", "node", "from", "to", "counted")
    return _build_table(column_names, rows, "text hash text text", _MAX_ROWS)


def build_node_table(comparison: Comparison) -> Table:
    """Build a table of all nodes, with score, rank and share under each system."""
    first_result = comparison.results[0]
    system_names = [result.column.name for result in comparison.results]
    column_names = [
        "node", "status", "hardware", *(f"score: {name}" for name in system_names),
        "tasks", "share", *(f"share: {name}" for name in system_names),
    ]  # fmt: skip
    rows = []
    for final_state in first_result.measurement.nodes:
        memory_text = "" if final_state.gpu_vram is None else f"{final_state.gpu_vram} GB"
        rows.append(
            (
                final_state.node,
                final_state.status.replace("_", " "),
                f"{final_state.gpu_name or ''} {memory_text}".strip() or NO_VALUE,
                *(_format_final_rank(result, final_state.node) for result in comparison.results),
                str(first_result.get_started_task_count(final_state.node)),
                format_fraction(first_result.compute_actual_share(final_state.node), 6),
                *(
                    format_fraction(result.compute_expected_share(final_state.node), 6)
                    for result in comparison.results
                ),
            )
        )
    return _build_table(column_names, rows, "hash text text")


def _format_final_rank(result: SystemResult, node: Address) -> str:
    rank = result.final_ranks.get(node)
    return NO_VALUE if rank is None else f"{format_fraction(rank.score, 18)} #{rank.rank}"


def build_finding_table(findings: Sequence[Finding], limit: int) -> Table:
    """Build a table of each strategy's gain and harm.

    `limit` is in percent.
    """
    column_names = (
        "strategy", "description", "drawn", "earned", "spent", "gain", "harm", "price", "spoiled",
        "honest kicked out", "held", "out", "verdict",
    )  # fmt: skip
    rows = [
        (
            finding.strategy.name,
            finding.strategy.description,
            format_fraction(finding.task_ratio, 2),
            _format_coins(finding.attacker_earnings),
            _format_coins(finding.attacker_expenses),
            _format_gain(finding),
            format_percent(finding.harm),
            format_fraction(finding.loss_per_harm, 2),
            format_percent(finding.failure_rate_increase),
            str(finding.kicked_good_node_increase),
            str(finding.held_good_kickout_increase),
            str(finding.removed_attacker_node_count),
            _format_verdict(finding, limit),
        )
        for finding in findings
    ]
    return _build_table(column_names, rows, "code text" + " number" * 10 + " text")


def _format_gain(finding: Finding) -> str:
    min_gain, max_gain = finding.gain_range
    range_text = (
        ""
        if min_gain == max_gain
        else f" ({format_percent(min_gain)} to {format_percent(max_gain)})"
    )
    return format_percent(finding.gain) + range_text


def _format_verdict(finding: Finding, limit: int) -> str:
    reasons = {
        fault: finding.find_acceptance_reason(fault) for fault in finding.list_faults(limit)
    }
    return (
        "; ".join(
            f"found: {fault}" if reason is None else f"known: {fault}: {reason}"
            for fault, reason in reasons.items()
        )
        or "no gain"
    )


def _format_coins(gwei: int) -> str:
    return format_fraction(gwei * (UNIT // GWEI_PER_COIN), 2)


def build_network_parameter_table(plan: AttackPlan) -> Table:
    """Build a table of the simulated network's economic parameters."""
    economics = plan.loop.economics
    rows = [
        (field.name, str(getattr(economics, field.name)).lower()) for field in fields(economics)
    ]
    return _build_table(("parameter", "value"), rows, "code")
