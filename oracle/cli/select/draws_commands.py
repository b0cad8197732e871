"""`draws`: which node is drawn for which task, and what came of the last draws. Only reads."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_json
from oracle.queries.selection.draw_history import DrawHistory, DrawOutcome, DrawRow, recent_draws
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import cut_hash, in_utc, print_table

# On a terminal; --json has them all.
_MOST_ROWS = 20
_COLUMNS = ("task", "node", "seed block")
_LastOption = Annotated[
    int,
    typer.Option("--last", min=0, metavar="N", help="And the last N that stand no more."),
]
_WORDS = {
    DrawOutcome.STARTED: "the node started",
    DrawOutcome.STARTED_ELSEWHERE: "another node started it",
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
        rows = [(*_whom(each), _since(each)) for each in found.active]
        _print((*_COLUMNS, "since (UTC)"), rows)
    if found.over:
        typer.echo("")
        typer.echo("over, the last first")
        over = [(*_whom(each), str(each.draw.voided_block), _came(each)) for each in found.over]
        _print((*_COLUMNS, "over at", "what came of it"), over)


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(columns, rows[:_MOST_ROWS], left=("what came of it",))
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _whom(told: DrawRow) -> tuple[str, str, str]:
    """Name the task as it begins, the node, and the block whose hash drew it."""
    return cut_hash(told.draw.task), told.draw.node, str(told.draw.seed_block)


def _came(told: DrawRow) -> str:
    return "-" if told.outcome is None else _WORDS[told.outcome]


def _since(told: DrawRow) -> str:
    return in_utc(told.since, "%Y-%m-%d %H:%M:%S")


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
