"""The output of `backtest --closed-loop`: systems side by side, and the trials of a search."""

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from lab.closed_loop.loop_plan import LoopPlan
from lab.closed_loop.rule_measures import MEASURES, RuleMeasures
from lab.closed_loop.rule_search import ComparisonPlan, Search
from lab.page.number_text import NOTHING, fraction, lasting, percent
from oracle.domain.fixed_point import UNIT
from oracle.queries.text.text_tables import print_table, sanitize_text

_WHOLE = 80
_MILLION = 1_000_000
_ABOUT = (
    "Failed: orders without a result, or with a false one. Wrongful: the part of their time for "
    "which\ngood nodes were excluded. Kicked: good nodes kicked out. Gini: of the tasks of good "
    "nodes.\nDead out: how many of the nodes that stopped answering were kicked out, and how long "
    "they stayed,\nthose that are still there up to the end. Wasted: the part of all tasks that "
    "they were given."
)


def print_measures(found: Sequence[RuleMeasures], plan: ComparisonPlan) -> None:
    """Print the measures of systems side by side."""
    typer.echo(f"{_extent(plan.loop)}, {plan.runs} run{'' if plan.runs == 1 else 's'}\n")
    head = ("system", "failed", "wrongful", "kicked", "Gini", "dead out", "stayed", "wasted")
    print_table(head, [tuple(_cells(each)) for each in found], ("system",))
    typer.echo(f"\n{_ABOUT}")


def _extent(loop: LoopPlan) -> str:
    return f"{loop.nodes:,} nodes, {loop.tasks:,} tasks, seed {loop.seed}"


def _cells(found: RuleMeasures) -> Iterator[str]:
    yield sanitize_text(found.column.name, max_length=_WHOLE)
    yield _percent(found.failures)
    yield _percent(found.wrongful)
    yield str(found.kicked_good)
    yield fraction(found.gini * (UNIT // _MILLION), 4)
    yield f"{found.stopped - found.still_in} of {found.stopped}"
    yield lasting(found.dead_seconds) if found.stopped else NOTHING
    yield _percent(found.wasted)


def _percent(millionths: int) -> str:
    return percent(millionths * (UNIT // _MILLION), 3)


def print_search(searched: Search, plan: ComparisonPlan) -> None:
    """Print the trials of a search, the nearest to the goal first."""
    typer.echo(f"{_extent(plan.loop)}, {plan.runs} run{'' if plan.runs == 1 else 's'} each\n")
    trials = sorted(searched.trials, key=lambda trial: trial.distance)
    rows = [
        (
            sanitize_text(trial.found.column.name, max_length=_WHOLE),
            fraction(trial.distance, 4),
            *list(_cells(trial.found))[1:],
        )
        for trial in trials
    ]
    head = (
        "system", "distance", "failed", "wrongful", "kicked", "Gini", "dead out", "stayed",
        "wasted",
    )  # fmt: skip
    print_table(head, rows, ("system",))
    if searched.best is searched.first:
        typer.echo("\nNothing that was tried comes nearer to the goal.")
    else:
        typer.echo(
            f"\nNearest: {sanitize_text(searched.best.found.column.name, max_length=_WHOLE)}, at "
            f"{fraction(searched.best.distance, 4)} of the first; on seeds that it had not seen "
            f"{fraction(searched.again, 4)}."
        )
    typer.echo(f"\n{_ABOUT}")


def measures_answer(found: Sequence[RuleMeasures], plan: ComparisonPlan) -> dict[str, Any]:
    """Return the measures of all systems for JSON."""
    return {"plan": _plan(plan), "systems": [_measures(each) for each in found]}


def search_answer(searched: Search, plan: ComparisonPlan) -> dict[str, Any]:
    """Return a search result for JSON."""
    return {
        "plan": _plan(plan),
        "trials": [
            {
                "changes": dict(trial.changes),
                "distance": fraction(trial.distance, 18),
                **_measures(trial.found),
            }
            for trial in searched.trials
        ],
        "best": dict(searched.best.changes),
        "distance": fraction(searched.best.distance, 18),
        "distance_on_other_seeds": fraction(searched.again, 18),
    }


def _plan(plan: ComparisonPlan) -> dict[str, int]:
    loop = plan.loop
    return {"nodes": loop.nodes, "tasks": loop.tasks, "seed": loop.seed, "runs": plan.runs}


def _measures(found: RuleMeasures) -> dict[str, Any]:
    return {
        "system": found.column.name,
        "changes": dict(found.column.changes),
        "stopped": found.stopped,
        "still_in": found.still_in,
        **{name: measure(found) for name, measure in MEASURES.items()},
    }
