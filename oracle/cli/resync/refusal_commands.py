"""`resync refusal`: shows the refused block and its reason, and accepts it for an operator."""

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
    print_answer,
)
from oracle.cli.write_session import open_write_session
from oracle.daemon.records import open_records
from oracle.errors import InputError
from oracle.indexer.block_confirmation import accept_refused_block as accept_block, get_refusal
from oracle.queries.resync_models import RefusalAnswer, RefusedBlock

_ACCEPT_COMMAND = "`qos-oracle resync refusal --accept --reason TEXT`"
_EPILOG = 'Example: qos-oracle resync refusal --accept --reason "the explorer shows the same"'


def register(resync: typer.Typer) -> None:
    """Register `refusal` under `resync`."""
    resync.command(epilog=_EPILOG)(refusal)


def refusal(
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
                block_refusal = accept_block(uow, reason.strip())
    if as_json:
        refused = (
            None
            if block_refusal is None
            else RefusedBlock(block=block_refusal.number, check=block_refusal.check)
        )
        reason_text = None if block_refusal is None else block_refusal.words
        is_accepted = accept and not dry_run
        print_answer(RefusalAnswer(refused=refused, words=reason_text, accepted=is_accepted))
        return
    for line in _render_refusal(block_refusal, is_accepted=accept and not dry_run):
        typer.echo(line)


def _render_refusal(block_refusal: BlockRefusal | None, *, is_accepted: bool) -> list[str]:
    if block_refusal is None:
        return ["no block is refused"]
    if is_accepted:
        return [
            f"accepted, unproven: {block_refusal.words}",
            "`run` ingests the block as returned",
        ]
    if block_refusal.check == BLOCK_HASH_CHECK:
        return [
            f"refused: {block_refusal.words}",
            "remedy: remove the wrong endpoint from [chain] endpoints, or add a third one",
        ]
    if block_refusal.check == CALIBRATION_CHECK:
        return [
            f"waiting: {block_refusal.words}",
            "remedy: wait for that provider, or remove its endpoints from [chain] endpoints",
            "or, if the chain's headers prove nothing: lower the requirements in [verify]",
        ]
    return [
        f"refused: {block_refusal.words}",
        "remedy: add an endpoint that proves the block",
        f"or, if an explorer shows the block as this endpoint does: {_ACCEPT_COMMAND}",
        "or, if receipts no longer match their root on this chain: [verify] receipts = false",
    ]
