"""Records the end of a nonce: final, reverted, without effect, or used by a foreign transaction."""

import structlog

from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Attempt,
    Intent,
    IntentState,
    Mined,
    NonceSlot,
    Paid,
    PauseKind,
)
from oracle.telemetry.txmgr_metrics import FOREIGN, TAKEN_BACK, WITHOUT_EFFECT
from oracle.txmgr.budget import paid
from oracle.txmgr.client.nonce_uses import Use
from oracle.txmgr.client.receipts import Receipt, SimulatedCall, why_reverted
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import WITHOUT_EFFECT_CLASS

# The options of an operator when the key signed a transaction that the database lacks.
TWO_WAYS_OUT = (
    "where it is yours (an old copy of the database, another program), stop the daemon and "
    "`qos-oracle outbox rebuild --from-chain --yes`; where it is not, rotate the key"
)


def describe_transaction(use: Use) -> str:
    """Return a transaction's hash, block and target as text."""
    target = "deploys a contract" if use.to is None else f"calls {use.to}"
    return f"{use.hash} (block {use.block_number}, {target})"


def note_mined(context: TxContext, slot: NonceSlot, won: Attempt, receipt: Receipt) -> StepResult:
    """Record a receipt that is not final, or another receipt after a reorg."""
    cost = paid(context, slot, won, receipt)
    mined = Mined(
        receipt.block_number,
        receipt.block_hash,
        receipt.succeeded,
        receipt.gas_used,
        cost.gas_price_wei,
        l1_fee_wei=cost.l1_fee_wei,
    )
    with context.writing() as uow:
        uow.outbox.slots.mined(slot, won, mined, context.stamp)
    outcome = "worked" if receipt.succeeded else "failed"
    return StepResult("mined", won.intent_id, f"block {receipt.block_number}, {outcome}")


def note_taken_back(context: TxContext, slot: NonceSlot) -> StepResult:
    """Record that a reorg removed the receipt."""
    with context.writing() as uow:
        uow.outbox.slots.unmined(slot, context.stamp)
    TAKEN_BACK.inc()
    return StepResult("reorged", slot.intent_id, f"was in block {slot.block_number}")


def finalize(context: TxContext, slot: NonceSlot, won: Attempt, receipt: Receipt) -> StepResult:
    """Close a nonce by a receipt in a final block that the endpoints agree on.

    A successful receipt without the expected event is not a success: the call is held.
    """
    intent = _intent(context, slot)
    request = intent.request
    cost = paid(context, slot, won, receipt) if receipt.is_priced else None
    if not receipt.succeeded:
        call = SimulatedCall(request.account.address, request.contract, request.calldata)
        why = why_reverted(
            context.publisher.lines,
            receipt,
            call,
            gas_limit=won.signed.gas_limit,
            refusal_of=context.registry.refusal_of,
        )
        return _finalize_slot(context, slot, cost, why)
    missing = context.registry.kind_of(intent).missing_effect(receipt, intent)
    if missing is None:
        return _finalize_slot(context, slot, cost)
    return _hold_slot(context, slot, cost, f"{receipt.hash} succeeded without our {missing}")


def note_foreign(context: TxContext, slot: NonceSlot, use: Use) -> StepResult:
    """Record that a foreign transaction used the nonce, and pause the sender."""
    reason = _told_of(context, slot, use)
    with context.writing() as uow:
        bound = uow.outbox.intents.bound_to(context.account, slot.nonce)
        uow.outbox.slots.lose_to_foreign(slot, context.stamp, reason)
        pause = uow.outbox.accounts.paused_because(context.account)
        # An existing pause for a foreign transaction is kept, because it has more details.
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            uow.outbox.accounts.pause(context.account, PauseKind.FOREIGN, reason, context.stamp)
        for intent in bound:
            _tell_kind(context, uow, intent, reason)
    FOREIGN.inc()
    structlog.get_logger().error(
        "foreign_nonce_used",
        nonce=slot.nonce,
        sender=context.account.address,
        transaction=use.hash,
        block=use.block_number,
        to=use.to,
    )
    return StepResult("foreign", slot.intent_id, reason)


def _told_of(context: TxContext, slot: NonceSlot, use: Use) -> str:
    return (
        f"nonce {slot.nonce} was used by {describe_transaction(use)}, which "
        f"{context.account.address} signed and this database did not: {TWO_WAYS_OUT}"
    )


def _intent(context: TxContext, slot: NonceSlot) -> Intent:
    with context.store.reading() as uow:
        return _named(uow, slot)


def _named(uow: UnitOfWork, slot: NonceSlot) -> Intent:
    intent = uow.outbox.intents.named(slot.intent_id)
    if intent is None:
        raise FatalError(f"outbox intent {slot.intent_id} is missing")
    return intent


def _tell_kind(context: TxContext, uow: UnitOfWork, intent: Intent, reason: str | None) -> None:
    context.registry.kind_of(intent).on_closed(uow, intent, reason)


def _finalize_slot(
    context: TxContext, slot: NonceSlot, cost: Paid | None, reason: str | None = None
) -> StepResult:
    with context.writing() as uow:
        intent = _named(uow, slot)
        uow.outbox.slots.finalize(slot, context.stamp, reason, cost)
        _tell_kind(context, uow, intent, reason)
    did = f"{intent.request.kind} {'reverted' if reason else 'final'}"
    return StepResult(did, intent.id, reason or f"block {slot.block_number}")


def _hold_slot(context: TxContext, slot: NonceSlot, cost: Paid | None, missing: str) -> StepResult:
    reason = f"{WITHOUT_EFFECT_CLASS}({missing})"
    with context.writing() as uow:
        uow.outbox.slots.finalize(slot, context.stamp, paid=cost)
        intent = _named(uow, slot)
        why: dict[str, str | int | None] = {
            "error_class": WITHOUT_EFFECT_CLASS,
            "error_text": reason,
        }
        uow.outbox.intents.move(intent, IntentState.HELD, context.stamp, why)
        _tell_kind(context, uow, intent, reason)
    WITHOUT_EFFECT.inc()
    structlog.get_logger().error("transaction_missing_effect", intent=intent.id, missing=missing)
    return StepResult(f"{intent.request.kind} held", intent.id, reason)
