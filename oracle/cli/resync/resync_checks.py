"""`resync verify` and `resync gaps`: how sure we are of what we hold."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    open_app,
    print_json,
)
from oracle.cli.resync.resync_session import named, rebuilt_json, say, told, working
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.logs import Call, Log
from oracle.errors import InputError
from oracle.indexer.audit.gaps import Gaps, gaps as look_for_gaps
from oracle.indexer.audit.reverify import ReverifyRequest, Verified, verify as verify_blocks

# Rows and ranges named on a terminal; `--json` names all.
MOST_LINES = 20

_VERIFY = "Example: qos-oracle resync verify --from 19000000 --to 19010000 --level proven"
_GAPS = "Example: qos-oracle resync gaps --json"


class LevelName(StrEnum):
    """Levels that an endpoint can be asked for (docs/explanation/verification.md)."""

    CHECKED = "checked"
    SEAMED = "seamed"
    PINNED = "pinned"
    BLOOMED = "bloomed"
    PROVEN = "proven"


def register(resync: typer.Typer) -> None:
    """Put both on the command line, below `resync`."""
    resync.command(epilog=_VERIFY)(verify)
    resync.command(epilog=_GAPS)(gaps)


def verify(  # noqa: PLR0913 - a command line's options are its parameters
    first: Annotated[int, typer.Option("--from", min=0, metavar="N", help="The first block.")],
    last: Annotated[int, typer.Option("--to", min=0, metavar="N", help="The last block.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    level: Annotated[
        LevelName, typer.Option("--level", help="How far each block is to be proven.")
    ] = LevelName.PROVEN,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="NAME", help="Whom to ask; default: who is well."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what differs, and fold anew.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Processes, or workers of the cluster in [history], that read; default: its own.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read blocks again, compare them with what we hold, and note how sure we are.

    Where both are the same, the coverage has the level reached from then on. Exit code 1 where
    they differ and were not all put right. An interrupted run goes on where it was; with
    `--dry-run` nothing at all is written, and the daemon may run meanwhile. Workers read from
    2,000 blocks on; what comes of it is the same.
    """
    if first > last:
        raise InputError(f"--from {first} lies above --to {last}")
    asked = ReverifyRequest(BlockRange(first, last), Level[level.name], endpoint, repair)
    with working(config, "resync verify", dry_run=dry_run, only_reads=dry_run and not repair) as (
        app,
        manner,
    ):
        if workers is not None:
            app.verify_by(workers)
        found = verify_blocks(app.chain, app.store, app.folder, asked, manner)
    if as_json:
        print_json(_verified(found, dry_run=dry_run))
    else:
        for line in _lines(found, repair=repair):
            say(line, dry_run=dry_run)
    if found.left or (found.repaired is not None and found.repaired.differing):
        raise typer.Exit(1)


def gaps(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Look for gaps: blocks never read, headers that do not link, logs without their block.

    Asks nothing of the chain; the daemon may run meanwhile. Exit code 1 where there is one.
    """
    with open_app(config) as app, app.store.reading() as uow:
        found = look_for_gaps(uow, app.reader)
    if found is None:
        raise InputError("nothing is indexed yet: `qos-oracle run` fetches everything")
    if as_json:
        print_json(_gaps(found))
    else:
        for line in _gap_lines(found):
            typer.echo(line)
    if found:
        raise typer.Exit(1)


def _lines(found: Verified, *, repair: bool) -> Iterator[str]:
    difference = found.difference
    told_of = [("missing here", difference.missing), ("only here", difference.extra)]
    told_of.append(("other words", difference.other))
    for words, rows in told_of:
        yield from _some(words, rows)
    by = ", ".join(found.endpoints) or "nobody"
    again = "" if found.resumed_at is None else f"; went on at block {found.resumed_at}"
    blocks = f"blocks {found.blocks.first} to {found.blocks.last}"
    if not difference:
        yield f"{blocks}: the same, {found.reached.name.lower()} by {by}{again}"
        return
    counts = ", ".join(f"{len(rows)} {words}" for words, rows in told_of)
    yield f"{blocks}: DIFFERENT by {by}: {counts}{again}"
    if found.repaired is not None:
        yield f"put right; {told(found.repaired)}"
    if repair and found.left:
        yield f"NOT put right: {found.left} rows, for their receipts prove neither side wrong"


def _some(words: str, rows: list[Log | Call]) -> Iterator[str]:
    for row in rows[:MOST_LINES]:
        yield f"{words}: {named(row)}"
    if len(rows) > MOST_LINES:
        yield f"{words}: and {len(rows) - MOST_LINES} more (--json names all)"


def _gap_lines(found: Gaps) -> Iterator[str]:
    blocks = found.blocks
    for level in Level:
        count = found.blocks_at(level)
        if count:
            yield f"{level.name.lower()}: {count} blocks"
    audited = sum(len(span.blocks) for span in found.spans if span.audited_by is not None)
    yield f"a second endpoint was asked about {audited} blocks"
    yield from _listed("not read", [f"{each.first} to {each.last}" for each in found.unread])
    yield from _listed("header missing or not linked", [str(each) for each in found.headers])
    yield from _listed("logs of another block", [str(each) for each in found.homeless])
    yield from found.cursor
    verdict = "GAPS" if found else "no gap"
    yield f"blocks {blocks.first} to {blocks.last}: {verdict}"


def _listed(words: str, places: list[str]) -> Iterator[str]:
    for place in places[:MOST_LINES]:
        yield f"{words}: {place}"
    if len(places) > MOST_LINES:
        yield f"{words}: and {len(places) - MOST_LINES} more (--json names all)"


def _verified(found: Verified, *, dry_run: bool) -> Mapping[str, object]:
    difference, repaired = found.difference, found.repaired
    return {
        "dry_run": dry_run,
        "from": found.blocks.first,
        "to": found.blocks.last,
        "level": found.reached.name.lower(),
        "endpoints": list(found.endpoints),
        "resumed_at": found.resumed_at,
        "missing": [_row(row) for row in difference.missing],
        "extra": [_row(row) for row in difference.extra],
        "other": [_row(row) for row in difference.other],
        "repaired": None if repaired is None else rebuilt_json(repaired, dry_run=dry_run),
        "left": found.left,
    }


def _row(row: Log | Call) -> Mapping[str, object]:
    index = row.index if isinstance(row, Log) else None
    return {"block": row.block, "log": index, "tx_hash": row.tx_hash}


def _gaps(found: Gaps) -> Mapping[str, object]:
    return {
        "from": found.blocks.first,
        "to": found.blocks.last,
        "levels": {level.name.lower(): found.blocks_at(level) for level in Level},
        "coverage": [
            {
                "from": span.first,
                "to": span.last,
                "level": span.level.name.lower(),
                "endpoint": span.endpoint,
                "audited_by": span.audited_by,
            }
            for span in found.spans
        ],
        "unread": [{"from": each.first, "to": each.last} for each in found.unread],
        "headers": list(found.headers),
        "homeless": list(found.homeless),
        "cursor": list(found.cursor),
    }
