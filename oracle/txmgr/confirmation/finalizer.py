"""What is written down when a nonce comes to its end: final, reverted, without effect, foreign."""

import structlog

from oracle.bindings.expected_events import missing_effect
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
from oracle.telemetry.send_metrics import FOREIGN, TAKEN_BACK, WITHOUT_EFFECT
from oracle.txmgr.budget import paid
from oracle.txmgr.client.nonce_uses import Use
from oracle.txmgr.client.receipts import Receipt, SimulatedCall, why_reverted
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import WITHOUT_EFFECT_CLASS, close_report

# What a person does about a transaction of our key that is not ours.
TWO_WAYS_OUT = (
    "where it is yours (an old copy of the database, another program), stop the daemon and "
    "`qos-oracle outbox adopt --from-chain --yes`; where it is not, rotate the key"
)


def words_of(use: Use) -> str:
    """Name a transaction, its block and its target."""
    target = "deploys a contract" if use.to is None else f"calls {use.to}"
    return f"{use.hash} (block {use.block_number}, {target})"


def note_mined(desk: TxContext, slot: NonceSlot, won: Attempt, receipt: Receipt) -> StepResult:
    """Note a receipt, or another one after a reorg: not final yet."""
    cost = paid(desk, slot, won, receipt)
    mined = Mined(
        receipt.block_number,
        receipt.block_hash,
        receipt.succeeded,
        receipt.gas_used,
        cost.gas_price_wei,
        l1_fee_wei=cost.l1_fee_wei,
    )
    with desk.writing() as unit:
        unit.outbox.slots.mined(slot, won, mined, desk.stamp)
    outcome = "worked" if receipt.succeeded else "failed"
    return StepResult("mined", won.intent_id, f"block {receipt.block_number}, {outcome}")


def note_taken_back(desk: TxContext, slot: NonceSlot) -> StepResult:
    """Note that a reorg took the receipt away."""
    with desk.writing() as unit:
        unit.outbox.slots.unmined(slot, desk.stamp)
    TAKEN_BACK.inc()
    return StepResult("reorged", slot.intent_id, f"was in block {slot.block_number}")


def settle(desk: TxContext, slot: NonceSlot, won: Attempt, receipt: Receipt) -> StepResult:
    """Close a nonce by the receipt that the endpoints agree on, in a final block.

    Status 1 without the event that the call was sent for is no success: it is held.
    """
    intent = _intent(desk, slot)
    wish = intent.wish
    cost = paid(desk, slot, won, receipt) if receipt.is_priced else None
    if not receipt.succeeded:
        call = SimulatedCall(wish.account.address, wish.contract, wish.calldata)
        limit = won.signed.gas_limit
        why = why_reverted(desk.publisher.lines, receipt, call, limit)
        return _closed(desk, slot, cost, why)
    missing = missing_effect(receipt, wish.contract, wish.calldata, wish.digest)
    if missing is None:
        return _closed(desk, slot, cost)
    return _held(desk, slot, cost, f"{receipt.hash} succeeded without our {missing}")


def note_foreign(desk: TxContext, slot: NonceSlot, use: Use) -> StepResult:
    """Note that somebody else's transaction used the nonce: its sender rests."""
    reason = _told_of(desk, slot, use)
    with desk.writing() as unit:
        bound = unit.outbox.intents.bound_to(desk.account, slot.nonce)
        unit.outbox.slots.lose_to_foreign(slot, desk.stamp, reason)
        pause = unit.outbox.senders.paused_because(desk.account)
        # One that says how far the account was overtaken says more.
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            unit.outbox.senders.pause(desk.account, PauseKind.FOREIGN, reason, desk.stamp)
        for intent in bound:
            close_report(unit, intent, reason)
    FOREIGN.inc()
    structlog.get_logger().error(
        "foreign_nonce",
        nonce=slot.nonce,
        sender=desk.account.address,
        transaction=use.hash,
        block=use.block_number,
        to=use.to,
    )
    return StepResult("foreign", slot.intent_id, reason)


def _told_of(desk: TxContext, slot: NonceSlot, use: Use) -> str:
    return (
        f"nonce {slot.nonce} was used by {words_of(use)}, which {desk.account.address} signed and "
        f"this database did not: {TWO_WAYS_OUT}"
    )


def _intent(desk: TxContext, slot: NonceSlot) -> Intent:
    with desk.store.reading() as unit:
        return _named(unit, slot)


def _named(unit: UnitOfWork, slot: NonceSlot) -> Intent:
    intent = unit.outbox.intents.named(slot.intent_id)
    if intent is None:
        raise FatalError(f"outbox intent {slot.intent_id} is missing")
    return intent


def _closed(
    desk: TxContext, slot: NonceSlot, cost: Paid | None, reason: str | None = None
) -> StepResult:
    with desk.writing() as unit:
        intent = _named(unit, slot)
        unit.outbox.slots.settle(slot, desk.stamp, reason, cost)
        close_report(unit, intent, reason)
    did = f"{intent.wish.kind} {'reverted' if reason else 'final'}"
    return StepResult(did, intent.id, reason or f"block {slot.block_number}")


def _held(desk: TxContext, slot: NonceSlot, cost: Paid | None, missing: str) -> StepResult:
    reason = f"{WITHOUT_EFFECT_CLASS}({missing})"
    with desk.writing() as unit:
        unit.outbox.slots.settle(slot, desk.stamp, paid=cost)
        intent = _named(unit, slot)
        why: dict[str, str | int | None] = {
            "error_class": WITHOUT_EFFECT_CLASS,
            "error_text": reason,
        }
        unit.outbox.intents.move(intent, IntentState.HELD, desk.stamp, why)
        close_report(unit, intent, reason)
    WITHOUT_EFFECT.inc()
    structlog.get_logger().error("sent_without_effect", intent=intent.id, missing=missing)
    return StepResult(f"{intent.wish.kind} held", intent.id, reason)
