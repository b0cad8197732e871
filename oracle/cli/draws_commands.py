"""Implements `draws`, which lists active and recently settled draws and writes nothing."""

from collections.abc import Sequence
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.daemon.records import open_records
from oracle.queries.selection.draw_history import (
    DrawEntry,
    DrawOutcome,
    RecentDraws,
    load_recent_draws,
)
from oracle.queries.text.text_tables import (
    format_utc,
    print_omitted_count,
    print_table,
    shorten_hash,
)

# The terminal shows at most this many rows; --json shows all draws.
_MAX_ROWS = 20
_COLUMNS = ("task", "node", "seed block")
_SettledOption = Annotated[
    int,
    typer.Option(
        "--last",
        min=0,
        max=MAX_STORED_NUMBER,
        metavar="N",
        help="Number of settled draws to add, newest first.",
    ),
]
_OUTCOME_TEXTS = {
    DrawOutcome.STARTED: "started as drawn",
    DrawOutcome.STARTED_ELSEWHERE: "started elsewhere",
    DrawOutcome.TASK_ENDED: "the task ended",
    DrawOutcome.UNDONE: "drawn again",
}


def register(app: typer.Typer) -> None:
    app.command("draws", epilog="Example: qos-oracle draws --last 50 --json")(list_draws)


def list_draws(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    max_settled: _SettledOption = 10,
    as_json: JsonOption = False,
) -> None:
    """List active draws, whose tasks have not started yet.

    `outbox list --kind start_task` (or `start_group`) shows the progress of the start, `queue` the
    waiting tasks, and `select --verify TASK` recomputes a draw from the chain.
    """
    with open_records(load_config(config)) as records:
        draw_history = load_recent_draws(records.store, max_settled)
        has_dispatch = records.dispatch_settings is not None
    if as_json:
        print_model(draw_history)
        return
    if not has_dispatch:
        typer.echo("dispatch.start_block is not set: no tasks are assigned")
    _print_draws(draw_history)


def _print_draws(draw_history: RecentDraws) -> None:
    count = len(draw_history.active)
    as_of = draw_history.as_of
    as_of_text = "nothing indexed yet" if as_of is None else as_of.to_text()
    typer.echo(f"{'1 active draw' if count == 1 else f'{count} active draws'}, {as_of_text}")
    if draw_history.active:
        typer.echo("")
        rows = [
            (*_format_draw_cells(draw), _format_seed_time(draw)) for draw in draw_history.active
        ]
        _print_table_rows((*_COLUMNS, "since (UTC)"), rows)
    if draw_history.over:
        typer.echo("")
        typer.echo("settled, newest first")
        settled_rows = [
            (*_format_draw_cells(draw), str(draw.voided_block), _format_outcome(draw))
            for draw in draw_history.over
        ]
        _print_table_rows((*_COLUMNS, "settled", "outcome"), settled_rows)


def _print_table_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(columns, rows[:_MAX_ROWS], left_columns=("outcome",))
    print_omitted_count(len(rows), _MAX_ROWS)


def _format_draw_cells(entry: DrawEntry) -> tuple[str, str, str]:
    """Format a draw's shortened task key, node and seed block as table cells."""
    return shorten_hash(entry.task), entry.node, str(entry.seed_block)


def _format_outcome(entry: DrawEntry) -> str:
    return "-" if entry.outcome is None else _OUTCOME_TEXTS[entry.outcome]


def _format_seed_time(entry: DrawEntry) -> str:
    return format_utc(entry.seed_time, "%Y-%m-%d %H:%M:%S")
