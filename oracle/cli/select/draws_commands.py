"""`draws`: which node is drawn for which task, and what came of the last draws. Only reads."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_json
from oracle.queries.selection.draw_history import DrawHistory, DrawOutcome, DrawRow, recent_draws
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import in_utc, print_table

# On a terminal; --json has them all.
_MOST_ROWS = 20
_LastOption = Annotated[
    int,
    typer.Option("--last", min=0, metavar="N", help="And the last N that stand no more."),
]
_WORDS = {
    DrawOutcome.STARTED: "which started it",
    DrawOutcome.STARTED_ELSEWHERE: "but another node started it",
    DrawOutcome.TASK_ENDED: "the task ended",
    DrawOutcome.UNDONE: "undone: drawn for anew",
}


def register(app: typer.Typer) -> None:
    """Put `draws` on the command line."""
    app.command("draws", epilog="Example: qos-oracle draws --last 50 --json")(draws)


def draws(
    config: ConfigOption = DEFAULT_CONFIG, *, last: _LastOption = 10, as_json: JsonOption = False
) -> None:
    """List the draws that stand: tasks whose node is drawn and has not started yet.

    `outbox list --kind start_task` (or `start_group`) tells how far it is, `queue` who waits, and
    `select --verify TASK` draws one again from the chain.
    """
    with open_app(config) as app:
        found = recent_draws(app.store, last)
        is_on = app.dispatch_settings is not None
    if as_json:
        print_json(_answer(found))
        return
    if not is_on:
        typer.echo("dispatch.start_block is not set: nobody is drawn now")
    _show(found)


def _show(found: DrawHistory) -> None:
    count, at = len(found.active), found.as_of
    moment = "nothing is indexed yet"
    if at is not None:
        moment = f"as of block {at.number}, {shown_time(at.time)}"
    typer.echo(f"{'1 draw stands' if count == 1 else f'{count} draws stand'}, {moment}")
    if found.active:
        typer.echo("")
        rows = [(_whom(each), str(each.draw.seed_block), _since(each)) for each in found.active]
        _print(("task", "seed block", "since (UTC)"), rows)
    if found.over:
        typer.echo("")
        typer.echo("over, the last first")
        rows = [
            (_whom(each), str(each.draw.seed_block), str(each.draw.voided_block))
            for each in found.over
        ]
        _print(("task", "seed block", "over at"), rows)


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(columns, rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _whom(told: DrawRow) -> str:
    """Name the task, and under it the node and what came of it."""
    came = "" if told.outcome is None else f", {_WORDS[told.outcome]}"
    return f"{told.draw.task}\n  {told.draw.node}{came}"


def _since(told: DrawRow) -> str:
    return "-" if told.since is None else in_utc(told.since, "%Y-%m-%d %H:%M:%S")


def _answer(found: DrawHistory) -> dict[str, Any]:
    at = found.as_of
    return {
        "as_of": None if at is None else {"block": at.number, "time": at.time},
        "active": [_draw(each) for each in found.active],
        "over": [_draw(each) for each in found.over],
    }


def _draw(told: DrawRow) -> dict[str, Any]:
    draw = told.draw
    return {
        "task": draw.task,
        "node": draw.node,
        "seed_block": draw.seed_block,
        "seed_hash": draw.seed_hash,
        "since": told.since,
        "over_block": draw.voided_block,
        "outcome": None if told.outcome is None else told.outcome.value,
    }
