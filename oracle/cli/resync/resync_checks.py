"""Implements `resync verify` and `resync gaps`, which check the stored logs and the state."""

from collections.abc import Iterator, Sequence
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
from oracle.indexer.audit.reverify import (
    reverify_blocks,
)
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import (
    RebuildOptions,
    describe_damaged_rows,
    find_damaged_spans,
    rebuild_state,
)
from oracle.queries.index_checks import compare_state_with_refold, find_index_gaps
from oracle.queries.resync_models import (
    DamagedBlocks,
    GapsAnswer,
    StateCheckAnswer,
    VerifyAnswer,
    build_rebuild_answer,
    build_verify_answer,
)
from oracle.store.raw.raw_checksums import DamagedSpan

_NOTHING_INDEXED = "the database is empty; `qos-oracle run` indexes the chain"

_VERIFY_EPILOG = "Example: qos-oracle resync verify --from 19000000 --to 19010000 --level proven"
_GAPS_EPILOG = "Example: qos-oracle resync gaps --json"


class VerifyScope(StrEnum):
    """What `resync verify` checks: logs against the chain, state against logs, or both."""

    BOTH = "both"
    LOGS = "logs"
    STATE = "state"


class LevelName(StrEnum):
    """The verification levels that `--level` accepts (docs/explanation/verification.md)."""

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
        damaged_spans, state = _check_stored_data(
            index, rebuild_options, compare=scope is not VerifyScope.LOGS
        )
        if repair and state is not None and state.differing:
            result = rebuild_state(index.store, index.folder, rebuild_options)
            rebuild_answer = build_rebuild_answer(result, dry_run=dry_run)
            state = state.model_copy(update={"rebuilt": rebuild_answer})
    answer = build_verify_answer(comparison, damaged_spans, state, dry_run=dry_run)
    if as_json:
        print_model(answer)
    else:
        for line in [*_render_comparison(answer, repair=repair), *_render_stored_check(answer)]:
            print_line(line, dry_run=dry_run)
    if _has_unrepaired_differences(answer):
        raise typer.Exit(1)


def _has_unrepaired_differences(answer: VerifyAnswer) -> bool:
    """Return whether differences remain, or a repair changed a report."""
    has_other_reports = answer.repaired is not None and bool(answer.repaired.differing_periods)
    if answer.damaged or answer.left or has_other_reports:
        return True
    state = answer.state
    if state is None or not state.differing:
        return False
    return state.rebuilt is None or bool(state.rebuilt.differing_periods)


def _check_stored_data(
    index: Index, rebuild_options: RebuildOptions, *, compare: bool
) -> tuple[list[DamagedSpan], StateCheckAnswer | None]:
    """Find raw rows with wrong checksums, and compare the state with the logs.

    The state is not compared if rows are damaged, because folding them cannot prove anything.
    """
    with index.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError(_NOTHING_INDEXED)
        damaged_spans = find_damaged_spans(uow, cursor.number)
        if damaged_spans or not compare:
            return damaged_spans, None
        return [], compare_state_with_refold(
            uow, index.reader, index.folder.rules, rebuild_options.progress
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
        print_model(gap_report)
    else:
        for line in _render_coverage_gaps(gap_report):
            typer.echo(line)
    if gap_report.has_gaps:
        raise typer.Exit(1)


def _render_stored_check(answer: VerifyAnswer) -> Iterator[str]:
    yield from _render_damaged_blocks("DAMAGED", answer.damaged)
    state = answer.state
    if state is None:
        if answer.damaged:
            yield "the state was not compared; repair the stored logs first (--repair)"
        return
    if not state.differing:
        yield f"the state matches a fold of {state.logs} logs up to block {state.block}"
        return
    row_texts = [f"{row.table} {row.key} ({row.kind})" for row in state.differing]
    yield from render_limited_lines("state", row_texts)
    yield f"the state DIFFERS from a fold of its {state.logs} logs in {len(row_texts)} rows"
    if state.rebuilt is None:
        yield "run `qos-oracle resync rebuild` to rebuild it"
    else:
        yield f"rebuilt; {describe_rebuild(state.rebuilt)}"


def _render_damaged_blocks(label: str, damaged_blocks: Sequence[DamagedBlocks]) -> Iterator[str]:
    yield from render_limited_lines(
        label,
        [
            describe_damaged_rows(span.kind, span.first, span.last, span.missing)
            for span in damaged_blocks
        ],
    )


def _render_comparison(answer: VerifyAnswer, *, repair: bool) -> Iterator[str]:
    if answer.first is None:
        return
    row_groups = [
        ("only on the chain", answer.missing),
        ("only in the database", answer.extra),
        ("different content", answer.other),
    ]
    for label, rows in row_groups:
        yield from render_limited_lines(label, [format_row_position(row) for row in rows])
    endpoint_names = ", ".join(answer.endpoints) or "no endpoint"
    resume_note = "" if answer.resumed_at is None else f"; resumed at block {answer.resumed_at}"
    block_text = f"blocks {answer.first} to {answer.last}"
    if not any(rows for _, rows in row_groups):
        yield f"{block_text}: the same, {answer.level} by {endpoint_names}{resume_note}"
        return
    count_text = ", ".join(f"{len(rows)} {label}" for label, rows in row_groups)
    yield f"{block_text}: DIFFERENT at {endpoint_names}: {count_text}{resume_note}"
    if answer.repaired is not None:
        yield f"repaired; {describe_rebuild(answer.repaired)}"
    if repair and answer.left:
        yield f"NOT repaired: {answer.left} rows, because receipts prove neither side wrong"


def _render_coverage_gaps(gap_report: GapsAnswer) -> Iterator[str]:
    for level, count in gap_report.levels.items():
        if count:
            yield f"{level}: {format_block_count(count)}"
    audited_count = sum(
        span.last - span.first + 1 for span in gap_report.coverage if span.audited_by is not None
    )
    yield f"audited with a second endpoint: {format_block_count(audited_count)}"
    yield from render_limited_lines(
        "not read",
        [f"{block_range.first} to {block_range.last}" for block_range in gap_report.unread],
    )
    yield from render_limited_lines(
        "header missing or not linked", [str(block) for block in gap_report.headers]
    )
    yield from render_limited_lines(
        "logs of non-canonical blocks", [str(block) for block in gap_report.mismatched_logs]
    )
    yield from _render_damaged_blocks("damaged", gap_report.damaged)
    yield from gap_report.cursor
    verdict_text = "GAPS" if gap_report.has_gaps else "no gap"
    yield f"blocks {gap_report.first} to {gap_report.last}: {verdict_text}"
