"""Implements `outbox hold`, `release`, `bump` and `cancel` for pending calls and senders."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from oracle.chain.source import ChainSource
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
from oracle.cli.write_session import (
    get_actor,
    hold_command_lease,
    open_write_session,
    warn_if_leased,
)
from oracle.daemon.compose import Index, get_checked_chain, open_index
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.records import Records, open_records
from oracle.daemon.senders import open_dispatch_context, open_reporter, open_reporter_contexts
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.command_models import OutboxChange
from oracle.queries.text.prefixes import OUTBOX_HINT, find_address, find_intent
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent, IntentState, PauseKind, Stamp
from oracle.txmgr.call_replacement import prepare_noop_replacement, replace_with_noop
from oracle.txmgr.context import AccountContext
from oracle.txmgr.fee_bump import prepare_fee_bump, send_fee_bump
from oracle.txmgr.nonce_sync import reconcile_nonces
from oracle.txmgr.unconfirmed import Replacement

_STATES_BEFORE_SENDING = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
CallArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID|HASH",
        help=(
            "Intent id as in `outbox list`, or the hash (or hash prefix) of one of its "
            "transactions."
        ),
    ),
]
CallOrSenderArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID|ADDRESS",
        help="Intent id to act on one call, or sender address to act on all its calls.",
    ),
]


def add_outbox_action_commands(outbox: typer.Typer) -> None:
    """Register the commands that change a call or a sender under `outbox`."""
    outbox.command("hold", epilog="Example: qos-oracle outbox hold 7")(hold)
    outbox.command("release", epilog="Example: qos-oracle outbox release 0x…")(release)
    outbox.command("bump", epilog="Example: qos-oracle outbox bump 7 --dry-run")(bump)
    outbox.command("cancel", epilog="Example: qos-oracle outbox cancel 7 --yes")(cancel)


def hold(
    target: CallOrSenderArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    reason: Annotated[
        str,
        typer.Option("--reason", help="Reason recorded in the journal."),
    ] = "",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Hold a call that is not signed, or pause a sender.

    A nonce that was assigned to the held call becomes free. Signed transactions are unaffected.
    """
    hold_reason = reason or "held by an operator"
    with open_records(load_config(config)) as records:
        if not target.isdecimal():
            account = _get_sender_account(records, target)
            with open_write_session(records.store, "outbox hold", dry_run=dry_run) as (uow, stamp):
                if uow.outbox.accounts.find_next_nonce(account) is None:
                    raise InputError(f"{target}: this account is not a sender in this database")
                existing_pause = uow.outbox.accounts.find_pause(account)
                # A pause that ends by itself does not hold the account until an operator acts.
                if existing_pause is not None and not existing_pause.is_temporary:
                    raise InputError(
                        f"{target}: this account is already paused: {existing_pause.reason}"
                    )
                if not dry_run:
                    uow.outbox.accounts.pause(account, PauseKind.OPERATOR, hold_reason, stamp)
            change = OutboxChange(
                did="held", dry_run=dry_run, address=account.address, reason=hold_reason
            )
        else:
            with open_write_session(records.store, "outbox hold", dry_run=dry_run) as (uow, stamp):
                intent = find_intent(uow, target)
                _check_call_is_unsigned(uow, intent, "held")
                if not dry_run:
                    uow.outbox.intents.hold(intent, PauseKind.OPERATOR, hold_reason, stamp)
            change = OutboxChange(
                did="held", dry_run=dry_run, intent=intent.id, reason=hold_reason
            )
    _print_outbox_change(change, as_json=as_json)


