"""`feed`: faults of the off-chain feed, their acceptance by an operator, and witness files."""

from pathlib import Path
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
from oracle.cli.write_session import acting, command_lease
from oracle.daemon.records import open_records
from oracle.domain.feed_rows import LARGEST_ID
from oracle.errors import InputError
from oracle.indexer.feeds.accepting import accept
from oracle.indexer.feeds.witness_file import import_witness, witness_lines
from oracle.queries.feed_view import FeedAcceptance, WitnessFile, WitnessImport, fault_view
from oracle.queries.text.text_tables import in_utc

feed = typer.Typer(no_args_is_help=True)

_FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A witness file.")]


def register(app: typer.Typer) -> None:
    """Register `feed` on the command line."""
    app.add_typer(feed, name="feed", help="The feed beside the chain, whose rows have no proof.")


@feed.command("faults", epilog="Example: qos-oracle feed faults --all --json")
def list_faults(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that somebody has accepted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the faults of the feed.

    The kinds of faults are explained in docs/explanation/feed.md.
    """
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        found = uow.feed.faults(is_open=not everything)
        is_read = records.config.feed.url is not None
    if as_json:
        print_answer([fault_view(fault) for fault in found])
        return
    if not found:
        typer.echo("the feed has no fault" if is_read else "feed.url is not set: no feed is read")
    for one in found:
        state = "OPEN" if one.accepted_at is None else "accepted"
        when = in_utc(one.found_at, "%Y-%m-%d %H:%M:%S UTC")
        typer.echo(f"{state} {one.kind} at row {one.row} of stream {one.stream}, {when}")
        typer.echo(f"  {one.detail}")


@feed.command("accept", epilog="Example: qos-oracle feed accept --from 88102 --dry-run")
def accept_faults(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    begin_after: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="ID",
            min=0,
            max=LARGEST_ID,
            help="Read a new stream after this row.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accept the faults of the feed and resume reading it.

    Scores then rest on the rows as they are stored.
    """
    with (
        open_records(load_config(config)) as records,
        acting(records.store, "feed accept", dry_run=dry_run) as (uow, stamp),
    ):
        found = accept(uow, begin_after, None if dry_run else stamp.at)
    if as_json:
        print_answer(
            FeedAcceptance(
                accepted=[fault_view(fault) for fault in found],
                begin_after=begin_after,
                dry_run=dry_run,
            )
        )
        return
    would = "would be" if dry_run else "are"
    after = "" if begin_after is None else f"; a new stream begins after row {begin_after}"
    typer.echo(f"{len(found)} faults {would} accepted{after}")


@feed.command("export-witness", epilog="Example: qos-oracle feed export-witness times.jsonl")
def export_witness(
    file: _FileArgument, config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """Write the time at which each feed row was first seen.

    A reader that imports the file computes identical report bytes.
    """
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        lines = list(witness_lines(uow))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        print_answer(WitnessFile(file=str(file), rows=len(lines)))
        return
    typer.echo(f"{len(lines)} rows in {file}")


@feed.command("import-witness", epilog="Example: qos-oracle feed import-witness times.jsonl")
def import_times(
    file: _FileArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import the row times of another feed reader.

    The import has to come before the first row is read.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {type(error).__name__}") from None
    rows = sum(1 for line in lines if line.strip())
    if not dry_run:
        with (
            open_records(load_config(config), create=True) as records,
            command_lease(records.store, "feed import-witness"),
        ):
            rows = import_witness(records.store, lines)
    if as_json:
        print_answer(WitnessImport(file=str(file), rows=rows, dry_run=dry_run))
        return
    typer.echo(f"the times of {rows} rows {'would be' if dry_run else 'are'} taken from {file}")
