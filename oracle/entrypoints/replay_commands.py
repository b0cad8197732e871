"""`replay` and `export`: scores from a file of events, and the file that our logs make."""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oracle.domain.block import BlockRange
from oracle.domain.rules import Rules
from oracle.entrypoints.choosing import SetOption, pairs_of
from oracle.entrypoints.event_files import lines_of
from oracle.entrypoints.options import DEFAULT_CONFIG, ConfigOption, open_app
from oracle.errors import InputError
from oracle.services.replaying import replay as replayed
from oracle.systems.changing import changed
from oracle.systems.crynux.rule_sets import SEED
from oracle.systems.registry import rule_set, rule_sets

_REPLAY_EXAMPLE = "Example: qos-oracle export | qos-oracle replay - --rules relay"


class Close(StrEnum):
    """When a validation group is scored."""

    VALIDATED = "validated"
    TERMINAL = "terminal"


def register(app: typer.Typer) -> None:
    """Put `replay` and `export` on the command line."""
    app.command(epilog=_REPLAY_EXAMPLE)(replay)
    app.command(epilog="Example: qos-oracle export > events.jsonl")(export)


def replay(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON lines; - reads stdin.")],
    *,
    rules: Annotated[
        str, typer.Option("--rules", metavar="NAME|FILE", help="The rule set, or a file with one.")
    ] = SEED.name,
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


def export(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    first: Annotated[
        int, typer.Option("--from", min=0, metavar="N", help="The first block written.")
    ] = 0,
    last: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="N", help="The last one; all where it is left out."),
    ] = None,
) -> None:
    """Print every event that the stored logs say, as JSON lines in order of position.

    Asks nothing of the chain; the daemon may run meanwhile.
    """
    # Here, because it brings the database with it, which `replay` can do without.
    from oracle.services.exporting import export as exported  # noqa: PLC0415

    with open_app(config) as app, app.store.reading() as unit:
        cursor = unit.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet: there is nothing to export")
        until = cursor.number if last is None else min(last, cursor.number)
        if first > until:
            raise InputError(f"--from {first} lies above block {until}, the last to export")
        # Not `echo`, which flushes every line.
        lines = exported(unit, app.reader, BlockRange(first, until))
        sys.stdout.writelines(f"{line}\n" for line in lines)


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
        return changed(json.loads(whole.to_json()), changes)
    except (OSError, ValueError) as error:
        raise InputError(f"--rules: {path}: {error}") from None
