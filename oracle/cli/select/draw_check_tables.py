"""What `select --verify` shows: which block drew, among whom, and what happened instead or so."""

from textwrap import fill

import typer

from oracle.queries.selection.draw_check_models import (
    AllDrawsAnswer,
    DrawCheckAnswer,
    DrawMadeAgain,
)
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import WIDTH, print_table

# Of each draw, on a terminal; --json has them all.
_MOST_ROWS = 20


def show_check(check: DrawCheckAnswer | AllDrawsAnswer) -> None:
    """Print every draw that the chain asks for, the verdict, and why; of all tasks who differs."""
    if isinstance(check, AllDrawsAnswer):
        _show_all(check)
        return
    typer.echo(f"task {check.task}")
    typer.echo(f"as of block {check.as_of.block}, {shown_time(check.as_of.time)}")
    for draw in check.draws:
        typer.echo("")
        _show_drawing(draw)
    typer.echo("")
    if check.started_by is None:
        typer.echo("started by nobody")
    else:
        typer.echo(f"started by {check.started_by} in block {check.started_block}")
    for recorded in check.recorded:
        voided = recorded.voided_block
        over = "stands" if voided is None else f"over at block {voided}"
        typer.echo(f"recorded   {recorded.node} by block {recorded.seed_block}, {over}")
    typer.echo(fill(f"{check.verdict.value.replace('_', ' ')}: {check.why}", WIDTH))


def _show_drawing(draw: DrawMadeAgain) -> None:
    typer.echo(f"seed block {draw.seed_block}, hash {draw.seed_hash}")
    typer.echo(f"seed       {draw.seed}")
    if draw.card is not None:
        typer.echo(f"card       {draw.card}")
    typer.echo(f"x          {draw.x} of {draw.sum}")
    typer.echo(f"drawn      {draw.node}")
    typer.echo("")
    rows = [(candidate.node, str(candidate.weight)) for candidate in draw.candidates]
    print_table(("node", "weight"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _show_all(check: AllDrawsAnswer) -> None:
    blocks = f"blocks {check.start_block + 1} to {check.as_of.block}"
    typer.echo(f"{blocks}, {shown_time(check.as_of.time)}")
    if not check.started:
        typer.echo("not dispatched: no task started in them")
        return
    typer.echo(f"started    {check.started} tasks, {check.agree} of them on the node drawn")
    for start in check.differ[:_MOST_ROWS]:
        typer.echo(f"differs    {start.task} in block {start.started_block}")
        typer.echo(f"           started by {start.started_by or 'several nodes'}")
        typer.echo(f"           drawn was  {start.drawn or 'nobody'}")
    if len(check.differ) > _MOST_ROWS:
        typer.echo(f"… and {len(check.differ) - _MOST_ROWS} more; --json has them all")
    if check.differ:
        typer.echo("differs: the tasks named above went elsewhere")
    else:
        typer.echo("agrees: every task went to the node drawn for it")
