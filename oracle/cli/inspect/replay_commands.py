"""`replay` and `export`: scores from a file of events, and the file of the stored events."""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.event_files import lines_of
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_answer,
)
from oracle.cli.system_options import SetOption, pairs_of
from oracle.domain.blocks import BlockRange
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.queries.export_models import FixtureAnswer
from oracle.queries.replay import replay as replayed
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.registry import rule_set, rule_sets
from oracle.systems.rule_overrides import apply_changes

_REPLAY_EXAMPLE = "Example: qos-oracle export | qos-oracle replay - --rules relay"


class Close(StrEnum):
    """The moment at which a validation group is scored."""

    VALIDATED = "validated"
    TERMINAL = "terminal"


def register(app: typer.Typer) -> None:
    """Register `replay` and `export` on the command line."""
    app.command(epilog=_REPLAY_EXAMPLE)(replay)
    app.command(epilog="Example: qos-oracle export > events.jsonl")(export)


def replay(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON lines; - reads stdin.")],
    *,
    rules: Annotated[
        str, typer.Option("--rules", metavar="NAME|FILE", help="The rule set, or a file with one.")
    ] = CRYNUX.name,
    changes: SetOption = None,
    close: Annotated[
        Close | None, typer.Option(help="When groups are scored, where not as the rules say.")
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="TIME", help="Leave out later events; read scores then."),
    ] = None,
) -> None:
    """Score a file of events and print nodes, groups and anomalies as JSON.

    Needs no configuration, no database and no chain.
    """
    chosen = _rules(rules, pairs_of("--set", changes))
    with lines_of(file) as lines:
        text = replayed(lines, chosen, close and close.value, at)
    typer.echo(text, nl=False)


def export(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="N", help="The first block written."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="N", help="The last one; all where it is left out."),
    ] = None,
    fixture: Annotated[
        Path | None,
        typer.Option(
            "--fixture",
            metavar="FILE",
            help="Record the blocks themselves, asked of the endpoints, into a file (.jsonl or "
            ".jsonl.gz) that can be played again: headers, and all transactions and receipts of "
            "blocks with something of ours. Goes on where an interrupted run was.",
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            "--parquet",
            metavar="DIR",
            help="Write events, scores, changes of reliability, nodes, rounds and kickouts of "
            "final blocks into Parquet files; a second run adds what has become final.",
        ),
    ] = None,
    recent: Annotated[
        bool,
        typer.Option(
            "--recent",
            help="With --parquet, also blocks that may still change; the next run replaces them.",
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
        if fixture is not None or first is not None or last is not None:
            raise InputError("--parquet goes on where it was: without --from, --to, --fixture")
        # Imported here, because it needs the database, which `replay` can do without.
        from oracle.cli.inspect.parquet_command import export_parquet  # noqa: PLC0415

        export_parquet(config, parquet, recent=recent, dry_run=dry_run, as_json=as_json)
        return
    if recent:
        raise InputError("--recent is for --parquet")
    if fixture is not None:
        _record(config, fixture, (first, last), dry_run=dry_run, as_json=as_json)
        return
    from oracle.daemon.compose import open_reader  # noqa: PLC0415  as above
    from oracle.daemon.records import open_records  # noqa: PLC0415  as above
    from oracle.indexer.stored_events import export as exported  # noqa: PLC0415  as above

    with open_records(load_config(config)) as records, records.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet: there is nothing to export")
        blocks = _blocks(first or 0, last, cursor.number)
        # `typer.echo` would flush after every line.
        lines = exported(uow, open_reader(records.config), blocks)
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _record(
    config: Path,
    path: Path,
    asked: tuple[int | None, int | None],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record blocks, by default from the start block to the newest block."""
    from oracle.cli.inspect.fixture_export import record  # noqa: PLC0415  as above
    from oracle.cli.resync.resync_session import bar  # noqa: PLC0415
    from oracle.daemon.compose import open_checked_chain  # noqa: PLC0415  as above

    first, last = asked
    settings = load_config(config)
    with open_checked_chain(settings) as chain, bar("export --fixture") as tell:
        begin = settings.chain.start_block if first is None else first
        blocks = _blocks(begin, last, chain.heads().latest.number)
        done = None if dry_run else record(chain, path, blocks, tell)
    if as_json:
        print_answer(
            FixtureAnswer(
                dry_run=dry_run,
                file=str(path),
                first=blocks.first,
                last=blocks.last,
                lines=None if done is None else done.lines,
                resumed_at=None if done is None else done.resumed_at,
            )
        )
        return
    words = f"blocks {blocks.first} to {blocks.last}"
    if done is None:
        typer.echo(f"dry run, nothing written: {words} would go to {path}")
    else:
        again = "" if done.resumed_at is None else f"; went on at block {done.resumed_at}"
        typer.echo(f"{words}: {done.lines} lines in {path}{again}")


def _blocks(first: int, last: int | None, newest: int) -> BlockRange:
    until = newest if last is None else min(last, newest)
    if first > until:
        raise InputError(f"--from {first} lies above block {until}, the last to export")
    return BlockRange(first, until)


def _rules(name: str, changes: Mapping[str, str]) -> Rules:
    path = Path(name)
    if name not in rule_sets() and path.is_file():
        return _rules_in(path, changes)
    try:
        return rule_set(name, changes)
    except ValueError as error:
        if name in rule_sets():
            hint = "" if changes else " (--set KEY=VALUE gives one)"
            raise InputError(f"--rules {name}: {error}{hint}") from None
        raise InputError(f"--rules: {error}, and no file of that name") from None


def _rules_in(path: Path, changes: Mapping[str, str]) -> Rules:
    try:
        whole = Rules.from_json(path.read_text(encoding="utf-8"))
        return apply_changes(json.loads(whole.to_json()), changes)
    except (OSError, ValueError) as error:
        raise InputError(f"--rules: {path}: {error}") from None
