"""Implements `halt list` and `halt clear`, which list and clear halts."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.write_session import open_write_session
from oracle.daemon.lease_keeper import build_holder_name
from oracle.daemon.records import open_records
from oracle.errors import InputError
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, clear_stored_halt
from oracle.queries.status_models import HaltClearance, build_halt_view
from oracle.queries.text.text_tables import format_block_time
from oracle.store.halts import HaltClearRecord

halt = typer.Typer(no_args_is_help=True)

_DEFAULT_LIMIT = 20


def register(app: typer.Typer) -> None:
    app.add_typer(
        halt,
        name="halt",
        help="List and clear halts, which stop folding and sending.",
    )


@halt.command("list", epilog="Example: qos-oracle halt list --json")
def list_halts(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=1, max=MAX_STORED_NUMBER, help="Maximum number of halts, newest first."
        ),
    ] = _DEFAULT_LIMIT,
) -> None:
    """List halts, newest first, and who cleared them and why."""
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        halts = uow.halts.list_newest_halts(limit)
    if as_json:
        print_model([build_halt_view(halt) for halt in halts])
        return
    if not halts:
        typer.echo("no halts recorded")
    for entry in halts:
        state_text = "HALTED" if entry.cleared is None else "cleared"
        halted_time = format_block_time(entry.since_time)
        typer.echo(f"{state_text} {entry.name} at block {entry.since_block}, {halted_time}")
        typer.echo(f"  {entry.reason}")
        if entry.cleared is not None:
            cleared_time = format_block_time(entry.cleared.time)
            typer.echo(f"  cleared {cleared_time} by {entry.cleared.by}: {entry.cleared.reason}")


@halt.command(
    "clear", epilog='Example: qos-oracle halt clear --reason "rewound below it, see ticket 12"'
)
def clear_halt(
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Reason for clearing the halt, recorded in the journal (required).",
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    name: Annotated[
        str, typer.Option("--name", help="Name of the halt, as in `halt list`.")
    ] = FINALITY_VIOLATION,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Clear a halt manually.

    The daemon clears a halt by itself once two endpoints show the stored final block again. While
    endpoints show another block, the daemon halts again at its next check. In this case, run
    `resync rewind` to a lower block first.
    """
    if not reason.strip():
        raise InputError("--reason: must not be empty")
    with open_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            active_halt = uow.halts.find_open_halt(name)
        if active_halt is None:
            raise InputError(f"--name {name}: this halt is not active; see `qos-oracle halt list`")
        if not dry_run:
            with open_write_session(records.store, "halt clear", dry_run=False) as (uow, stamp):
                clear_stored_halt(
                    uow,
                    name,
                    HaltClearRecord(stamp.at, build_holder_name("operator"), reason.strip()),
                )
    if as_json:
        print_model(HaltClearance(halt=name, cleared=not dry_run, reason=reason.strip()))
        return
    verb = "would be" if dry_run else "is"
    typer.echo(f"halt {name} {verb} cleared; its reason was: {active_halt.reason}")
