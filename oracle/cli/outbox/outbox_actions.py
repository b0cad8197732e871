"""`outbox hold, release, bump, cancel`: operator actions on pending calls and senders."""

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
    print_answer,
)
from oracle.cli.write_session import acting, actor, command_lease, tell_of_lease
from oracle.daemon.compose import Index, check_chain_of, open_index
from oracle.daemon.records import Records, open_records
from oracle.daemon.senders import (
    key_opener,
    open_dispatcher,
    open_reporter,
    reporter_contexts,
)
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.outbox_change_models import OutboxChange
from oracle.queries.text.prefixes import CALLS_SHOWN, address_among, call_named
from oracle.store.outbox.records import Account, Intent, IntentState, PauseKind
from oracle.txmgr.call_replacement import prepared_no_op, replace_with_noop
from oracle.txmgr.context import TxContext
from oracle.txmgr.fee_bump import bump as sign_replacement, prepared_bump
from oracle.txmgr.nonce_sync import reconcile
from oracle.txmgr.replacement_offer import Replacement

_NO_NONCE = (IntentState.PLANNED, IntentState.READY)
CallArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID|HASH",
        help="As `outbox list` shows it, or one of its transactions, whole or by how it begins.",
    ),
]
WhichArgument = Annotated[
    str, typer.Argument(metavar="ID|ADDRESS", help="A call of the outbox, or a whole sender.")
]


def add_to(outbox: typer.Typer) -> None:
    """Add the action commands next to `outbox list` and `outbox show`."""
    outbox.command("hold", epilog="Example: qos-oracle outbox hold 7")(hold)
    outbox.command("release", epilog="Example: qos-oracle outbox release 0x…")(release)
    outbox.command("bump", epilog="Example: qos-oracle outbox bump 7 --dry-run")(bump)
    outbox.command("cancel", epilog="Example: qos-oracle outbox cancel 7 --yes")(cancel)