def release(
    target: CallOrSenderArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a held call or a paused sender, after its cause is known."""
    with open_records(load_config(config)) as records:
        if not target.isdecimal():
            account = _get_sender_account(records, target)
            _check_nonces_not_ahead(records, account)
            with open_write_session(records.store, "outbox release", dry_run=dry_run) as (
                uow,
                stamp,
            ):
                pause = uow.outbox.accounts.find_pause(account)
                if pause is None:
                    raise InputError(
                        f"{target}: this account is not paused; `qos-oracle outbox list` shows "
                        "the paused senders"
                    )
                if not dry_run:
                    uow.outbox.accounts.resume(account, stamp)
            change = OutboxChange(
                did="released", dry_run=dry_run, address=account.address, reason=pause.reason
            )
        else:
            with open_write_session(records.store, "outbox release", dry_run=dry_run) as (
                uow,
                stamp,
            ):
                intent = find_intent(uow, target)
                if intent.state is not IntentState.HELD or intent.nonce is not None:
                    raise InputError(_format_intent_refusal(intent, "released"))
                if not dry_run:
                    uow.outbox.intents.release(intent, stamp)
            change = OutboxChange(
                did="released", dry_run=dry_run, intent=intent.id, reason=intent.error_text
            )
    _print_outbox_change(change, as_json=as_json)


def bump(
    call_reference: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Raise the fee of a pending call; the caps of [limits] apply."""
    with open_records(load_config(config)) as records:
        intent = _get_live_intent(records, call_reference)
        with _open_sender_session(records, intent, "outbox bump", dry_run=dry_run) as (
            context,
            chain,
        ):
            heads = chain.fetch_heads()
            replacement = prepare_fee_bump(context, heads, intent.id)
            detail = replacement.fee_text
            if not dry_run:
                detail = send_fee_bump(context, replacement, heads).detail
    outbox_change = _build_replacement_result(
        "bumped", intent, replacement, detail, dry_run=dry_run
    )
    _print_outbox_change(outbox_change, as_json=as_json)


def cancel(
    call_reference: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a call that was not mined.

    A call that is not signed is dropped. A call that was sent is replaced by a no-op transaction
    with the same nonce. Either transaction may still be mined, and `outbox show` reports which.
    The no-op costs gas.
    """
    with open_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            intent = find_intent(uow, call_reference)
            if intent.state not in {IntentState.HELD, IntentState.LIVE}:
                _check_call_is_unsigned(uow, intent, "cancelled")
        _reject_replaced_intent(records, intent)
        confirm_action(f"cancel intent {intent.id} irreversibly", yes=yes, dry_run=dry_run)
        outbox_change = OutboxChange(
            did="cancelled", dry_run=dry_run, intent=intent.id, nonce=intent.nonce
        )
        if intent.state is not IntentState.LIVE:
            with open_write_session(records.store, "outbox cancel", dry_run=dry_run) as (
                uow,
                stamp,
            ):
                if not dry_run:
                    _cancel_unsent_call(uow, find_intent(uow, str(intent.id)), stamp)
        else:
            with _open_sender_session(records, intent, "outbox cancel", dry_run=dry_run) as (
                context,
                chain,
            ):
                noop_replacement = prepare_noop_replacement(context, intent.id)
                detail = f"a no-op at nonce {intent.nonce}, {noop_replacement.fee_text}"
                if not dry_run:
                    detail = replace_with_noop(
                        context, noop_replacement, chain.fetch_heads()
                    ).detail
            outbox_change = _build_replacement_result(
                "cancelled", intent, noop_replacement, detail, dry_run=dry_run
            )
    _print_outbox_change(outbox_change, as_json=as_json)


def _cancel_unsent_call(uow: UnitOfWork, intent: Intent, stamp: Stamp) -> None:
    """Cancel a call that can no longer be mined, and the posted objection that it submits.

    Otherwise the node could not post another objection before the deadline of this one.
    """
    cancel_reason = "cancelled by an operator"
    uow.outbox.intents.cancel(intent, cancel_reason, stamp)
    posted_objection = uow.objection_inbox.find_by_intent(intent.id)
    if posted_objection is not None and posted_objection.ended_at is None:
        uow.objection_inbox.mark_ended(posted_objection, stamp.at, cancel_reason)


@contextmanager
def _open_sender_session(
    records: Records, intent: Intent, command: str, *, dry_run: bool
) -> Iterator[tuple[AccountContext, ChainSource]]:
    """Open the chain and a call's sender account, while holding the lease.

    A dry run takes no lease.
    """
    account = intent.request.account
    with open_index(records) as index:
        if dry_run:
            warn_if_leased(index.store)
            with _open_sender_context(index, account, 0) as context:
                yield context, index.chain
            return
        with (
            hold_command_lease(index.store, command) as epoch,
            _open_sender_context(index, account, epoch) as context,
        ):
            yield replace(context, actor=get_actor()), index.chain


@contextmanager
def _open_sender_context(index: Index, account: Account, epoch: int) -> Iterator[AccountContext]:
    """Open an account's context, using the configured key for its address.

    Raises:
        InputError: no configured key has this address.
    """
    with _try_open_sender_context(index, account, epoch) as context:
        if context is None:
            raise InputError(
                f"[keys]: no key is configured for {account.address}, the sender of this call"
            )
        yield context


@contextmanager
def _try_open_sender_context(
    index: Index, account: Account, epoch: int
) -> Iterator[AccountContext | None]:
    """Yield the context of an account, or None if no configured key has its address.

    The key of the report account is tried first.
    """
    config = index.config
    open_key = make_key_opener(index.config)
    if config.oracle.address is None and index.dispatch_settings is None:
        yield None
        return
    get_checked_chain(index)
    with ExitStack() as stack:
        if config.oracle.address is not None:
            reporter = stack.enter_context(open_reporter(index, open_key))
            if reporter.account.has_payer:
                context = open_reporter_contexts(reporter, epoch, unix_seconds).account_context
                if context.account == account:
                    yield context
                    return
        if index.dispatch_settings is not None and open_key("dispatcher") is not None:
            context = open_dispatch_context(index, open_key, epoch, unix_seconds).account_context
            if context.account == account:
                yield context
                return
        yield None


def _check_nonces_not_ahead(records: Records, account: Account) -> None:
    """Check that a paused sender's on-chain nonces are not ahead of the database.

    The next start of the daemon would refuse a sender whose nonces are ahead, so the sender is not
    released.

    Raises:
        NonceAheadError: the nonces are ahead; the message names the command that repairs them.
        TransientError: no endpoint responds, or only one endpoint reports nonces that are ahead.
    """
    with records.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(account)
    is_foreign = pause is not None and pause.kind is PauseKind.FOREIGN
    if not is_foreign:
        return
    with open_index(records) as index, _try_open_sender_context(index, account, 0) as context:
        # Without its key an account sends nothing, so its nonces are not checked.
        if context is not None:
            reconcile_nonces(context)


def _build_replacement_result(
    action: str, intent: Intent, replacement: Replacement, detail: str, *, dry_run: bool
) -> OutboxChange:
    """Build the result of a command that replaces a call's transaction."""
    return OutboxChange(
        did=action,
        dry_run=dry_run,
        intent=intent.id,
        nonce=intent.nonce,
        gas_limit=replacement.gas_limit,
        max_fee_wei=replacement.fees.max_fee,
        tip_wei=replacement.fees.tip,
        detail=detail,
    )


def _print_outbox_change(change: OutboxChange, *, as_json: bool) -> None:
    """Print the change that was made, or would be made in a dry run."""
    if as_json:
        print_model(change)
        return
    subject = change.address or f"intent {change.intent}"
    prefix = "would be " if change.dry_run else ""
    note = change.detail or change.reason
    typer.echo(f"{subject}: {prefix}{change.did}{f' ({note})' if note else ''}")


def _get_live_intent(records: Records, call_reference: str) -> Intent:
    with records.store.read_transaction() as uow:
        intent = find_intent(uow, call_reference)
    if intent.state is not IntentState.LIVE:
        raise InputError(_format_intent_refusal(intent, "bumped"))
    _reject_replaced_intent(records, intent)
    return intent


def _reject_replaced_intent(records: Records, intent: Intent) -> None:
    """Raise an error if an intent's nonce was given to another call.

    Raises:
        InputError: another intent has the nonce; the message names that intent.
    """
    if intent.nonce is None or intent.state is not IntentState.LIVE:
        return
    with records.store.read_transaction() as uow:
        slot = uow.outbox.slots.find_slot(intent.request.account, intent.nonce)
        newer_intent = None if slot is None else uow.outbox.intents.get(slot.intent_id)
    if newer_intent is not None and newer_intent.id != intent.id:
        raise InputError(
            f"cannot bump or cancel intent {intent.id}: its nonce {intent.nonce} was given to "
            f"intent {newer_intent.id} ({newer_intent.request.kind}), and only one of the two "
            f"lands; `qos-oracle outbox bump {newer_intent.id}` raises the fee of the newer one"
        )


def _check_call_is_unsigned(uow: UnitOfWork, intent: Intent, action: str) -> None:
    """Check that a call waits in the outbox, and that nothing was signed for it.

    Raises:
        InputError: the call was signed, is held or has ended.
    """
    if intent.state not in _STATES_BEFORE_SENDING or not uow.outbox.intents.is_unsigned(intent):
        raise InputError(_format_intent_refusal(intent, action))


def _format_intent_refusal(intent: Intent, action: str) -> str:
    nonce_note = "" if intent.nonce is None else f" and has nonce {intent.nonce}"
    return (
        f"intent {intent.id} cannot be {action}: it is {intent.state}{nonce_note}; "
        f"see `qos-oracle outbox show {intent.id}`"
    )


def _get_sender_account(records: Records, sender_text: str) -> Account:
    if not sender_text.startswith("0x"):
        raise InputError(f"{sender_text}: expected an intent id or an address; {OUTBOX_HINT}")
    with records.store.read_transaction() as uow:
        sender_addresses = [
            account.address for account in uow.outbox.counts.get_nonce_progress_by_account()
        ]
    return Account(records.config.chain.id, find_address(sender_addresses, "sender", sender_text))
