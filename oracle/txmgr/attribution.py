"""Finds out which transaction used a nonce of ours that has no receipt.

A transaction count alone decides nothing. A transaction is ours if our own logs or a stored hash
prove it, and foreign only if every endpoint that answers shows that very transaction. Otherwise
the nonce waits, with a visible reason.
"""

from collections.abc import Collection, Sequence

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    REBUILT,
    Account,
    Attempt,
    Intent,
    IntentState,
    NonceSlot,
)
from oracle.txmgr.client.nonce_uses import NonceQuery, Use, use_of
from oracle.txmgr.client.receipts import ReceiptQuorum
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.finalizer import note_foreign

# The error class of a call whose nonce is used although no endpoint shows a receipt.
NO_RECEIPT = "no_receipt"
# A reorg may include a transaction below the head at which its nonce was assigned.
_BLOCKS_UNDER_OPENING = 64


def attribute(
    context: TxContext,
    slot: NonceSlot,
    attempts: Sequence[Attempt],
    seen: ReceiptQuorum,
    heads: Heads,
) -> StepResult | None:
    """Store which transaction used a nonce that has no receipt; return None if nothing is new."""
    with context.store.reading() as uow:
        own_hashes = _stored_hashes(uow, slot, attempts)
        block = _logged_block(uow, slot, attempts, own_hashes)
    if block is not None:
        return _note_wait(context, slot, f"by ours: our log of block {block} is of it")
    if not context.searches.is_due(slot.nonce, heads.final.number):
        return None
    wanted = NonceQuery(context.account.chain_id, context.account.address, slot.nonce)
    evidence = use_of(context.publisher.lines, wanted, heads.final)
    use = evidence.use
    if use is not None and evidence.is_agreed and use.hash not in own_hashes:
        hashes = [attempt.signed.tx_hash for attempt in attempts]
        # An endpoint that shows one of our transactions contradicts.
        if not hashes or evidence.endpoints.isdisjoint(seen.endpoints - seen.without(hashes)):
            return note_foreign(context, slot, use)
    context.searches.was_in_vain(slot.nonce, heads.final.number)
    return _note_wait(context, slot, _use_text(use, own_hashes))


def note_hidden(context: TxContext, slot: NonceSlot) -> StepResult | None:
    """Store that the receipt of a mined nonce is gone; return None if that is stored already."""
    return _note_wait(context, slot, f"by ours: it was mined in block {slot.block_number}")


def why_unproven(context: TxContext) -> str | None:
    """Return the error of a used nonce without a receipt, or None if there is none."""
    with context.store.reading() as uow:
        intents = without_receipt(uow, context.account)
    return f"{context.account.address}: {intents[0].error_text}" if intents else None


def without_receipt(uow: UnitOfWork, account: Account) -> list[Intent]:
    """Return the intents whose nonce is used although no endpoint shows a receipt."""
    states = [IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED]
    sent = uow.outbox.intents.in_states(account, states)
    return [intent for intent in sent if intent.error_class == NO_RECEIPT]


def _stored_hashes(uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt]) -> set[Hash]:
    """Return every stored transaction hash of this nonce, signed or rebuilt."""
    rebuilt = [
        intent.error_text.split()[0]
        for intent in uow.outbox.intents.bound_to(slot.account, slot.nonce)
        if intent.request.kind == REBUILT and intent.error_text
    ]
    return {*(attempt.signed.tx_hash for attempt in attempts), *map(Hash, rebuilt)}


def _logged_block(
    uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt], own_hashes: Collection[Hash]
) -> int | None:
    """Return the block whose stored logs contain a transaction of ours, or None."""
    sent_blocks = [
        attempt.first_sent_block for attempt in attempts if attempt.first_sent_block is not None
    ]
    opened_block = slot.opened_block or min(sent_blocks, default=0)
    if not opened_block or not own_hashes:
        return None
    return uow.logs.block_of(own_hashes, max(0, opened_block - _BLOCKS_UNDER_OPENING))


def _use_text(use: Use | None, own_hashes: Collection[Hash]) -> str:
    if use is None:
        return "and no endpoint shows by which transaction"
    if use.hash in own_hashes:
        return f"by ours: block {use.block_number} has {use.hash}"
    return f"by {use.hash} of block {use.block_number}, as too few witnesses show"


def _note_wait(context: TxContext, slot: NonceSlot, use_text: str) -> StepResult | None:
    """Store on the intent why its nonce waits; return None if that is stored already."""
    text = f"nonce {slot.nonce} is used {use_text}; no endpoint shows a receipt of ours"
    with context.writing() as uow:
        intent = uow.outbox.intents.named(slot.intent_id)
        if intent is None or not uow.outbox.intents.set_error(
            intent, (NO_RECEIPT, text), context.stamp
        ):
            return None
    return StepResult(f"{intent.request.kind} without a receipt", intent.id, text)
