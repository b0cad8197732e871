"""What `select --verify` shows: which block drew, among whom, and what happened instead or so."""

from textwrap import fill
from typing import Any

import typer

from oracle.entrypoints.select_answers import drawn_answer
from oracle.entrypoints.status_commands import shown_time
from oracle.entrypoints.terminal import WIDTH, print_table
from oracle.services.verifying import DrawCheck
from oracle.systems.dispatching import Drawing

# Of each draw, on a terminal; --json has them all.
_MOST_ROWS = 20


def check_answer(check: DrawCheck) -> dict[str, Any]:
    """Return what `select --verify --json` says; weights, x and sums as decimal strings."""
    return {
        "task": check.task,
        "verdict": check.verdict.value,
        "why": check.why,
        "as_of": {"block": check.as_of.number, "time": check.as_of.time},
        "draws": [_drawing(drawing) for drawing in check.drawings],
        "standing": check.standing,
        "started_by": check.started_by,
        "started_block": check.started_block,
        "recorded": [
            {
                "seed_block": each.seed_block,
                "seed_hash": each.seed_hash,
                "node": each.node,
                "over_block": each.over_block,
            }
            for each in check.recorded
        ],
    }


def show_check(check: DrawCheck) -> None:
    """Print every draw that the chain asks for, the verdict, and why."""
    typer.echo(f"task {check.task}")
    typer.echo(f"as of block {check.as_of.number}, {shown_time(check.as_of.time)}")
    for drawing in check.drawings:
        typer.echo("")
        _show_drawing(drawing)
    typer.echo("")
    if check.started_by is None:
        typer.echo("started by nobody")
    else:
        typer.echo(f"started by {check.started_by} in block {check.started_block}")
    for each in check.recorded:
        over = "stands" if each.over_block is None else f"over at block {each.over_block}"
        typer.echo(f"recorded   {each.node} by block {each.seed_block}, {over}")
    typer.echo(fill(f"{check.verdict.value.replace('_', ' ')}: {check.why}", WIDTH))


def _show_drawing(drawing: Drawing) -> None:
    typer.echo(f"seed block {drawing.block.number}, hash {drawing.block.hash}")
    typer.echo(f"seed       0x{drawing.seed.hex()}")
    drawn = drawing.drawn
    typer.echo(f"x          {drawn.x} of {drawn.total}")
    typer.echo(f"drawn      {drawn.node}")
    typer.echo("")
    rows = [(node, str(weight)) for node, weight in drawing.candidates]
    print_table(("node", "weight"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _drawing(drawing: Drawing) -> dict[str, Any]:
    return {
        "seed_block": drawing.block.number,
        "seed_hash": drawing.block.hash,
        "seed": "0x" + drawing.seed.hex(),
        **drawn_answer(drawing.drawn),
        "candidates": [
            {"node": node, "weight": str(weight)} for node, weight in drawing.candidates
        ],
    }
