"""`draws`: pending and recent node assignments of tasks. The command only reads."""

from collections.abc import Sequence
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.select.select_tables import shown_as_of
from oracle.daemon.records import open_records
from oracle.queries.selection.draw_history import DrawEntry, DrawOutcome, RecentDraws, recent_draws
from oracle.queries.text.text_tables import cut_hash, in_utc, print_table

# Limit for the terminal; --json contains all draws.
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
    """Register `draws` on the command line."""
    app.command("draws", epilog="Example: qos-oracle draws --last 50 --json")(draws)


def draws(
    config: ConfigOption = DEFAULT_CONFIG, *, last: _LastOption = 10, as_json: JsonOption = False
) -> None:
    """List active draws: tasks whose node is drawn but has not started yet.

    `outbox list --kind start_task` (or `start_group`) shows the progress of the start, `queue` the
    waiting tasks, and `select --verify TASK` recomputes a draw from the chain.
    """
    with open_records(load_config(config)) as records:
        found = recent_draws(records.store, last)
        is_on = records.dispatch_settings is not None
    if as_json:
        print_answer(found)
        return
    if not is_on:
        typer.echo("dispatch.start_block is not set: nobody is drawn now")
    _show(found)


def _show(found: RecentDraws) -> None:
    count, at = len(found.active), found.as_of
    moment = "nothing is indexed yet"
    if at is not None:
        moment = shown_as_of(at)
    typer.echo(f"{'1 draw stands' if count == 1 else f'{count} draws stand'}, {moment}")
    if found.active:
        typer.echo("")
        rows = [(*_whom(each), _since(each)) for each in found.active]
        _print((*_COLUMNS, "since (UTC)"), rows)
    if found.over:
        typer.echo("")
        typer.echo("over, the last first")
        over = [(*_whom(each), str(each.voided_block), _came(each)) for each in found.over]
        _print((*_COLUMNS, "over at", "what came of it"), over)


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(columns, rows[:_MOST_ROWS], left=("what came of it",))
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _whom(entry: DrawEntry) -> tuple[str, str, str]:
    """Return the task prefix, the node, and the block whose hash drew the node."""
    return cut_hash(entry.task), entry.node, str(entry.seed_block)


def _came(entry: DrawEntry) -> str:
    return "-" if entry.outcome is None else _WORDS[entry.outcome]


def _since(entry: DrawEntry) -> str:
    return in_utc(entry.seed_time, "%Y-%m-%d %H:%M:%S")
