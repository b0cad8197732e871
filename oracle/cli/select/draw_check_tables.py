"""What `select --verify` shows: which block drew, among whom, and what happened instead or so."""

from textwrap import fill

import typer

from oracle.queries.selection.draw_check import AllDraws, DrawCheck
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import WIDTH, print_table
from oracle.systems.assignment import Drawing

# Of each draw, on a terminal; --json has them all.
_MOST_ROWS = 20


def show_check(check: DrawCheck | AllDraws) -> None:
    """Print every draw that the chain asks for, the verdict, and why; of all tasks who differs."""
    if isinstance(check, AllDraws):
        _show_all(check)
        return
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
    if drawing.card is not None:
        typer.echo(f"card       {drawing.card}")
    drawn = drawing.drawn
    typer.echo(f"x          {drawn.x} of {drawn.total}")
    typer.echo(f"drawn      {drawn.node}")
    typer.echo("")
    rows = [(node, str(weight)) for node, weight in drawing.candidates]
    print_table(("node", "weight"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _show_all(check: AllDraws) -> None:
    blocks = f"blocks {check.start_block + 1} to {check.as_of.number}"
    typer.echo(f"{blocks}, {shown_time(check.as_of.time)}")
    if not check.started:
        typer.echo("not dispatched: no task started in them")
        return
    agree = check.started - len(check.differing)
    typer.echo(f"started    {check.started} tasks, {agree} of them on the node drawn")
    for each in check.differing[:_MOST_ROWS]:
        typer.echo(f"differs    {each.task} in block {each.block}")
        typer.echo(f"           started by {each.node or 'several nodes'}")
        typer.echo(f"           drawn was  {each.drawn or 'nobody'}")
    if len(check.differing) > _MOST_ROWS:
        typer.echo(f"… and {len(check.differing) - _MOST_ROWS} more; --json has them all")
    if check.differing:
        typer.echo("differs: the tasks named above went elsewhere")
    else:
        typer.echo("agrees: every task went to the node drawn for it")
