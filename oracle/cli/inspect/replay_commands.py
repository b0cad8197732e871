"""Implements `replay`, which scores a file of events, and `export`, which writes such a file."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    open_lines,
    print_model,
)
from oracle.cli.system_options import SetOption, parse_key_values, read_rules_file
from oracle.domain.blocks import BlockRange
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.queries.command_models import FixtureAnswer
from oracle.queries.replay import replay_events
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.registry import build_rules, list_rule_set_names

_REPLAY_EXAMPLE = "Example: qos-oracle export | qos-oracle replay - --rules relay"


class GroupCloseRule(StrEnum):
    """The moment at which a group of tasks is scored."""

    VALIDATED = "validated"
    TERMINAL = "terminal"


def register(app: typer.Typer) -> None:
    """Register `replay` and `export` on the command line."""
    app.command(epilog=_REPLAY_EXAMPLE)(replay)
    app.command(epilog="Example: qos-oracle export > events.jsonl")(export)


def replay(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="File of events (JSON lines); - reads stdin.")
    ],
    *,
    rules: Annotated[
        str,
        typer.Option(
            "--rules",
            metavar="NAME|FILE",
            help="Name of a rule set, or a JSON file with a rule set.",
        ),
    ] = CRYNUX.name,
    changes: SetOption = None,
    close: Annotated[
        GroupCloseRule | None,
        typer.Option(
            help=(
                "When groups are scored: at their validation, or when all members have ended. "
                "Default: as the rules define."
            )
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="TIME",
            help=(
                "Time of the scores (unix seconds); later events are ignored. Default: after the "
                "last event."
            ),
        ),
    ] = None,
) -> None:
    """Score a file of events and print the result as JSON.

    Needs no configuration, no database and no chain.
    """
    selected_rules = _load_rules(rules, parse_key_values("--set", changes))
    with open_lines(file) as lines:
        result_json = replay_events(lines, selected_rules, close and close.value, at)
    typer.echo(result_json, nl=False)


def export(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    first_block: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=0,
            metavar="N",
            help="First block to export. Default: the first stored block.",
        ),
    ] = None,
    last_block: Annotated[
        int | None,
        typer.Option(
            "--to",
            min=0,
            metavar="N",
            help="Last block to export. Default: the last folded block.",
        ),
    ] = None,
    fixture: Annotated[
        Path | None,
        typer.Option(
            "--fixture",
            metavar="FILE",
            help=(
                "Record blocks from the endpoints into this file (.jsonl or .jsonl.gz) for "
                "replay: headers, plus all transactions and receipts of blocks with relevant "
                "events. Resumes an interrupted run."
            ),
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            "--parquet",
            metavar="DIR",
            help=(
                "Write events, scores, reliability changes, nodes, rounds and kickouts of final "
                "blocks as Parquet files into this folder; a second run adds the blocks that have "
                "become final."
            ),
        ),
    ] = None,
    recent: Annotated[
        bool,
        typer.Option(
            "--recent",
            help=(
                "Include blocks that may still change (with --parquet only); the next run "
                "replaces them."
            ),
        ),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print all events of the stored logs as JSON lines.

    Events are ordered by position. Contacts no endpoint except with --fixture; the daemon may be
    running. --dry-run and --json apply to --fixture and --parquet.
    """
    if parquet is not None:
        if fixture is not None or first_block is not None or last_block is not None:
            raise InputError(
                "--parquet: cannot be combined with --from, --to or --fixture; it resumes at "
                "the last exported block"
            )
        # The import is local, because the module needs the database, which `replay` does not need.
        from oracle.cli.inspect.parquet_command import export_parquet  # noqa: PLC0415

        export_parquet(config, parquet, recent=recent, dry_run=dry_run, as_json=as_json)
        return
    if recent:
        raise InputError("--recent: requires --parquet")
    if fixture is not None:
        _record_fixture(
            config, fixture, (first_block, last_block), dry_run=dry_run, as_json=as_json
        )
        return
    from oracle.daemon.event_readers import open_reader  # noqa: PLC0415  as above
    from oracle.daemon.records import open_records  # noqa: PLC0415  as above
    from oracle.indexer.stored_events import export_events  # noqa: PLC0415  as above

    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("the database is empty; there is nothing to export")
        blocks = _clip_block_range(first_block or 0, last_block, cursor.number)
        # `typer.echo` would flush after every line.
        lines = export_events(uow, open_reader(records.config), blocks)
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _record_fixture(
    config: Path,
    path: Path,
    requested_bounds: tuple[int | None, int | None],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record blocks to a file, by default from the start block to the newest block."""
    from oracle.cli.inspect.fixture_export import export_fixture  # noqa: PLC0415  as above
    from oracle.cli.resync.resync_session import show_progress  # noqa: PLC0415
    from oracle.daemon.chain_endpoints import open_checked_chain  # noqa: PLC0415  as above

    requested_first, requested_last = requested_bounds
    loaded_config = load_config(config)
    with (
        open_checked_chain(loaded_config) as chain,
        show_progress("export --fixture") as report_progress,
    ):
        first_block = (
            loaded_config.chain.start_block if requested_first is None else requested_first
        )
        blocks = _clip_block_range(first_block, requested_last, chain.fetch_heads().latest.number)
        answer = (
            FixtureAnswer(
                dry_run=True,
                file=str(path),
                first=blocks.first,
                last=blocks.last,
                lines=None,
                resumed_at=None,
            )
            if dry_run
            else export_fixture(chain, path, blocks, report_progress)
        )
    if as_json:
        print_model(answer)
        return
    block_text = f"blocks {answer.first} to {answer.last}"
    if dry_run:
        typer.echo(f"dry run, nothing written: {block_text} would be written to {path}")
    else:
        resume_note = (
            "" if answer.resumed_at is None else f"; resumed at block {answer.resumed_at}"
        )
        typer.echo(f"{block_text}: {answer.lines} lines in {path}{resume_note}")


def _clip_block_range(first: int, last: int | None, newest_block: int) -> BlockRange:
    end_block = newest_block if last is None else min(last, newest_block)
    if first > end_block:
        raise InputError(
            f"--from {first}: the first block is above block {end_block}, the last block to export"
        )
    return BlockRange(first, end_block)


def _load_rules(name: str, changes: Mapping[str, str]) -> Rules:
    path = Path(name)
    if name not in list_rule_set_names() and path.is_file():
        try:
            return read_rules_file(path, changes)
        except InputError as error:
            raise InputError(f"--rules: {error}") from None
    try:
        return build_rules(name, changes)
    except ValueError as error:
        if name in list_rule_set_names():
            option_hint = "" if changes else " (set it with --set KEY=VALUE)"
            raise InputError(f"--rules {name}: {error}{option_hint}") from None
        raise InputError(f"--rules: {error}; no file has this name either") from None
