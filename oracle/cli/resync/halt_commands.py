"""`halt list` and `halt clear`: active halts, and their clearance by an operator."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_answer,
)
from oracle.cli.write_session import acting
from oracle.daemon.lease.lease_holder import holder_name
from oracle.daemon.records import open_records
from oracle.errors import InputError
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, clear_halt_if_proven
from oracle.queries.halt_view import HaltClearance, halt_view
from oracle.queries.text.text_tables import in_utc
from oracle.store.ops.halts import Cleared

halt = typer.Typer(no_args_is_help=True)

_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Register `halt` on the command line."""
    app.add_typer(halt, name="halt", help="What stops everything that goes out.")


@halt.command("list", epilog="Example: qos-oracle halt list --json")
def list_halts(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = _SHOWN,
) -> None:
    """List halts, newest first, and who cleared them and why."""
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        found = uow.halts.history(limit)
    if as_json:
        print_answer([halt_view(halt) for halt in found])
        return
    if not found:
        typer.echo("nothing was ever halted")
    for one in found:
        state = "HALTED" if one.cleared is None else "over"
        typer.echo(f"{state} {one.name} at block {one.since_block}, {_time(one.since_time)}")
        typer.echo(f"  {one.reason}")
        if one.cleared is not None:
            when = _time(one.cleared.time)
            typer.echo(f"  cleared {when} by {one.cleared.by}: {one.cleared.reason}")


@halt.command(
    "clear", epilog='Example: qos-oracle halt clear --reason "rewound below it, see ticket 12"'
)
def clear_halt(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why it may be cleared; recorded.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    name: Annotated[
        str, typer.Option("--name", help="Which one, as `halt list` shows it.")
    ] = FINALITY_VIOLATION,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Clear a halt manually.

    The daemon clears a halt by itself once two endpoints show the stored final block again. While
    they show another block, it halts again at its next check: run `resync rewind` below that block
    first.
    """
    if not reason.strip():
        raise InputError("--reason: say why it may be cleared")
    with open_records(load_config(config)) as records:
        with records.store.reading() as uow:
            closed = uow.halts.closed(name)
        if closed is None:
            raise InputError(f"there is no halt {name} now; `qos-oracle halt list` shows all")
        if not dry_run:
            with acting(records.store, "halt clear", dry_run=False) as (uow, stamp):
                clear_halt_if_proven(
                    uow, name, Cleared(stamp.at, holder_name("operator"), reason.strip())
                )
    if as_json:
        print_answer(HaltClearance(halt=name, cleared=not dry_run, reason=reason.strip()))
        return
    state = "would be" if dry_run else "is"
    typer.echo(f"halt {name} {state} cleared; it began because {closed.reason}")


def _time(seconds: int) -> str:
    return in_utc(seconds, "%Y-%m-%d %H:%M:%S UTC")
