"""Implements `resync`, which rewinds, rebuilds or backfills the index in one transaction.

An interrupted command changes nothing. No command changes nonces, signed transactions or landed
reports. `resync refusal` shows and accepts a refused block, and `resync dead-letters` lists and
retries logs that could not be decoded.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from oracle.chain.verification.refused_blocks import (
    BLOCK_HASH_CHECK,
    CALIBRATION_CHECK,
    BlockRefusal,
)
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.resync import resync_checks
from oracle.cli.resync.resync_session import (
    describe_rebuild,
    format_row_position,
    open_resync_session,
    print_line,
    render_limited_lines,
)
from oracle.cli.write_session import open_write_session
from oracle.daemon.records import open_records
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import DeadLetter
from oracle.errors import InputError
from oracle.indexer.backfill import backfill_block_range
from oracle.indexer.block_confirmation import accept_refused_block, get_refusal
from oracle.indexer.rebuild import (
    list_open_dead_letters,
    rebuild_state,
    retry_dead_letters,
)
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.queries.resync_models import (
    BackfillAnswer,
    RefusalAnswer,
    RefusedBlock,
    RewindAnswer,
    build_backfill_answer,
    build_dead_letter_entry,
    build_rebuild_answer,
    build_retry_answer,
    build_rewind_answer,
)
from oracle.queries.text.text_tables import print_table, sanitize_text

_ACCEPT_COMMAND = "`qos-oracle resync refusal --accept --reason TEXT`"
_REFUSAL_EPILOG = (
    'Example: qos-oracle resync refusal --accept --reason "the explorer shows the same"'
)
_MAX_ERROR_LENGTH = 60
_LETTER_COLUMNS = ("block", "tx", "log", "name", "error")

resync = typer.Typer(no_args_is_help=True)
deadletter = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register `resync` and its subcommands on the command line."""
    resync_checks.register(resync)
    resync.command("refusal", epilog=_REFUSAL_EPILOG)(show_or_accept_refusal)
    resync.add_typer(
        deadletter,
        name="dead-letters",
        help="List and retry logs and calls that could not be decoded.",
    )
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

    The command uses the undo journal, and rebuilds the state if the journal does not reach back to
    the block. Raw data above the block is kept and marked as not canonical, and the daemon fetches
    these blocks again. Reports above the block that are not on chain are marked as missed.

    Example: qos-oracle resync rewind --to-block 19000000 --dry-run
    """
    with open_resync_session(config, "resync rewind", dry_run=dry_run) as (index, rebuild_options):
        result = rewind_to_block(index.chain, index.store, index.folder, to_block, rebuild_options)
    answer = build_rewind_answer(result, dry_run=dry_run)
    if as_json:
        print_model(answer)
        return
    summary = (
        f"rewound from block {answer.from_block} to {answer.block}, "
        f"{_describe_rewind_method(answer)}; {answer.logs} logs marked as not canonical, "
        f"{answer.reports_missed} reports as missed"
    )
    print_line(summary, dry_run=dry_run)


@resync.command()
def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the state from all stored logs, and compare it with the stored state.

    No endpoint is contacted. Exit code 1 if the state or a report differs from the stored one. The
    new state is kept; reports are never changed.

    Example: qos-oracle resync rebuild --json
    """
    with open_resync_session(config, "resync rebuild", dry_run=dry_run, offline=True) as (
        index,
        rebuild_options,
    ):
        rebuild_result = rebuild_state(index.store, index.folder, rebuild_options)
    answer = build_rebuild_answer(rebuild_result, dry_run=dry_run)
    if as_json:
        print_model(answer)
    else:
        print_line(describe_rebuild(answer), dry_run=dry_run)
    if answer.differing_periods or not answer.same_state:
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

    If any log was missing, the state is rebuilt. Stored rows that the endpoints no longer return,
    or return with different content, are counted and kept. Exit code 1 if there is such different
    content, or if recomputing a stored report gives a different result.

    Example: qos-oracle resync backfill --from 19000000 --to 19010000 --dry-run
    """
    if first_block > last_block:
        raise InputError(f"--from {first_block}: above --to {last_block}")
    with open_resync_session(config, "resync backfill", dry_run=dry_run) as (
        index,
        rebuild_options,
    ):
        blocks = BlockRange(first_block, last_block)
        backfill_result = backfill_block_range(
            index.chain, index.store, index.folder, blocks, rebuild_options
        )
    answer = build_backfill_answer(backfill_result, dry_run=dry_run)
    if as_json:
        print_model(answer)
    else:
        for line in _render_backfill(answer):
            print_line(line, dry_run=dry_run)
    if answer.differing or (answer.rebuilt is not None and answer.rebuilt.differing_periods):
        raise typer.Exit(1)


def _render_backfill(answer: BackfillAnswer) -> Iterator[str]:
    missing_rows = [*answer.missing_logs, *answer.missing_calls]
    yield from render_limited_lines("missing", [format_row_position(row) for row in missing_rows])
    if answer.unserved:
        yield f"{answer.unserved} stored rows were not returned now; they are kept"
    if answer.differing:
        differing_text = (
            f"{answer.differing} rows were returned with DIFFERENT content; the stored rows "
            "are kept"
        )
        yield f"{differing_text}; `qos-oracle resync verify --repair` checks which are right"
    block_text = f"blocks {answer.first} to {answer.last}"
    if answer.rebuilt is None:
        yield f"{block_text}: {answer.served} logs returned, none was missing"
        return
    yield (
        f"{block_text}: {answer.served} logs returned, {len(missing_rows)} added; "
        f"{describe_rebuild(answer.rebuilt)}"
    )


def _describe_rewind_method(answer: RewindAnswer) -> str:
    """Describe how the state was rewound."""
    if answer.by == "journal":
        return "by journal"
    snapshot_note = (
        ""
        if answer.snapshot_block is None
        else f" from the snapshot of block {answer.snapshot_block}"
    )
    return f"by a rebuild{snapshot_note}, because the undo journal ends above the block"


def show_or_accept_refusal(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help=(
                "Accept the block as returned by its endpoint, without proof; requires --reason."
            ),
        ),
    ] = False,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Reason for accepting the block, recorded in the journal.",
        ),
    ] = "",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the refused block and the remedies, or accept the block.

    A block is refused if its receipts, bloom, transactions or hash contradict its header and no
    endpoint proves it, however many endpoints return the same data, or if two providers return
    different blocks. `run` reads the block again on every tick. The refusal ends when an endpoint
    proves the block, or when two providers return the same block.
    """
    if accept and not reason.strip():
        raise InputError("--reason: required with --accept")
    with open_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            block_refusal = get_refusal(uow)
        if accept and not dry_run:
            with open_write_session(records.store, "resync refusal", dry_run=False) as (uow, _):
                block_refusal = accept_refused_block(uow, reason.strip())
    if as_json:
        refused_block = (
            None
            if block_refusal is None
            else RefusedBlock(block=block_refusal.number, check=block_refusal.check)
        )
        refusal_text = None if block_refusal is None else block_refusal.reason
        is_accepted = accept and not dry_run
        print_model(
            RefusalAnswer(refused=refused_block, reason=refusal_text, accepted=is_accepted)
        )
        return
    for line in _render_refusal(block_refusal, is_accepted=accept and not dry_run):
        typer.echo(line)