def hold(
    which: WhichArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the journal.")] = "",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Hold a call without a nonce, or pause a sender.

    Sent transactions are unaffected.
    """
    why = reason or "held by an operator"
    with open_records(load_config(config)) as records:
        if not which.isdecimal():
            account = _account(records, which)
            with acting(records.store, "outbox hold", dry_run=dry_run) as (uow, stamp):
                if uow.outbox.accounts.next_nonce(account) is None:
                    raise InputError(f"{which} is no sender of this database")
                earlier = uow.outbox.accounts.paused_because(account)
                if earlier is not None:
                    raise InputError(f"{which} is paused already: {earlier.reason}")
                if not dry_run:
                    uow.outbox.accounts.pause(account, PauseKind.OPERATOR, why, stamp)
            change = OutboxChange(did="held", dry_run=dry_run, address=account.address, reason=why)
        else:
            with acting(records.store, "outbox hold", dry_run=dry_run) as (uow, stamp):
                intent = call_named(uow, which)
                if intent.nonce is not None or intent.state not in _NO_NONCE:
                    raise InputError(_cannot(intent, "held"))
                if not dry_run:
                    uow.outbox.intents.hold(intent, PauseKind.OPERATOR, why, stamp)
            change = OutboxChange(did="held", dry_run=dry_run, intent=intent.id, reason=why)
    _print_change(change, as_json=as_json)


def release(
    which: WhichArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a held call or a paused sender, after its cause is known."""
    with open_records(load_config(config)) as records:
        if not which.isdecimal():
            account = _account(records, which)
            _refuse_nonce_ahead(records, account)
            with acting(records.store, "outbox release", dry_run=dry_run) as (uow, stamp):
                pause = uow.outbox.accounts.paused_because(account)
                if pause is None:
                    raise InputError(
                        f"{which} is not stopped; `qos-oracle outbox list` shows who is"
                    )
                if not dry_run:
                    uow.outbox.accounts.resume(account, stamp)
            change = OutboxChange(
                did="released", dry_run=dry_run, address=account.address, reason=pause.reason
            )
        else:
            with acting(records.store, "outbox release", dry_run=dry_run) as (uow, stamp):
                intent = call_named(uow, which)
                if intent.state is not IntentState.HELD or intent.nonce is not None:
                    raise InputError(_cannot(intent, "released"))
                if not dry_run:
                    uow.outbox.intents.release(intent, stamp)
            change = OutboxChange(
                did="released", dry_run=dry_run, intent=intent.id, reason=intent.error_text
            )
    _print_change(change, as_json=as_json)


def bump(
    which: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Raise the fee of a pending call; the caps of [limits] apply."""
    with open_records(load_config(config)) as records:
        intent = _sent(records, which)
        with _sender_of(records, intent, "outbox bump", dry_run=dry_run) as (context, chain):
            heads = chain.heads()
            bumped = prepared_bump(context, heads, intent.id)
            detail = bumped.text
            if not dry_run:
                detail = sign_replacement(context, bumped, heads).detail
    change = _replacement_change("bumped", intent, bumped, detail, dry_run=dry_run)
    _print_change(change, as_json=as_json)


def cancel(
    which: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a call that has not landed.

    A call without a nonce is dropped; a sent one is replaced by a no-op on its nonce. Either
    transaction may still land; `outbox show` reports which one did. The no-op costs gas.
    """
    with open_records(load_config(config)) as records:
        with records.store.reading() as uow:
            intent = call_named(uow, which)
        if intent.state not in {*_NO_NONCE, IntentState.HELD, IntentState.LIVE}:
            raise InputError(_cannot(intent, "cancelled"))
        _refuse_replaced(records, intent)
        confirm_action(f"giving up intent {intent.id} for good", yes=yes, dry_run=dry_run)
        change = OutboxChange(
            did="cancelled", dry_run=dry_run, intent=intent.id, nonce=intent.nonce
        )
        if intent.state is not IntentState.LIVE:
            with acting(records.store, "outbox cancel", dry_run=dry_run) as (uow, stamp):
                if not dry_run:
                    why = "cancelled by an operator"
                    uow.outbox.intents.cancel(call_named(uow, str(intent.id)), why, stamp)
        else:
            with _sender_of(records, intent, "outbox cancel", dry_run=dry_run) as (context, chain):
                no_op = prepared_no_op(context, intent.id)
                detail = f"a no-op at nonce {intent.nonce}, {no_op.text}"
                if not dry_run:
                    detail = replace_with_noop(context, no_op, chain.heads()).detail
            change = _replacement_change("cancelled", intent, no_op, detail, dry_run=dry_run)
    _print_change(change, as_json=as_json)


@contextmanager
def _sender_of(
    records: Records, intent: Intent, command: str, *, dry_run: bool
) -> Iterator[tuple[TxContext, ChainSource]]:
    """Open the sender of a call under the lease; a dry run only reads and needs no lease."""
    account = intent.request.account
    with open_index(records) as index:
        if dry_run:
            tell_of_lease(index.store)
            with _sender_context(index, account, 0) as context:
                yield context, index.chain
            return
        with (
            command_lease(index.store, command) as epoch,
            _sender_context(index, account, epoch) as context,
        ):
            yield replace(context, actor=actor()), index.chain


@contextmanager
def _sender_context(index: Index, account: Account, epoch: int) -> Iterator[TxContext]:
    """Open the context whose key has this address.

    Raises:
        InputError: no configured key has this address.
    """
    with _context_with(index, account, epoch) as context:
        if context is None:
            raise InputError(f"[keys] has no key of {account.address}, which sends this call")
        yield context


@contextmanager
def _context_with(index: Index, account: Account, epoch: int) -> Iterator[TxContext | None]:
    """Open the context whose key has this address, or None; the report account comes first."""
    config, open_key = index.config, key_opener(index.config)
    if config.oracle.address is None and index.dispatch_settings is None:
        yield None
        return
    check_chain_of(index)
    with ExitStack() as closing:
        if config.oracle.address is not None:
            reporter = closing.enter_context(open_reporter(index, open_key))
            if reporter.account.has_payer:
                context = reporter_contexts(reporter, epoch, unix_seconds).tx
                if context.account == account:
                    yield context
                    return
        if index.dispatch_settings is not None and open_key("dispatcher") is not None:
            context = open_dispatcher(index, open_key, epoch, unix_seconds).tx
            if context.account == account:
                yield context
                return
        yield None


def _refuse_nonce_ahead(records: Records, account: Account) -> None:
    """Refuse to release a sender whose nonces are ahead on-chain: the next start would refuse it.

    Raises:
        NonceAheadError: the nonces are ahead; the message names the command that repairs it.
        TransientError: no endpoint responds, or only one of them reports it.
    """
    with records.store.reading() as uow:
        pause = uow.outbox.accounts.paused_because(account)
    is_foreign = pause is not None and pause.kind is PauseKind.FOREIGN
    if not is_foreign:
        return
    with open_index(records) as index, _context_with(index, account, 0) as context:
        # Without its key, nothing is sent from the account.
        if context is not None:
            reconcile(context)


def _replacement_change(
    did: str, intent: Intent, replacement: Replacement, detail: str, *, dry_run: bool
) -> OutboxChange:
    """Return the answer about a call whose transaction is replaced."""
    return OutboxChange(
        did=did,
        dry_run=dry_run,
        intent=intent.id,
        nonce=intent.nonce,
        gas_limit=replacement.gas_limit,
        max_fee_wei=replacement.fees.max_fee,
        tip_wei=replacement.fees.tip,
        detail=detail,
    )


def _print_change(change: OutboxChange, *, as_json: bool) -> None:
    """Print the change that was made or, for a dry run, would be made."""
    if as_json:
        print_answer(change)
        return
    about = change.address or f"intent {change.intent}"
    would = "would be " if change.dry_run else ""
    rest = change.detail or change.reason
    typer.echo(f"{about}: {would}{change.did}{f' ({rest})' if rest else ''}")


def _sent(records: Records, which: str) -> Intent:
    with records.store.reading() as uow:
        intent = call_named(uow, which)
    if intent.state is not IntentState.LIVE:
        raise InputError(_cannot(intent, "bumped"))
    _refuse_replaced(records, intent)
    return intent


def _refuse_replaced(records: Records, intent: Intent) -> None:
    """Refuse an intent whose nonce was given to another call.

    Raises:
        InputError: the nonce was given away; the message names the intent that has it now.
    """
    if intent.nonce is None or intent.state is not IntentState.LIVE:
        return
    with records.store.reading() as uow:
        slot = uow.outbox.slots.at(intent.request.account, intent.nonce)
        rival = None if slot is None else uow.outbox.intents.named(slot.intent_id)
    if rival is not None and rival.id != intent.id:
        raise InputError(
            f"intent {intent.id} gave up its nonce {intent.nonce}: intent {rival.id} "
            f"({rival.request.kind}) was put on it, and one of the two lands; "
            f"`qos-oracle outbox bump {rival.id}` pays more for that one"
        )


def _cannot(intent: Intent, what: str) -> str:
    nonce = "" if intent.nonce is None else f" and has nonce {intent.nonce}"
    return (
        f"intent {intent.id} cannot be {what}: it is {intent.state}{nonce}; "
        f"`qos-oracle outbox show {intent.id}` tells more"
    )


def _account(records: Records, which: str) -> Account:
    if not which.startswith("0x"):
        raise InputError(
            f"{which} is neither a number of the outbox nor an address; {CALLS_SHOWN}"
        )
    with records.store.reading() as uow:
        known = [account.address for account in uow.outbox.counts.accounts()]
    return Account(records.config.chain.id, address_among(known, "sender", which))
