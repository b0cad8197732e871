"""Watches every hash of every open nonce until it is final (publishing.md 3.3).

State follows from receipts alone: a timeout, an error or a restart changes nothing.
"""

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.errors import FatalError
from oracle.publisher.receipts import (
    Call,
    Receipt,
    block_hashes,
    nonce_at,
    receipts_of,
    why_reverted,
)
from oracle.services.deferring import close_report
from oracle.services.desk import Desk, Step
from oracle.services.publishing import send_attempt
from oracle.store.outbox_rows import Attempt, Mined, PauseKind, Slot, SlotState

# Live bytes without a receipt are sent again after so many blocks.
_REPEAT_BLOCKS = 2


def confirm_next(desk: Desk, heads: Heads) -> Step | None:
    """Take note of the next thing that happened to an open nonce; None: nothing did.

    Raises:
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        watched = [
            (slot, unit.outbox.slots.attempts(slot))
            for slot in unit.outbox.slots.watched(desk.account)
        ]
    hashes = [attempt.signed.tx_hash for _, attempts in watched for attempt in attempts]
    receipts = receipts_of(desk.publisher.lines, hashes) if hashes else {}
    for slot, attempts in watched:
        step = _look_at(desk, slot, attempts, receipts, heads)
        if step is not None:
            return step
    return None


def confirm_all(desk: Desk, heads: Heads) -> Step | None:
    """Take note of everything that happened to open nonces; None: nothing did.

    For whoever sends by the dozen. A receipt that is known and not final is not asked for again
    while its block is the chain's.

    Raises:
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        slots = unit.outbox.slots.watched(desk.account)
    settled = _still_there(desk, slots, heads)
    with desk.store.reading() as unit:
        watched = [(one, unit.outbox.slots.attempts(one)) for one in slots if one not in settled]
    if not watched:
        return None
    hashes = [attempt.signed.tx_hash for _, attempts in watched for attempt in attempts]
    receipts = receipts_of(desk.publisher.lines, hashes) if hashes else {}
    used = nonce_at(desk.publisher.lines, desk.account.address, hex(heads.final.number))
    steps = [
        _look_at(desk, slot, attempts, receipts, heads)
        for slot, attempts in watched
        if slot.nonce < used or not _may_wait(slot, attempts, receipts, heads)
    ]
    done = [step for step in steps if step is not None]
    if len(done) < 2:  # noqa: PLR2004  one step speaks for itself
        return done[0] if done else None
    kinds = [step.did for step in done]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return Step("confirmed", done[0].intent, counted)


def _may_wait(
    slot: Slot, attempts: list[Attempt], receipts: dict[Hash, Receipt], heads: Heads
) -> bool:
    """Tell whether nothing is to be done about a call that is in the pool, or not even sent."""
    if any(one.signed.tx_hash in receipts for one in attempts) or slot.state is SlotState.MINED:
        return False
    sent_at = attempts[-1].last_sent_block if attempts else None
    return sent_at is None or abs(heads.latest.number - sent_at) < _REPEAT_BLOCKS


def _still_there(desk: Desk, slots: list[Slot], heads: Heads) -> list[Slot]:
    """Return the mined slots whose block is still the chain's, and not final."""
    young = [
        one
        for one in slots
        if one.block_number is not None and not desk.is_final(one.block_number, heads)
    ]
    numbers = sorted({one.block_number for one in young if one.block_number is not None})
    hashes = block_hashes(desk.publisher.lines, numbers)
    return [one for one in young if hashes.get(one.block_number or 0) == one.block_hash]


def _look_at(
    desk: Desk,
    slot: Slot,
    attempts: list[Attempt],
    receipts: dict[Hash, Receipt],
    heads: Heads,
) -> Step | None:
    won = next((one for one in attempts if one.signed.tx_hash in receipts), None)
    if won is None:
        return _missing(desk, slot, attempts, heads)
    receipt = receipts[won.signed.tx_hash]
    is_known = slot.state is SlotState.MINED and slot.won_attempt == won.id
    if not is_known or slot.block_hash != receipt.block_hash:
        return _mined(desk, slot, won, receipt)
    if desk.is_final(receipt.block_number, heads):
        return _settle(desk, slot, receipt)
    return None


def _mined(desk: Desk, slot: Slot, won: Attempt, receipt: Receipt) -> Step:
    mined = Mined(
        receipt.block_number,
        receipt.block_hash,
        receipt.succeeded,
        receipt.gas_used,
        receipt.gas_price,
    )
    with desk.writing() as unit:
        unit.outbox.slots.mined(slot, won, mined, desk.stamp)
    outcome = "worked" if receipt.succeeded else "failed"
    return Step("mined", won.intent_id, f"block {receipt.block_number}, {outcome}")


def _settle(desk: Desk, slot: Slot, receipt: Receipt) -> Step:
    with desk.store.reading() as unit:
        intent = unit.outbox.intents.named(slot.intent_id)
    if intent is None:
        raise FatalError(f"outbox intent {slot.intent_id} is missing")
    reason = None
    if not receipt.succeeded:
        call = Call(intent.wish.account.address, intent.wish.contract, intent.wish.calldata)
        reason = why_reverted(desk.publisher.lines, receipt, call)
    with desk.writing() as unit:
        unit.outbox.slots.settle(slot, desk.stamp, reason)
        close_report(unit, intent, reason)
    did = f"{intent.wish.kind} {'reverted' if reason else 'final'}"
    return Step(did, intent.id, reason or f"block {receipt.block_number}")


def _missing(desk: Desk, slot: Slot, attempts: list[Attempt], heads: Heads) -> Step | None:
    """No receipt: a reorg took it, somebody else used the nonce, or it still waits in the pool."""
    if slot.state is SlotState.MINED:
        with desk.writing() as unit:
            unit.outbox.slots.unmined(slot, desk.stamp)
        return Step("reorged", slot.intent_id, f"was in block {slot.block_number}")
    final = hex(heads.final.number)
    if nonce_at(desk.publisher.lines, desk.account.address, final) > slot.nonce:
        return _foreign(desk, slot)
    if slot.state is SlotState.LIVE and attempts and not desk.is_stopped():
        newest = attempts[-1]
        # A reorg may have put the head below the block that it was sent at.
        if abs(heads.latest.number - (newest.last_sent_block or 0)) >= _REPEAT_BLOCKS:
            return send_attempt(desk, slot, newest, heads)
    return None


def _foreign(desk: Desk, slot: Slot) -> Step:
    reason = f"nonce {slot.nonce} was used by a transaction that is not ours"
    with desk.writing() as unit:
        intent = unit.outbox.intents.named(slot.intent_id)
        unit.outbox.slots.lose_to_foreign(slot, desk.stamp)
        unit.outbox.senders.pause(desk.account, PauseKind.FOREIGN, reason, desk.stamp)
        if intent is not None:
            close_report(unit, intent, reason)
    return Step("foreign", slot.intent_id, reason)