def _render_refusal(block_refusal: BlockRefusal | None, *, is_accepted: bool) -> list[str]:
    if block_refusal is None:
        return ["no block is refused"]
    if is_accepted:
        return [
            f"accepted, unproven: {block_refusal.reason}",
            "`run` ingests the block as returned",
        ]
    if block_refusal.check == BLOCK_HASH_CHECK:
        return [
            f"refused: {block_refusal.reason}",
            "remedy: remove the wrong endpoint from [chain] endpoints, or add a third one",
        ]
    if block_refusal.check == CALIBRATION_CHECK:
        return [
            f"waiting: {block_refusal.reason}",
            "remedy: wait for that provider, or remove its endpoints from [chain] endpoints",
            "or, if the chain's headers prove nothing: lower the requirements in [verify]",
        ]
    return [
        f"refused: {block_refusal.reason}",
        "remedy: add an endpoint that proves the block",
        f"or, if an explorer shows the block as this endpoint does: {_ACCEPT_COMMAND}",
        "or, if receipts no longer match their root on this chain: [verify] receipts = false",
    ]


@deadletter.command("list", epilog="Example: qos-oracle resync dead-letters list --json")
def list_dead_letters(
    config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """List undecodable logs and calls, also while the daemon is running."""
    with open_records(load_config(config)) as records:
        dead_letters = list_open_dead_letters(records.store)
    if as_json:
        print_model([build_dead_letter_entry(letter) for letter in dead_letters])
    elif dead_letters:
        print_table(
            _LETTER_COLUMNS,
            [_format_dead_letter(dead_letter) for dead_letter in dead_letters],
            left_columns=("name", "error"),
        )
    else:
        typer.echo("no dead letters")


@deadletter.command(epilog="Example: qos-oracle resync dead-letters retry --dry-run")
def retry(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decode dead letters again, and rebuild the state if any can be decoded.

    No endpoint is contacted. The rebuilt state is the same as if the logs had been decoded from
    the start. Exit code 1 if a log still cannot be decoded, or if recomputing a stored report
    gives a different result.
    """
    command = "resync dead-letters retry"
    with open_resync_session(config, command, dry_run=dry_run, offline=True) as (
        index,
        rebuild_options,
    ):
        retry_result = retry_dead_letters(index.store, index.folder, rebuild_options)
    answer = build_retry_answer(retry_result, dry_run=dry_run)
    rebuilt = answer.rebuilt
    if as_json:
        print_model(answer)
    else:
        retry_text = f"{len(answer.readable)} decoded, {len(answer.left)} not"
        print_line(
            retry_text if rebuilt is None else f"{retry_text}; {describe_rebuild(rebuilt)}",
            dry_run=dry_run,
        )
    if answer.left or (rebuilt is not None and rebuilt.differing_periods):
        raise typer.Exit(1)


def _format_dead_letter(letter: DeadLetter) -> Sequence[str]:
    return (
        str(letter.block),
        str(letter.tx),
        "call" if letter.index < 0 else str(letter.index),
        sanitize_text(letter.name),
        sanitize_text(letter.error, _MAX_ERROR_LENGTH),
    )
