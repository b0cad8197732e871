"""`resync`: rewind, rebuild or backfill; each command is one transaction and may be interrupted.

No command changes nonces, signed transactions or landed reports.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, DryRunOption, JsonOption, print_answer
from oracle.cli.resync import deadletter_commands, refusal_commands, resync_checks
from oracle.cli.resync.resync_session import named, say, told, working
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Call, Log
from oracle.errors import InputError
from oracle.indexer.backfill import BackfillResult, backfill as backfill_blocks
from oracle.indexer.rebuild import rebuild_state as rebuild_rows
from oracle.indexer.reorgs.reorg import Rewound, rewind_to
from oracle.queries.resync_models import backfill_answer, rebuild_answer, rewind_answer

# Missing rows shown in the terminal; `--json` contains all.
MOST_LINES = 20

resync = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register `resync` and its subcommands on the command line."""
    resync_checks.register(resync)
    refusal_commands.register(resync)
    deadletter_commands.register(resync)
    app.add_typer(
        resync, name="resync", help="Go back, fold anew, fetch blocks again, or look for gaps."
    )


@resync.command()
def rewind(
    to_block: Annotated[
        int, typer.Option("--to-block", min=0, metavar="N", help="The block to go back to.")
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
    with working(config, "resync rewind", dry_run=dry_run) as (index, manner):
        min_scores = index.config.oracle.min_scores
        rewound = rewind_to(index.chain, index.store, index.folder, to_block, manner, min_scores)
    if as_json:
        print_answer(rewind_answer(rewound, dry_run=dry_run))
        return
    line = (
        f"back from block {rewound.abandoned} to {rewound.ancestor.number}, {_way(rewound)}; "
        f"{rewound.logs} logs set aside, {rewound.reports} reports missed"
    )
    say(line, dry_run=dry_run)


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
    with working(config, "resync rebuild", dry_run=dry_run, offline=True) as (index, manner):
        rebuilt = rebuild_rows(index.store, index.folder, manner)
    if as_json:
        print_answer(rebuild_answer(rebuilt, dry_run=dry_run))
    else:
        say(told(rebuilt), dry_run=dry_run)
    if rebuilt.differing or not rebuilt.same:
        raise typer.Exit(1)


@resync.command()
def backfill(
    first: Annotated[int, typer.Option("--from", min=0, metavar="N", help="The first block.")],
    last: Annotated[int, typer.Option("--to", min=0, metavar="N", help="The last block.")],
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
    if first > last:
        raise InputError(f"--from {first} lies above --to {last}")
    with working(config, "resync backfill", dry_run=dry_run) as (index, manner):
        blocks = BlockRange(first, last)
        found = backfill_blocks(index.chain, index.store, index.folder, blocks, manner)
    if as_json:
        print_answer(backfill_answer(found, dry_run=dry_run))
    else:
        for line in _lines(found):
            say(line, dry_run=dry_run)
    if found.differing or (found.rebuilt is not None and found.rebuilt.differing):
        raise typer.Exit(1)


def _lines(found: BackfillResult) -> Iterator[str]:
    missing: list[Log | Call] = [*found.missing_logs, *found.missing_calls]
    for row in missing[:MOST_LINES]:
        yield f"missing: {named(row)}"
    if len(missing) > MOST_LINES:
        yield f"missing: and {len(missing) - MOST_LINES} more (--json names all)"
    if found.unserved:
        yield f"{found.unserved} rows of ours were not served now; they stay"
    if found.differing:
        other = f"{found.differing} rows were served in OTHER WORDS than ours, which stay"
        yield f"{other}: `qos-oracle resync verify --repair` finds out who is right"
    blocks = f"blocks {found.blocks.first} to {found.blocks.last}"
    if found.rebuilt is None:
        yield f"{blocks}: {found.served} logs served, none was missing"
        return
    yield f"{blocks}: {found.served} logs served, put in {len(missing)}; {told(found.rebuilt)}"


def _way(rewound: Rewound) -> str:
    """Return how the state was rewound, as readable text."""
    if not rewound.by_rebuild:
        return "by journal"
    start = "" if rewound.snapshot is None else f" from the snapshot of block {rewound.snapshot}"
    return f"by folding anew{start}: the undo journal ends above it"
