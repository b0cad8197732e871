"""`resync`: rewinds, rebuilds or backfills the index, in one transaction that may be interrupted.

No command changes nonces, signed transactions or landed reports.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, DryRunOption, JsonOption, print_answer
from oracle.cli.resync import deadletter_commands, refusal_commands, resync_checks
from oracle.cli.resync.resync_session import (
    describe_rebuild,
    format_row_position,
    open_resync_session,
    print_line,
)
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Call, Log
from oracle.errors import InputError
from oracle.indexer.backfill import BackfillResult, backfill_range as backfill_blocks
from oracle.indexer.rebuild import rebuild_state as rebuild_rows
from oracle.indexer.reorgs.reorg import RewindResult, rewind_to_block
from oracle.queries.resync_models import (
    build_backfill_answer,
    build_rebuild_answer,
    build_rewind_answer,
)

# Missing rows shown in the terminal; `--json` contains all.
MAX_LINES = 20

resync = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register `resync` and its subcommands on the command line."""
    resync_checks.register(resync)
    refusal_commands.register(resync)
    deadletter_commands.register(resync)
    app.add_typer(resync, name="resync", help="Rewind, rebuild, backfill and verify the index.")


@resync.command()
def rewind(
    to_block: Annotated[
        int, typer.Option("--to-block", min=0, metavar="N", help="Block to rewind to.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rewind the state to a block.

    The undo journal is used; where it ends, the state is rebuilt. Raw data above the block is kept
    and marked as not canonical; the daemon fetches the blocks again. Reports above the block that
    have not landed are marked as missed.

    Example: qos-oracle resync rewind --to-block 19000000 --dry-run
    """
    with open_resync_session(config, "resync rewind", dry_run=dry_run) as (index, rebuild_options):
        min_scores = index.config.oracle.min_scores
        result = rewind_to_block(
            index.chain, index.store, index.folder, to_block, rebuild_options, min_scores
        )
    if as_json:
        print_answer(build_rewind_answer(result, dry_run=dry_run))
        return
    summary = (
        f"rewound from block {result.abandoned_number} to {result.ancestor.number}, "
        f"{_describe_rewind_method(result)}; {result.log_count} logs marked as not canonical, "
        f"{result.report_count} reports as missed"
    )
    print_line(summary, dry_run=dry_run)


@resync.command()
def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the state from all stored logs and compare the two.

    No endpoint is contacted. Exit code 1 if the state or a report comes out differently. The new
    state is kept; reports are never changed.

    Example: qos-oracle resync rebuild --json
    """
    with open_resync_session(config, "resync rebuild", dry_run=dry_run, offline=True) as (
        index,
        rebuild_options,
    ):
        rebuild_result = rebuild_rows(index.store, index.folder, rebuild_options)
    if as_json:
        print_answer(build_rebuild_answer(rebuild_result, dry_run=dry_run))
    else:
        print_line(describe_rebuild(rebuild_result), dry_run=dry_run)
    if rebuild_result.differing or not rebuild_result.is_same:
        raise typer.Exit(1)


@resync.command()
def backfill(
    first_block: Annotated[
        int, typer.Option("--from", min=0, metavar="N", help="First block to fetch.")
    ],
    last_block: Annotated[
        int, typer.Option("--to", min=0, metavar="N", help="Last block to fetch.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch blocks again and insert missing logs.

    If any log was missing, the state is rebuilt. Stored rows that the chain does not return now,
    or returns with different content, are counted and kept. Exit code 1 if there is such different
    content, or a stored report comes out differently.

    Example: qos-oracle resync backfill --from 19000000 --to 19010000 --dry-run
    """
    if first_block > last_block:
        raise InputError(f"--from {first_block}: above --to {last_block}")
    with open_resync_session(config, "resync backfill", dry_run=dry_run) as (
        index,
        rebuild_options,
    ):
        blocks = BlockRange(first_block, last_block)
        backfill_result = backfill_blocks(
            index.chain, index.store, index.folder, blocks, rebuild_options
        )
    if as_json:
        print_answer(build_backfill_answer(backfill_result, dry_run=dry_run))
    else:
        for line in _render_backfill(backfill_result):
            print_line(line, dry_run=dry_run)
    if backfill_result.differing_count or (
        backfill_result.rebuilt is not None and backfill_result.rebuilt.differing
    ):
        raise typer.Exit(1)


def _render_backfill(result: BackfillResult) -> Iterator[str]:
    missing: list[Log | Call] = [*result.missing_logs, *result.missing_calls]
    for row in missing[:MAX_LINES]:
        yield f"missing: {format_row_position(row)}"
    if len(missing) > MAX_LINES:
        yield f"missing: and {len(missing) - MAX_LINES} more (--json lists all)"
    if result.unserved_count:
        yield f"{result.unserved_count} stored rows were not returned now; they are kept"
    if result.differing_count:
        differing_text = (
            f"{result.differing_count} rows were returned with DIFFERENT content; the stored rows "
            "are kept"
        )
        yield f"{differing_text}; `qos-oracle resync verify --repair` checks which are right"
    block_text = f"blocks {result.blocks.first} to {result.blocks.last}"
    if result.rebuilt is None:
        yield f"{block_text}: {result.served_count} logs returned, none was missing"
        return
    yield (
        f"{block_text}: {result.served_count} logs returned, {len(missing)} added; "
        f"{describe_rebuild(result.rebuilt)}"
    )


def _describe_rewind_method(rewind_result: RewindResult) -> str:
    """Return how the state was rewound, as readable text."""
    if not rewind_result.by_rebuild:
        return "by journal"
    snapshot_note = (
        ""
        if rewind_result.snapshot is None
        else f" from the snapshot of block {rewind_result.snapshot}"
    )
    return f"by a rebuild{snapshot_note}, because the undo journal ends above the block"
