"""Implements `resync verify` and `resync gaps`, which check the stored logs and the state."""

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
    print_model,
)
from oracle.cli.resync.resync_session import (
    describe_rebuild,
    format_row_position,
    open_resync_session,
    print_line,
    render_limited_lines,
)
from oracle.daemon.compose import Index, set_segment_worker_count
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.domain.blocks import BlockRange, format_block_count
from oracle.domain.coverage import VerificationLevel
from oracle.errors import InputError
from oracle.indexer.audit.gaps import Gaps, find_index_gaps
from oracle.indexer.audit.reverify import (
    VerifyResult,
    reverify_blocks,
)
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.audit.state_check import StateComparison, StateRow, compare_state_with_refold
from oracle.indexer.rebuild import (
    RebuildOptions,
    RebuildResult,
    describe_damaged_spans,
    find_damaged_spans,
    rebuild_state,
)
from oracle.queries.resync_models import (
    build_gaps_answer,
    build_state_check_answer,
    build_verify_answer,
)
from oracle.store.raw.raw_checksums import DamagedSpan

_NOTHING_INDEXED = "the database is empty; `qos-oracle run` indexes the chain"

_VERIFY_EPILOG = "Example: qos-oracle resync verify --from 19000000 --to 19010000 --level proven"
_GAPS_EPILOG = "Example: qos-oracle resync gaps --json"


class VerifyScope(StrEnum):
    """The checks of `resync verify`: logs against the chain, the state against logs, or both."""

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
    resync.command(epilog=_VERIFY_EPILOG)(verify)
    resync.command("gaps", epilog=_GAPS_EPILOG)(list_gaps)


