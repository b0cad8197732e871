"""Implements `outbox rebuild`, which restores the nonces of a lost or outdated database."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    confirm_action,
    load_config,
    print_model,
)
from oracle.cli.write_session import get_actor, hold_command_lease, warn_if_leased
from oracle.daemon.compose import (
    Index,
    check_database_identity,
    get_checked_chain,
    open_index,
    store_or_check_database_identity,
)
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.records import open_records
from oracle.daemon.senders import open_dispatch_context, open_reporter, open_reporter_contexts
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.command_models import RebuiltAccount, RebuiltNonce
from oracle.queries.text.text_tables import format_utc, print_table
from oracle.quorum.key_watch import (
    SignerEmbargo,
    build_embargo_writer,
    build_signing_embargo,
    store_signing_embargo,
)
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.outbox.records import Account
from oracle.txmgr.context import AccountContext
from oracle.txmgr.rebuild_from_chain import (
    RebuildPlan,
    plan_outbox_rebuild,
    rebuild_outbox,
)

_COLUMNS = ("nonce", "transaction", "block", "outcome")
_TEXT_COLUMNS = ("transaction", "outcome")
_DEFAULT_BLOCKS = 10_000
# More nonces than this are shown as ranges.
_MAX_ROWS = 20
_COMMAND = "outbox rebuild --from-chain"


def add_rebuild_command(outbox: typer.Typer) -> None:
    """Register `rebuild` under `outbox`."""
    outbox.command("rebuild", epilog="Example: qos-oracle outbox rebuild --from-chain --dry-run")(
        rebuild
    )


def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    from_chain: Annotated[
        bool,
        typer.Option("--from-chain", help="Read the sent transactions from the chain (required)."),
    ] = False,
    blocks: Annotated[
        int,
        typer.Option(
            "--blocks",
            min=1,
            help=("Number of blocks to search for transactions, back from the head."),
        ),
    ] = _DEFAULT_BLOCKS,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Restore from the chain the nonces that this database lacks.

    Use it after a database was lost or restored from an old copy. The restored nonces are marked
    as done. The command sends nothing, no nonce is used again, and the signer signs nothing until
    every statement of the lost database has expired.
    """
    if not from_chain:
        raise InputError("--from-chain: required; run `qos-oracle outbox rebuild --from-chain`")
    confirm_action("rebuild nonces irreversibly", yes=yes, dry_run=dry_run)
    rebuild_account = partial(
        _rebuild_account, blocks=blocks, dry_run=dry_run, show_result=not as_json
    )
    with open_records(load_config(config)) as records, open_index(records) as index:
        if not dry_run:
            with hold_command_lease(index.store, _COMMAND) as epoch:
                get_checked_chain(index)
                store_or_check_database_identity(index)
                rebuilt_accounts = [
                    rebuild_account(account_context, quorum)
                    for account_context, quorum in _open_configured_accounts(index, epoch)
                ]
        else:
            warn_if_leased(index.store)
            get_checked_chain(index)
            check_database_identity(index)
            rebuilt_accounts = [
                rebuild_account(account_context, quorum)
                for account_context, quorum in _open_configured_accounts(index, 0)
            ]
    if as_json:
        print_model(rebuilt_accounts)


def _open_configured_accounts(
    index: Index, epoch: int
) -> Iterator[tuple[AccountContext, QuorumContext | None]]:
    """Yield the report and the dispatcher account, each only if its key is configured.

    The second element of a pair is the quorum context of the account's signer, or None if the
    account signs no statements.
    """
    has_account = False
    open_key = make_key_opener(index.config)
    if index.config.oracle.address is not None:
        with open_reporter(index, open_key) as reporter:
            if reporter.account.has_keys:
                has_account = True
                quorum = open_reporter_contexts(reporter, epoch, unix_seconds).quorum
                yield replace(quorum.account_context, actor=get_actor()), quorum
    if index.dispatch_settings is not None and open_key("dispatcher") is not None:
        has_account = True
        dispatcher = open_dispatch_context(index, open_key, epoch, unix_seconds)
        yield replace(dispatcher.account_context, actor=get_actor()), None
    if not has_account:
        raise InputError(
            "[keys]: no sending or signing key is configured, so there is nothing to rebuild"
        )


