"""Prints the text output of `backtest`: totals, scores, shares, kickouts and exclusions."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import typer

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.results import DueInterval
from lab.page.number_text import (
    NO_VALUE,
    format_duration,
    format_fraction,
    format_percent,
    format_system_name,
    format_time_to_second,
)
from lab.page.tables import SHARES_NOTE, format_history_extent
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table

# Maximum number of systems for which the tables list the nodes. If more are compared, only --json
# and --html list them.
_MAX_SIDE_BY_SIDE = 4
# Number of digits of each score, by the number of systems compared, so that a row fits into a
# line.
_DIGITS_BY_SYSTEM_COUNT = {1: 18, 2: 18, 3: 6, 4: 4}
# Widths of the column of addresses, and of the column with a node's tasks and their actual share.
_ADDRESS_WIDTH, _TASKS_WIDTH = 42, 16
_RANK_WIDTH, _PERCENT_WIDTH = 6, 8
# Maximum width of a system's name in the list of kickouts, and in the list of exclusions.
_KICKOUT_NAME_WIDTH, _INTERVAL_NAME_WIDTH = 8, 20
_MAX_ROWS = 40
_MAX_INTERVALS = 12


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison.

    Lines have at most 100 columns.
    """
    typer.echo(f"{format_history_extent(comparison.history)}\n")
    _print_totals(comparison)
    if len(comparison.results) > _MAX_SIDE_BY_SIDE:
        typer.echo("\nToo many systems to list nodes here; --json and --html FILE list them all.")
    else:
        _print_nodes(comparison)
        _print_shares(comparison)
    _print_due_kickouts(comparison)
    _print_exclusion_intervals(comparison)


def _print_totals(comparison: Comparison) -> None:
    first_result = comparison.results[0]
    column_names = (
        "system", "excluded", "intervals", "total", "longest", "kickouts", "unplaced", "Gini",
        "correlation",
    )  # fmt: skip
    rows = [
        (
            format_system_name(result.column.name),
            *_iter_total_cells(result),
            format_fraction(comparison.compute_rank_correlation(first_result, result), 4),
        )
        for result in comparison.results
    ]
    print_table(column_names, rows, left_columns=("system",))
    actual_gini = format_fraction(first_result.gini_actual, 4)
    typer.echo(
        f"\nTasks started: {first_result.started:,}, actual Gini {actual_gini}; starts judged by "
        f"the policies: {comparison.judged:,}.\nCorrelation: Spearman's rank correlation of the "
        f"final scores with the first system's.\n{fill(SHARES_NOTE, TABLE_WIDTH)}"
    )


def _iter_total_cells(result: SystemResult) -> Iterator[str]:
    if result.column.has_rules:
        yield from (f"{result.exclusion.node_count:,}", f"{result.exclusion.interval_count:,}")
        yield from (
            format_duration(result.exclusion.total_seconds),
            format_duration(result.exclusion.longest_seconds),
        )
        yield f"{len(result.measurement.kickouts):,}"
    else:
        yield from 5 * (NO_VALUE,)
    task_spread = result.measurement.spread
    yield f"{task_spread.unplaced:,}" if task_spread.judged else NO_VALUE
    yield format_fraction(result.gini_expected, 4)


def _print_nodes(comparison: Comparison) -> None:
    results = comparison.results
    digits = _DIGITS_BY_SYSTEM_COUNT[len(results)]
    nodes = _list_best_nodes(comparison)
    typer.echo("\nFinal scores and ranks")
    names = _choose_column_names(results, TABLE_WIDTH - _ADDRESS_WIDTH, digits + _RANK_WIDTH)
    print_table(
        ("node", *names),
        [
            (node, *(_format_final_rank(result, node, digits) for result in results))
            for node in nodes
        ],
    )
    _print_omitted_count(len(comparison.results[0].final_ranks), len(nodes))


def _choose_column_names(
    results: Sequence[SystemResult], total_width: int, min_width: int
) -> list[str]:
    """Choose the systems' column names, replacing the longest if they do not fit.

    A replaced name becomes `system N`, and a printed line explains it. `total_width` is the width
    for all columns, `min_width` the minimum width of one column.
    """
    column_names = [format_system_name(result.column.name) for result in results]
    while sum(2 + max(min_width, len(column_name)) for column_name in column_names) > total_width:
        longest_index = max(range(len(column_names)), key=lambda index: len(column_names[index]))
        if len(column_names[longest_index]) <= len(_format_ordinal(longest_index)):
            break
        column_names[longest_index] = _print_and_format_ordinal(
            results[longest_index], longest_index
        )
    return column_names


