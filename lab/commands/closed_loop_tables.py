"""Prints the output of `backtest --closed-loop`: a comparison, or the trials of a search."""

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

import typer

from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.rule_measures import MEASURES, RuleMeasures
from lab.closed_loop.rule_search import ComparisonPlan, SearchResult
from lab.page.number_text import (
    NO_VALUE,
    format_duration,
    format_fraction,
    format_percent,
    format_system_name,
)
from oracle.domain.fixed_point import UNIT
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table

_MILLION = 1_000_000
_COLUMN_LEGEND = (
    "Failed: orders without a result, or with a false one. Wrongful: share of their time for "
    "which good nodes were excluded. Kicked: good nodes that were kicked out. Gini: Gini "
    "coefficient of the tasks of good nodes. Removed: how many of the nodes that stopped "
    "responding were kicked out. Stayed: their mean time from the stop to the kickout, or to the "
    "end of the run. Wasted: share of all tasks that started on stopped nodes."
)


def print_measures(all_measures: Sequence[RuleMeasures], plan: ComparisonPlan) -> None:
    """Print a table of the measures of each system."""
    typer.echo(
        f"{_format_loop_parameters(plan.loop)}, {plan.runs} run{'' if plan.runs == 1 else 's'}\n"
    )
    column_names = (
        "system",
        "failed",
        "wrongful",
        "kicked",
        "Gini",
        "removed",
        "stayed",
        "wasted",
    )
    print_table(
        column_names,
        [tuple(_iter_measure_cells(system_measures)) for system_measures in all_measures],
        ("system",),
    )
    typer.echo(f"\n{fill(_COLUMN_LEGEND, TABLE_WIDTH)}")


def _format_loop_parameters(loop: LoopPlan) -> str:
    return f"{loop.nodes:,} nodes, {loop.tasks:,} tasks, seed {loop.seed}"


def _iter_measure_cells(measures: RuleMeasures) -> Iterator[str]:
    yield format_system_name(measures.column.name)
    yield _format_millionths_as_percent(measures.failure_rate)
    yield _format_millionths_as_percent(measures.wrongful_exclusion_rate)
    yield str(measures.kicked_good_node_count)
    yield format_fraction(measures.gini * (UNIT // _MILLION), 4)
    yield (
        f"{measures.stopped_node_count - measures.remaining_stopped_node_count} "
        f"of {measures.stopped_node_count}"
    )
    yield (
        format_duration(measures.mean_seconds_until_kickout)
        if measures.stopped_node_count
        else NO_VALUE
    )
    yield _format_millionths_as_percent(measures.wasted_task_rate)


def _format_millionths_as_percent(millionths: int) -> str:
    return format_percent(millionths * (UNIT // _MILLION), 3)


def print_search_result(search_result: SearchResult, plan: ComparisonPlan) -> None:
    """Print the trials of a search, with the trial nearest to the goal first."""
    runs_text = f"{plan.runs} run{'' if plan.runs == 1 else 's'} each"
    typer.echo(f"{_format_loop_parameters(plan.loop)}, {runs_text}\n")
    trials = sorted(search_result.trials, key=lambda trial: trial.distance)
    rows = [
        (
            format_system_name(trial.measures.column.name),
            format_fraction(trial.distance, 4),
            *list(_iter_measure_cells(trial.measures))[1:],
        )
        for trial in trials
    ]
    column_names = (
        "system", "distance", "failed", "wrongful", "kicked", "Gini", "removed", "stayed",
        "wasted",
    )  # fmt: skip
    print_table(column_names, rows, ("system",))
    if search_result.best is search_result.first_trial:
        typer.echo("\nNo trial is nearer to the goal than the unchanged system.")
    else:
        best_trial = search_result.best
        name = format_system_name(best_trial.measures.column.name)
        typer.echo(
            f"\nNearest: {name}, at distance {format_fraction(best_trial.distance, 4)}, with "
            f"other seeds {format_fraction(search_result.distance_on_other_seeds, 4)}; the "
            "unchanged system is at distance 1."
        )
    typer.echo(f"\n{fill(_COLUMN_LEGEND, TABLE_WIDTH)}")


def build_measures_json(
    all_measures: Sequence[RuleMeasures], plan: ComparisonPlan
) -> dict[str, Any]:
    """Build the JSON object with the measures of all systems."""
    return {
        "plan": _build_plan_json(plan),
        "systems": [_build_system_json(system_measures) for system_measures in all_measures],
    }


def build_search_json(search_result: SearchResult, plan: ComparisonPlan) -> dict[str, Any]:
    return {
        "plan": _build_plan_json(plan),
        "trials": [
            {
                "changes": dict(trial.changes),
                "distance": format_fraction(trial.distance, 18),
                **_build_system_json(trial.measures),
            }
            for trial in search_result.trials
        ],
        "best": dict(search_result.best.changes),
        "distance": format_fraction(search_result.best.distance, 18),
        "distance_on_other_seeds": format_fraction(search_result.distance_on_other_seeds, 18),
    }


def _build_plan_json(plan: ComparisonPlan) -> dict[str, int]:
    loop = plan.loop
    return {"nodes": loop.nodes, "tasks": loop.tasks, "seed": loop.seed, "runs": plan.runs}


def _build_system_json(system_measures: RuleMeasures) -> dict[str, Any]:
    return {
        "system": system_measures.column.name,
        "changes": dict(system_measures.column.changes),
        "stopped": system_measures.stopped_node_count,
        "still_in": system_measures.remaining_stopped_node_count,
        **{name: get_measure(system_measures) for name, get_measure in MEASURES.items()},
    }
