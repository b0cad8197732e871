"""`resync verify` and `resync gaps`: verification of the stored logs and state."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
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
from oracle.cli.resync.resync_session import named, say, told, working
from oracle.daemon.compose import Index, open_reader, read_by_workers
from oracle.daemon.records import open_records
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.logs import Call, Log
from oracle.errors import InputError
from oracle.indexer.audit.gaps import Gaps, gaps as look_for_gaps
from oracle.indexer.audit.reverify import ReverifyRequest, Verified, verify as verify_blocks
from oracle.indexer.audit.state_check import StateComparison, StateRow, compare_state
from oracle.indexer.completeness import damage_lines, damaged_spans
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, rebuild_state
from oracle.queries.resync_models import gaps_answer, state_check_answer, verify_answer
from oracle.store.raw.raw_checksums import DamagedSpan

# Rows and ranges shown in the terminal; `--json` contains all.
MOST_LINES = 20
_NOTHING_INDEXED = "nothing is indexed yet: `qos-oracle run` fetches everything"

_VERIFY = "Example: qos-oracle resync verify --from 19000000 --to 19010000 --level proven"
_GAPS = "Example: qos-oracle resync gaps --json"


class VerifyScope(StrEnum):
    """The scope of `resync verify`: raw rows and chain, state and raw rows, or both."""

    BOTH = "both"
    LOGS = "logs"
    STATE = "state"


class LevelName(StrEnum):
    """Verification levels that `--level` accepts (docs/explanation/verification.md)."""

    CHECKED = "checked"
    SEAMED = "seamed"
    PINNED = "pinned"
    BLOOMED = "bloomed"
    PROVEN = "proven"


def register(resync: typer.Typer) -> None:
    """Register `verify` and `gaps` under `resync`."""
    resync.command(epilog=_VERIFY)(verify)
    resync.command(epilog=_GAPS)(gaps)


def verify(  # noqa: PLR0913 - a command line's options are its parameters
    first: Annotated[
        int | None,
        typer.Option(
            "--from", min=0, metavar="N", help="First block to read again; default: the start."
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--to", min=0, metavar="N", help="Last block to read again; default: the cursor."
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    half: Annotated[
        VerifyScope,
        typer.Option(
            "--half",
            help="What is compared: stored logs with the chain, the state with the logs, or both.",
        ),
    ] = VerifyScope.BOTH,
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
    """Compare stored logs with the chain, and the state with the logs.

    Equal blocks keep the verification level reached. The whole state is compared, whichever blocks
    are read again. Exit code 1 if there are differences that were not all repaired. An interrupted
    run resumes where it stopped. With `--dry-run` or `--half state` nothing is written, and the
    daemon may be running. Workers are used from 2,000 blocks on; the result is the same.
    """
    if first is not None and last is not None and first > last:
        raise InputError(f"--from {first} lies above --to {last}")
    only_reads = not repair and (dry_run or half is VerifyScope.STATE)
    with working(
        config,
        "resync verify",
        dry_run=dry_run,
        offline=half is VerifyScope.STATE,
        only_reads=only_reads,
    ) as (index, manner):
        found = None
        if half is not VerifyScope.STATE:
            blocks = _blocks_asked(index, first, last)
            asked = ReverifyRequest(blocks, Level[level.name], endpoint, repair)
            if workers is not None:
                read_by_workers(index, workers)
            found = verify_blocks(index.chain, index.store, index.folder, asked, manner)
        checked = _check_stored(index, manner, compare=half is not VerifyScope.LOGS)
        if repair and checked.differing:
            checked = replace(checked, rebuilt=rebuild_state(index.store, index.folder, manner))
    if as_json:
        state = (
            None
            if checked.state is None
            else state_check_answer(checked.state, checked.rebuilt, dry_run=dry_run)
        )
        print_answer(verify_answer(found, checked.damaged, state, dry_run=dry_run))
    else:
        for line in [*_lines(found, repair=repair), *_stored_lines(checked)]:
            say(line, dry_run=dry_run)
    if (found is not None and not _is_right(found)) or not checked.is_right:
        raise typer.Exit(1)


def _is_right(found: Verified) -> bool:
    has_other_reports = found.repaired is not None and bool(found.repaired.differing)
    return not found.left and not has_other_reports


@dataclass(frozen=True, slots=True)
class _StoredCheck:
    """The result of the offline checks; `state` is None if the state was not compared.

    `damaged` are spans of raw rows with a wrong checksum.
    """

    damaged: tuple[DamagedSpan, ...]
    state: StateComparison | None
    rebuilt: RebuildResult | None = None

    @property
    def differing(self) -> tuple[StateRow, ...]:
        return () if self.state is None else self.state.differing

    @property
    def is_right(self) -> bool:
        is_repaired = self.rebuilt is not None and not self.rebuilt.differing
        return not self.damaged and (not self.differing or is_repaired)


def _check_stored(index: Index, manner: RebuildOptions, *, compare: bool) -> _StoredCheck:
    with index.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError(_NOTHING_INDEXED)
        damaged = tuple(damaged_spans(uow, cursor.number))
        if damaged or not compare:
            # A fold of rows other than the committed ones proves nothing about the state.
            return _StoredCheck(damaged, None)
        return _StoredCheck(
            (), compare_state(uow, index.reader, index.folder.rules, manner.progress)
        )


def _blocks_asked(index: Index, first: int | None, last: int | None) -> BlockRange:
    with index.store.reading() as uow:
        cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None:
        raise InputError(_NOTHING_INDEXED)
    low = identity.start_block if first is None else first
    return BlockRange(low, cursor.number if last is None else max(low, last))


def gaps(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Find gaps in the index.

    Gaps are blocks never read, broken header links, and lost or changed logs. The chain is not
    queried; the daemon may be running. Exit code 1 if there is a gap.
    """
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        found = look_for_gaps(uow, open_reader(records.config))
    if found is None:
        raise InputError(_NOTHING_INDEXED)
    if as_json:
        print_answer(gaps_answer(found))
    else:
        for line in _gap_lines(found):
            typer.echo(line)
    if found:
        raise typer.Exit(1)


def _stored_lines(checked: _StoredCheck) -> Iterator[str]:
    yield from _listed("DAMAGED", damage_lines(checked.damaged))
    state = checked.state
    if state is None:
        if checked.damaged:
            yield "the state was not compared: put the stored logs right first (--repair)"
        return
    if not state.differing:
        yield f"the state is what {state.logs} logs up to block {state.last} fold to"
        return
    places = [f"{row.table} {row.key} ({row.kind})" for row in state.differing]
    yield from _listed("state", places)
    yield f"the state DIFFERS from a fold of its {state.logs} logs in {len(places)} rows"
    if checked.rebuilt is None:
        yield "`qos-oracle resync rebuild` folds it anew"
    else:
        yield f"folded anew; {told(checked.rebuilt)}"


def _lines(found: Verified | None, *, repair: bool) -> Iterator[str]:
    if found is None:
        return
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
    yield from _listed("damaged", damage_lines(found.damaged))
    yield from found.cursor
    verdict = "GAPS" if found else "no gap"
    yield f"blocks {blocks.first} to {blocks.last}: {verdict}"


def _listed(words: str, places: list[str]) -> Iterator[str]:
    for place in places[:MOST_LINES]:
        yield f"{words}: {place}"
    if len(places) > MOST_LINES:
        yield f"{words}: and {len(places) - MOST_LINES} more (--json names all)"