def _format_ordinal(system_index: int) -> str:
    return f"system {system_index + 1}"


def _print_and_format_ordinal(result: SystemResult, system_index: int) -> str:
    """Return the name `system N`, and print the system that it stands for."""
    typer.echo(f"{_format_ordinal(system_index)}: {format_system_name(result.column.name)}")
    return _format_ordinal(system_index)


def _list_best_nodes(comparison: Comparison) -> list[Address]:
    """Return the best nodes, in rank order under the first system."""
    final_ranks = comparison.results[0].final_ranks
    ranked_nodes = sorted(final_ranks, key=lambda node: (final_ranks[node].rank, node))
    return ranked_nodes[:_MAX_ROWS]


def _format_final_rank(result: SystemResult, node: Address, digits: int) -> str:
    rank = result.final_ranks.get(node)
    if rank is None:
        return NO_VALUE
    return f"{format_fraction(rank.score, digits)} #{rank.rank}"


def _print_shares(comparison: Comparison) -> None:
    first_result = comparison.results[0]
    if not comparison.judged:
        return
    ordered_nodes = sorted(
        comparison.present_nodes,
        key=lambda node: (-first_result.get_started_task_count(node), node),
    )
    nodes = ordered_nodes[:_MAX_ROWS]
    typer.echo("\nShares of tasks: actual, and expected under each policy")
    names = _choose_column_names(
        comparison.results, TABLE_WIDTH - _ADDRESS_WIDTH - _TASKS_WIDTH, _PERCENT_WIDTH
    )
    rows = [
        (
            node,
            str(first_result.get_started_task_count(node)),
            format_percent(first_result.compute_actual_share(node), 2),
            *(
                format_percent(result.compute_expected_share(node), 2)
                for result in comparison.results
            ),
        )
        for node in nodes
    ]
    print_table(("node", "tasks", "actual", *names), rows)
    _print_omitted_count(len(ordered_nodes), len(nodes))


def _print_due_kickouts(comparison: Comparison) -> None:
    kickouts = [
        (system_index, interval)
        for system_index, result in enumerate(comparison.results)
        for interval in result.measurement.kickouts
    ]
    if not kickouts:
        return
    shown_kickouts = kickouts[:_MAX_INTERVALS]
    typer.echo("\nKickouts due")
    names = _choose_system_names(
        comparison.results,
        {system_index for system_index, _ in shown_kickouts},
        _KICKOUT_NAME_WIDTH,
    )
    print_table(
        ("system", "node", "block", "time", "kicked out"),
        [
            (
                names[system_index],
                interval.node,
                str(interval.block),
                format_time_to_second(interval.time),
                _format_kickout_outcome(interval),
            )
            for system_index, interval in shown_kickouts
        ],
        ("system", "kicked out"),
    )
    _print_omitted_count(len(kickouts), len(shown_kickouts))


def _choose_system_names(
    results: Sequence[SystemResult], system_indices: set[int], max_width: int
) -> dict[int, str]:
    """Return the systems' names by index.

    A name that is too long becomes `system N`.
    """
    return {
        system_index: name
        if len(name := format_system_name(results[system_index].column.name)) <= max_width
        else _print_and_format_ordinal(results[system_index], system_index)
        for system_index in sorted(system_indices)
    }


def _format_kickout_outcome(interval: DueInterval) -> str:
    if interval.kicked_block is not None:
        return f"block {interval.kicked_block}"
    return "still due" if interval.closed_block is None else "no"


def _print_exclusion_intervals(comparison: Comparison) -> None:
    intervals = [
        (system_index, interval)
        for system_index, result in enumerate(comparison.results)
        for interval in result.measurement.intervals
    ]
    if not intervals:
        return
    intervals.sort(key=lambda indexed_interval: -indexed_interval[1].seconds)
    shown_intervals = intervals[:_MAX_INTERVALS]
    typer.echo("\nExclusion intervals, the longest first")
    names = _choose_system_names(
        comparison.results,
        {system_index for system_index, _ in shown_intervals},
        _INTERVAL_NAME_WIDTH,
    )
    rows = [
        (
            names[system_index],
            interval.node,
            format_time_to_second(interval.since),
            "ongoing" if interval.until is None else format_duration(interval.seconds),
        )
        for system_index, interval in shown_intervals
    ]
    print_table(("system", "node", "from", "for"), rows, ("system",))
    _print_omitted_count(len(intervals), len(shown_intervals))


def _print_omitted_count(count: int, shown_count: int) -> None:
    if count > shown_count:
        typer.echo(f"… and {count - shown_count:,} more; --json and --html FILE list them all.")
