"""Records how a nonce has ended.

A call is final, reverted or without effect, or another transaction used the nonce.
"""

from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Attempt,
    CallCost,
    CallReceipt,
    Intent,
    IntentState,
    NonceSlot,
    PauseKind,
)
from oracle.telemetry.logger import get_logger
from oracle.telemetry.txmgr_metrics import FOREIGN, TAKEN_BACK, WITHOUT_EFFECT
from oracle.txmgr.budget import compute_paid_cost
from oracle.txmgr.client.nonce_uses import NonceUse
from oracle.txmgr.client.receipts import Receipt, SimulatedCall, fetch_revert_reason
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.deferral import WITHOUT_EFFECT_CLASS

# Options of an operator if the key signed a transaction that is not in the database.
RECOVERY_OPTIONS = (
    "if it is yours (an old copy of the database, another program), stop the daemon and run "
    "`qos-oracle outbox rebuild --from-chain --yes`; if it is not, rotate the key"
)


def describe_transaction(nonce_use: NonceUse) -> str:
    """Return a transaction's hash, block and target as text."""
    target_text = "deploys a contract" if nonce_use.to is None else f"calls {nonce_use.to}"
    return f"{nonce_use.hash} (block {nonce_use.block_number}, {target_text})"


def record_mined_receipt(
    context: AccountContext, slot: NonceSlot, mined_attempt: Attempt, receipt: Receipt
) -> StepResult:
    """Record a receipt that is not final yet.

    After a reorg, the receipt may differ from the recorded one.
    """
    paid_cost = compute_paid_cost(context, slot, mined_attempt, receipt)
    call_receipt = CallReceipt(
        receipt.block_number,
        receipt.block_hash,
        receipt.succeeded,
        receipt.gas_used,
        paid_cost.gas_price_wei,
        l1_fee_wei=paid_cost.l1_fee_wei,
    )
    with context.write_transaction() as uow:
        uow.outbox.slots.record_receipt(slot, mined_attempt, call_receipt, context.stamp)
    outcome_text = "worked" if receipt.succeeded else "failed"
    return StepResult(
        "mined", mined_attempt.intent_id, f"block {receipt.block_number}, {outcome_text}"
    )


def record_reorged_receipt(context: AccountContext, slot: NonceSlot) -> StepResult:
    """Record that a reorg removed the receipt."""
    with context.write_transaction() as uow:
        uow.outbox.slots.mark_reorged(slot, context.stamp)
    TAKEN_BACK.inc()
    return StepResult("reorged", slot.intent_id, f"was in block {slot.block_number}")


def finalize_nonce(
    context: AccountContext, slot: NonceSlot, mined_attempt: Attempt, receipt: Receipt
) -> StepResult:
    """Close a nonce whose receipt is final and confirmed by enough endpoints.

    A call that succeeded but did not emit its expected event is held for an operator.
    """
    with context.store.read_transaction() as uow:
        intent = _load_intent_of_slot(uow, slot)
    request = intent.request
    paid_cost = (
        compute_paid_cost(context, slot, mined_attempt, receipt)
        if receipt.has_agreed_price
        else None
    )
    if not receipt.succeeded:
        call = SimulatedCall(request.account.address, request.contract, request.calldata)
        revert_reason = fetch_revert_reason(
            context.sender_account.pool_view,
            receipt,
            call,
            gas_limit=mined_attempt.signed.gas_limit,
            decode_refusal=context.registry.decode_refusal,
        )
        return _finalize_slot(context, slot, paid_cost, revert_reason)
    missing_event = context.registry.get_kind(intent).find_missing_event(receipt, intent)
    if missing_event is None:
        return _finalize_slot(context, slot, paid_cost)
    return _hold_slot_for_missing_event(
        context, slot, paid_cost, f"{receipt.hash} succeeded without our {missing_event}"
    )


def record_foreign_use(
    context: AccountContext, slot: NonceSlot, nonce_use: NonceUse
) -> StepResult:
    """Record that a foreign transaction used the nonce, and pause the sender."""
    reason = _build_foreign_use_reason(context, slot, nonce_use)
    with context.write_transaction() as uow:
        bound_intents = uow.outbox.intents.list_for_nonce(context.account, slot.nonce)
        uow.outbox.slots.mark_nonce_foreign(slot, context.stamp, reason)
        pause = uow.outbox.accounts.find_pause(context.account)
        # A pause for a foreign transaction is kept, because it has more details.
        if pause is None or pause.kind is not PauseKind.FOREIGN:
            uow.outbox.accounts.pause(context.account, PauseKind.FOREIGN, reason, context.stamp)
        for intent in bound_intents:
            _notify_call_kind_on_close(context, uow, intent, reason)
    FOREIGN.inc()
    get_logger().error(
        "foreign_nonce_used",
        nonce=slot.nonce,
        sender=context.account.address,
        transaction=nonce_use.hash,
        block=nonce_use.block_number,
        to=nonce_use.to,
    )
    return StepResult("foreign", slot.intent_id, reason)


def _build_foreign_use_reason(
    context: AccountContext, slot: NonceSlot, nonce_use: NonceUse
) -> str:
    return (
        f"nonce {slot.nonce} was used by {describe_transaction(nonce_use)}, which "
        f"{context.account.address} signed, but this database did not: {RECOVERY_OPTIONS}"
    )


def _load_intent_of_slot(uow: UnitOfWork, slot: NonceSlot) -> Intent:
    intent = uow.outbox.intents.get(slot.intent_id)
    if intent is None:
        raise FatalError(f"outbox intent {slot.intent_id} is missing")
    return intent


def _notify_call_kind_on_close(
    context: AccountContext, uow: UnitOfWork, intent: Intent, reason: str | None
) -> None:
    context.registry.get_kind(intent).on_closed(uow, intent, reason)


def _finalize_slot(
    context: AccountContext, slot: NonceSlot, paid_cost: CallCost | None, reason: str | None = None
) -> StepResult:
    with context.write_transaction() as uow:
        intent = _load_intent_of_slot(uow, slot)
        uow.outbox.slots.finalize(slot, context.stamp, reason, paid_cost)
        _notify_call_kind_on_close(context, uow, intent, reason)
    action = f"{intent.request.kind} {'reverted' if reason else 'final'}"
    return StepResult(action, intent.id, reason or f"block {slot.block_number}")


def _hold_slot_for_missing_event(
    context: AccountContext, slot: NonceSlot, paid_cost: CallCost | None, missing_event: str
) -> StepResult:
    reason = f"{WITHOUT_EFFECT_CLASS}({missing_event})"
    with context.write_transaction() as uow:
        uow.outbox.slots.finalize(slot, context.stamp, call_cost=paid_cost)
        intent = _load_intent_of_slot(uow, slot)
        error_values: dict[str, str | int | None] = {
            "error_class": WITHOUT_EFFECT_CLASS,
            "error_text": reason,
        }
        uow.outbox.intents.change_state(intent, IntentState.HELD, context.stamp, error_values)
        _notify_call_kind_on_close(context, uow, intent, reason)
    WITHOUT_EFFECT.inc()
    get_logger().error("transaction_missing_effect", intent=intent.id, missing=missing_event)
    return StepResult(f"{intent.request.kind} held", intent.id, reason)
