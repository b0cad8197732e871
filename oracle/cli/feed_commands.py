"""Implements `feed`, which handles faults of the off-chain feed and witness files."""

from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.write_session import hold_command_lease, open_write_session
from oracle.daemon.records import open_records
from oracle.domain.feed_rows import MAX_ROW_ID
from oracle.errors import InputError
from oracle.indexer.feed_faults import accept_feed_faults
from oracle.indexer.witness_file import (
    export_witness_lines,
    import_witness_lines,
    parse_witness_lines,
)
from oracle.queries.feed_view import FeedAcceptance, FeedFaultView, WitnessFile, WitnessImport
from oracle.queries.text.text_tables import format_block_time

feed = typer.Typer(no_args_is_help=True)

_OutputArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="Output file (JSON lines), with the first-seen time of each feed row."
    ),
]
_InputArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Input file, as written by `feed export-witness`.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(feed, name="feed", help="Inspect and accept faults of the off-chain feed.")


@feed.command("faults", epilog="Example: qos-oracle feed faults --all --json")
def list_faults(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    include_accepted: Annotated[
        bool, typer.Option("--all", help="Include faults that were already accepted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the faults of the feed.

    The kinds of faults are explained in docs/explanation/feed.md.
    """
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        faults = uow.feed.list_faults(is_open=not include_accepted)
        is_configured = records.config.feed.url is not None
    if as_json:
        print_model([FeedFaultView.model_validate(fault) for fault in faults])
        return
    if not faults:
        typer.echo(
            "the feed has no faults"
            if is_configured
            else "feed.url is not set: no feed is configured"
        )
    for issue in faults:
        state_text = "OPEN" if issue.accepted_at is None else "accepted"
        found_time = format_block_time(issue.found_at)
        typer.echo(
            f"{state_text} {issue.kind} at row {issue.row} of stream {issue.stream}, {found_time}"
        )
        typer.echo(f"  {issue.detail}")


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
            max=MAX_ROW_ID,
            help="Start reading a new stream after this row id.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accept the faults of the feed and resume reading it.

    Afterwards, scores are computed from the stored rows.
    """
    with (
        open_records(load_config(config)) as records,
        open_write_session(records.store, "feed accept", dry_run=dry_run) as (uow, stamp),
    ):
        accepted_faults = accept_feed_faults(uow, begin_after, None if dry_run else stamp.at)
    if as_json:
        print_model(
            FeedAcceptance(
                accepted=[FeedFaultView.model_validate(fault) for fault in accepted_faults],
                begin_after=begin_after,
                dry_run=dry_run,
            )
        )
        return
    verb = "would be" if dry_run else "are"
    stream_note = "" if begin_after is None else f"; a new stream starts after row {begin_after}"
    typer.echo(f"{len(accepted_faults)} faults {verb} accepted{stream_note}")


@feed.command("export-witness", epilog="Example: qos-oracle feed export-witness times.jsonl")
def export_witness(
    file: _OutputArgument, config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """Write the time at which each feed row was first seen.

    A reader that imports the file computes identical report bytes.
    """
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        lines = list(export_witness_lines(uow))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        print_model(WitnessFile(file=str(file), rows=len(lines)))
        return
    typer.echo(f"{len(lines)} rows in {file}")


@feed.command("import-witness", epilog="Example: qos-oracle feed import-witness times.jsonl")
def import_witness_times(
    file: _InputArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import the row times of another feed reader.

    Import the file before the daemon reads its first feed row.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {type(error).__name__}") from None
    if dry_run:
        row_count = len(parse_witness_lines(lines))
    else:
        with (
            open_records(load_config(config), create=True) as records,
            hold_command_lease(records.store, "feed import-witness"),
        ):
            row_count = import_witness_lines(records.store, lines)
    if as_json:
        print_model(WitnessImport(file=str(file), rows=row_count, dry_run=dry_run))
        return
    typer.echo(
        f"the times of {row_count} rows {'would be' if dry_run else 'are'} imported from {file}"
    )