def _rebuild_account(
    context: AccountContext,
    quorum: QuorumContext | None,
    *,
    blocks: int,
    dry_run: bool,
    show_result: bool,
) -> RebuiltAccount:
    """Compare an account with the chain, store its missing nonces, and return the result.

    With `dry_run` nothing is stored.
    """
    if not context.sender_account.has_payer:
        signing_embargo = None if quorum is None else build_signing_embargo(quorum)
        if quorum is not None and signing_embargo is not None and not dry_run:
            store_signing_embargo(quorum, signing_embargo, get_actor())
        if show_result:
            _show_signing_embargo(signing_embargo, dry_run=dry_run)
        return _add_signing_embargo(RebuiltAccount(dry_run=dry_run), signing_embargo)
    rebuild_plan = plan_outbox_rebuild(context, blocks)
    may_have_lost_statements = quorum is not None and rebuild_plan.may_have_lost_calls
    signing_embargo = (
        build_signing_embargo(quorum) if quorum is not None and may_have_lost_statements else None
    )
    if not rebuild_plan.is_empty and not dry_run:
        rebuild_outbox(
            context, rebuild_plan, get_actor(), build_embargo_writer(quorum, signing_embargo)
        )
    pause = _load_pause_text(context)
    if show_result:
        _show_rebuild_plan(rebuild_plan, signing_embargo, dry_run=dry_run)
        _warn_if_paused(rebuild_plan.account, pause)
    rebuilt_account = RebuiltAccount(
        dry_run=dry_run,
        address=rebuild_plan.account.address,
        known_next_nonce=rebuild_plan.next_nonce,
        mined=rebuild_plan.mined,
        pending=rebuild_plan.pending,
        next_nonce=max(rebuild_plan.next_nonce or 0, rebuild_plan.nonces.stop),
        rebuilt=tuple(_build_rebuilt_nonce(rebuild_plan, nonce) for nonce in rebuild_plan.nonces),
        dropped=tuple(rebuild_plan.dropped),
        nonces_ahead=tuple(
            _build_rebuilt_nonce(rebuild_plan, nonce) for nonce in rebuild_plan.nonces_ahead
        ),
        paused=pause,
    )
    return _add_signing_embargo(rebuilt_account, signing_embargo)


def _load_pause_text(context: AccountContext) -> str | None:
    with context.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(context.account)
    return None if pause is None else f"{pause.kind.value}: {pause.reason}"


def _warn_if_paused(account: Account, pause: str | None) -> None:
    """Warn if a sender is still paused, because a rebuild does not end a pause."""
    if pause is not None:
        typer.echo(
            f"{account.address} was already paused ({pause}); once the cause is known, run "
            f"`qos-oracle outbox release {account.address}` to resume it",
            err=True,
        )


def _show_rebuild_plan(
    rebuild_plan: RebuildPlan, signer_embargo: SignerEmbargo | None, *, dry_run: bool
) -> None:
    """Print the table of nonces to stdout, and explanations to stderr."""
    address = rebuild_plan.account.address
    if rebuild_plan.is_empty:
        typer.echo(
            f"{address}: nothing to rebuild, the outbox has every nonce of the chain", err=True
        )
        return
    known_text = (
        f"nonces below {rebuild_plan.next_nonce}" if rebuild_plan.next_nonce else "no nonces"
    )
    pending_count = rebuild_plan.pending - rebuild_plan.mined
    typer.echo(
        f"{address}: the outbox has {known_text}, the chain has {rebuild_plan.mined} mined and "
        f"{pending_count} pending",
        err=True,
    )
    if not rebuild_plan.nonces and not rebuild_plan.nonces_ahead:
        _show_dropped_nonces(rebuild_plan, dry_run=dry_run)
        return
    nonces = sorted({*rebuild_plan.nonces, *rebuild_plan.nonces_ahead})
    if len(nonces) > _MAX_ROWS:
        rows = [
            _format_nonce_range_row(rebuild_plan, nonce_range)
            for nonce_range in group_into_ranges(nonces)
        ]
    else:
        rows = [_format_nonce_row(rebuild_plan, nonce) for nonce in nonces]
    print_table(_COLUMNS, rows, left_columns=_TEXT_COLUMNS)
    verb = "would be" if dry_run else "is"
    typer.echo(f"the next nonce {verb} {rebuild_plan.nonces.stop}", err=True)
    _show_dropped_nonces(rebuild_plan, dry_run=dry_run)
    _show_signing_embargo(signer_embargo, dry_run=dry_run)