def verify(  # noqa: PLR0913 - a command line's options are its parameters
    first_block: Annotated[
        int | None,
        typer.Option(
            "--from", min=0, metavar="N", help="First block to verify. Default: the start block."
        ),
    ] = None,
    last_block: Annotated[
        int | None,
        typer.Option(
            "--to", min=0, metavar="N", help="Last block to verify. Default: the cursor."
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    scope: Annotated[
        VerifyScope,
        typer.Option(
            "--half",
            help=(
                "Scope: logs (stored logs against the chain), state (state against the logs) "
                "or both."
            ),
        ),
    ] = VerifyScope.BOTH,
    level: Annotated[
        LevelName,
        typer.Option("--level", help="Verification level required of each block."),
    ] = LevelName.PROVEN,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            metavar="NAME",
            help="Name of the endpoint to read from. Default: all healthy endpoints.",
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair differing rows and rebuild the state.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help=(
                "Number of worker processes (or Dask workers, see [history]) that read blocks. "
                "Default: this process only."
            ),
        ),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare stored logs with the chain, and the state with the logs.

    Blocks without differences get the verification level that was reached. The whole state is
    compared, even if only some blocks are read again. Exit code 1 if there are differences that
    were not all repaired. An interrupted run resumes where it stopped. With `--dry-run` or `--half
    state` nothing is written, and the daemon may be running. Workers are used only for 2,000
    blocks or more, and give the same result.
    """
    if first_block is not None and last_block is not None and first_block > last_block:
        raise InputError(f"--from {first_block}: above --to {last_block}")
    read_only = not repair and (dry_run or scope is VerifyScope.STATE)
    with open_resync_session(
        config,
        "resync verify",
        dry_run=dry_run,
        offline=scope is VerifyScope.STATE,
        read_only=read_only,
    ) as (index, rebuild_options):
        comparison = None
        if scope is not VerifyScope.STATE:
            blocks = _resolve_block_range(index, first_block, last_block)
            if workers is not None:
                set_segment_worker_count(index, workers)
            comparison = reverify_blocks(
                RepairContext(index.chain, index.store, index.folder, rebuild_options),
                blocks,
                VerificationLevel[level.name],
                endpoint,
                repair=repair,
            )
        stored_check = _check_stored_data(
            index, rebuild_options, compare=scope is not VerifyScope.LOGS
        )
        if repair and stored_check.differing_rows:
            stored_check = replace(
                stored_check, rebuilt=rebuild_state(index.store, index.folder, rebuild_options)
            )
    if as_json:
        state_answer = (
            None
            if stored_check.state is None
            else build_state_check_answer(
                stored_check.state, stored_check.rebuilt, dry_run=dry_run
            )
        )
        print_model(
            build_verify_answer(comparison, stored_check.damaged, state_answer, dry_run=dry_run)
        )
    else:
        for line in [
            *_render_comparison(comparison, repair=repair),
            *_render_stored_check(stored_check),
        ]:
            print_line(line, dry_run=dry_run)
    if (
        comparison is not None and not _is_comparison_consistent(comparison)
    ) or not stored_check.is_consistent:
        raise typer.Exit(1)


def _is_comparison_consistent(comparison: VerifyResult) -> bool:
    has_other_reports = comparison.repaired is not None and bool(comparison.repaired.differing)
    return not comparison.unrepaired_count and not has_other_reports


@dataclass(frozen=True, slots=True)
class _StoredCheck:
    """The result of the checks that need no chain; `state` is None if it was not compared.

    `damaged` are spans of raw rows with a wrong checksum.
    """

    damaged: tuple[DamagedSpan, ...]
    state: StateComparison | None
    rebuilt: RebuildResult | None = None

    @property
    def differing_rows(self) -> tuple[StateRow, ...]:
        return () if self.state is None else self.state.differing

    @property
    def is_consistent(self) -> bool:
        is_repaired = self.rebuilt is not None and not self.rebuilt.differing
        return not self.damaged and (not self.differing_rows or is_repaired)


def _check_stored_data(
    index: Index, rebuild_options: RebuildOptions, *, compare: bool
) -> _StoredCheck:
    with index.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError(_NOTHING_INDEXED)
        damaged = tuple(find_damaged_spans(uow, cursor.number))
        if damaged or not compare:
            # The state is not compared, because folding damaged rows cannot prove anything about
            # it.
            return _StoredCheck(damaged, None)
        return _StoredCheck(
            (),
            compare_state_with_refold(
                uow, index.reader, index.folder.rules, rebuild_options.progress
            ),
        )


def _resolve_block_range(
    index: Index, first_block: int | None, last_block: int | None
) -> BlockRange:
    with index.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        identity = uow.identity.get()
    if cursor is None or identity is None:
        raise InputError(_NOTHING_INDEXED)
    low_block = identity.start_block if first_block is None else first_block
    return BlockRange(
        low_block, cursor.number if last_block is None else max(low_block, last_block)
    )


def list_gaps(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Find gaps in the index.

    Gaps are blocks never read, broken header links, and lost or changed logs. The chain is not
    queried; the daemon may be running. Exit code 1 if there is a gap.
    """
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        gap_report = find_index_gaps(uow, open_reader(records.config))
    if gap_report is None:
        raise InputError(_NOTHING_INDEXED)
    if as_json:
        print_model(build_gaps_answer(gap_report))
    else:
        for line in _render_coverage_gaps(gap_report):
            typer.echo(line)
    if gap_report:
        raise typer.Exit(1)


def _render_stored_check(stored_check: _StoredCheck) -> Iterator[str]:
    yield from render_limited_lines("DAMAGED", describe_damaged_spans(stored_check.damaged))
    state = stored_check.state
    if state is None:
        if stored_check.damaged:
            yield "the state was not compared; repair the stored logs first (--repair)"
        return
    if not state.differing:
        yield f"the state matches a fold of {state.log_count} logs up to block {state.last_block}"
        return
    row_texts = [f"{row.table} {row.key} ({row.kind})" for row in state.differing]
    yield from render_limited_lines("state", row_texts)
    yield f"the state DIFFERS from a fold of its {state.log_count} logs in {len(row_texts)} rows"
    if stored_check.rebuilt is None:
        yield "run `qos-oracle resync rebuild` to rebuild it"
    else:
        yield f"rebuilt; {describe_rebuild(stored_check.rebuilt)}"


def _render_comparison(comparison: VerifyResult | None, *, repair: bool) -> Iterator[str]:
    if comparison is None:
        return
    difference = comparison.difference
    row_groups = [
        ("only on the chain", difference.missing_rows),
        ("only in the database", difference.extra_rows),
        ("different content", difference.changed_rows),
    ]
    for label, rows in row_groups:
        yield from render_limited_lines(label, [format_row_position(row) for row in rows])
    endpoint_names = ", ".join(comparison.endpoints) or "no endpoint"
    resume_note = (
        "" if comparison.resumed_at is None else f"; resumed at block {comparison.resumed_at}"
    )
    block_text = f"blocks {comparison.blocks.first} to {comparison.blocks.last}"
    if not difference:
        yield (
            f"{block_text}: the same, {comparison.reached_level.name.lower()} by "
            f"{endpoint_names}{resume_note}"
        )
        return
    count_text = ", ".join(f"{len(rows)} {label}" for label, rows in row_groups)
    yield f"{block_text}: DIFFERENT at {endpoint_names}: {count_text}{resume_note}"
    if comparison.repaired is not None:
        yield f"repaired; {describe_rebuild(comparison.repaired)}"
    if repair and comparison.unrepaired_count:
        yield (
            f"NOT repaired: {comparison.unrepaired_count} rows, because receipts prove neither "
            "side wrong"
        )


def _render_coverage_gaps(gap_report: Gaps) -> Iterator[str]:
    blocks = gap_report.blocks
    for level in VerificationLevel:
        count = gap_report.count_blocks_at_level(level)
        if count:
            yield f"{level.name.lower()}: {format_block_count(count)}"
    audited = sum(len(span.blocks) for span in gap_report.spans if span.audited_by is not None)
    yield f"audited with a second endpoint: {format_block_count(audited)}"
    yield from render_limited_lines(
        "not read",
        [f"{block_range.first} to {block_range.last}" for block_range in gap_report.unread],
    )
    yield from render_limited_lines(
        "header missing or not linked", [str(header) for header in gap_report.broken_headers]
    )
    yield from render_limited_lines(
        "logs of non-canonical blocks",
        [str(orphaned_log) for orphaned_log in gap_report.conflicting_blocks],
    )
    yield from render_limited_lines("damaged", describe_damaged_spans(gap_report.damaged))
    yield from gap_report.cursor_mismatches
    verdict_text = "GAPS" if gap_report else "no gap"
    yield f"blocks {blocks.first} to {blocks.last}: {verdict_text}"