def _show_dropped_nonces(rebuild_plan: RebuildPlan, *, dry_run: bool) -> None:
    """Print nonces that were rebuilt as pending but have left every mempool."""
    if rebuild_plan.dropped:
        nonce_text = ", ".join(map(_format_range, group_into_ranges(rebuild_plan.dropped)))
        verb = "would fill" if dry_run else "fills"
        typer.echo(
            f"rebuilt while pending, but no longer in any mempool: nonces {nonce_text}; the "
            f"daemon {verb} them with no-ops, which cost gas",
            err=True,
        )


def _format_nonce_row(rebuild_plan: RebuildPlan, nonce: int) -> list[str]:
    transaction = rebuild_plan.transaction_by_nonce.get(nonce)
    if transaction is None:
        return [str(nonce), "", "", "pending" if nonce >= rebuild_plan.mined else "not found"]
    outcome = "succeeded" if transaction.succeeded else "failed"
    return [str(nonce), transaction.hash, str(transaction.block_number), outcome]


def _format_nonce_range_row(rebuild_plan: RebuildPlan, nonce_range: range) -> list[str]:
    """Format a range of nonces as a table row, with the count of each outcome.

    --json lists every nonce.
    """
    nonce_cells = [_format_nonce_row(rebuild_plan, nonce) for nonce in nonce_range]
    blocks = [int(block) for _, _, block, _ in nonce_cells if block]
    block_text = _format_range(range(min(blocks), max(blocks) + 1)) if blocks else ""
    outcome_counts = Counter(outcome for *_, outcome in nonce_cells)
    outcome_text = ", ".join(f"{count} {outcome}" for outcome, count in outcome_counts.items())
    return [_format_range(nonce_range), f"{len(nonce_range)} nonces", block_text, outcome_text]


def group_into_ranges(numbers: Sequence[int]) -> list[range]:
    """Group ascending numbers into ranges of consecutive numbers."""
    number_ranges: list[range] = []
    for number in numbers:
        if number_ranges and number_ranges[-1].stop == number:
            number_ranges[-1] = range(number_ranges[-1].start, number + 1)
        else:
            number_ranges.append(range(number, number + 1))
    return number_ranges


def _format_range(number_range: range) -> str:
    if len(number_range) == 1:
        return str(number_range[0])
    return f"{number_range[0]}..{number_range[-1]}"


def _show_signing_embargo(signer_embargo: SignerEmbargo | None, *, dry_run: bool) -> None:
    if signer_embargo is None:
        return
    typer.echo(
        f"the contract is at round {signer_embargo.round}, {signer_embargo.last_root}", err=True
    )
    if signer_embargo.embargoed_until is not None:
        embargo_end_text = format_utc(signer_embargo.embargoed_until, "%Y-%m-%d %H:%M:%S")
        verb = "would sign" if dry_run else "signs"
        typer.echo(f"the signer {verb} nothing until {embargo_end_text} UTC, chain time", err=True)


def _build_rebuilt_nonce(rebuild_plan: RebuildPlan, nonce: int) -> RebuiltNonce:
    transaction = rebuild_plan.transaction_by_nonce.get(nonce)
    return RebuiltNonce(
        nonce=nonce,
        hash=None if transaction is None else transaction.hash,
        block=None if transaction is None else transaction.block_number,
        succeeded=None if transaction is None else transaction.succeeded,
        to=None if transaction is None else transaction.to,
        selector=None if transaction is None else transaction.selector,
    )


def _add_signing_embargo(
    rebuilt_account: RebuiltAccount, signer_embargo: SignerEmbargo | None
) -> RebuiltAccount:
    """Add to a rebuild's result the time until which the signer must not sign."""
    if signer_embargo is None:
        return rebuilt_account
    return rebuilt_account.model_copy(
        update={
            "round": signer_embargo.round,
            "last_report": signer_embargo.last_root,
            "quiet_until": signer_embargo.embargoed_until,
        }
    )
