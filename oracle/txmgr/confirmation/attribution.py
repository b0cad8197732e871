"""Whose transaction used a nonce of ours that has no receipt: ours, somebody else's, or unknown.

A count alone decides nothing. Ours it is by our own log or by a stored hash; somebody else's only
with that transaction in hand, as every endpoint that answers shows it. Else it waits, visibly.
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
from oracle.txmgr.client.nonce_uses import Evidence, Wanted, use_of
from oracle.txmgr.client.receipts import ReceiptQuorum
from oracle.txmgr.confirmation.finalizer import note_foreign
from oracle.txmgr.context import StepResult, TxContext

# The class of a call whose nonce is used, while no endpoint shows a receipt.
NO_RECEIPT = "no_receipt"
# A fork may put a transaction below the head that its nonce was given out at.
_BLOCKS_UNDER_OPENING = 64


def attribute(
    context: TxContext,
    slot: NonceSlot,
    attempts: Sequence[Attempt],
    seen: ReceiptQuorum,
    heads: Heads,
) -> StepResult | None:
    """Write down whose transaction used a nonce, where no receipt of ours is shown.

    None: that is not known, and nothing new is known of it.
    """
    with context.store.reading() as uow:
        ours = _stored(uow, slot, attempts)
        block = _logged(uow, slot, attempts, ours)
    if block is not None:
        return _wait(context, slot, f"by ours: our log of block {block} is of it")
    if not context.searches.is_due(slot.nonce, heads.final.number):
        return None
    wanted = Wanted(context.account.chain_id, context.account.address, slot.nonce)
    found = use_of(context.publisher.lines, wanted, heads.final)
    if found.use is not None and found.is_agreed and found.use.hash not in ours:
        hashes = [one.signed.tx_hash for one in attempts]
        # Who knows any of ours contradicts.
        if not hashes or found.endpoints.isdisjoint(seen.places - seen.without(hashes)):
            return note_foreign(context, slot, found.use)
    context.searches.was_in_vain(slot.nonce, heads.final.number)
    return _wait(context, slot, _by_whom(found, ours))


def note_hidden(context: TxContext, slot: NonceSlot) -> StepResult | None:
    """Say that the receipt of a mined nonce is shown no more; None: that is said already."""
    return _wait(context, slot, f"by ours: it was mined in block {slot.block_number}")


def why_unproven(context: TxContext) -> str | None:
    """Return which nonce is used while no receipt of ours is shown; None: there is none."""
    with context.store.reading() as uow:
        told = without_receipt(uow, context.account)
    return f"{context.account.address}: {told[0].error_text}" if told else None


def without_receipt(uow: UnitOfWork, account: Account) -> list[Intent]:
    """Return the calls whose nonce is used, while no endpoint shows a receipt."""
    states = [IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED]
    sent = uow.outbox.intents.in_states(account, states)
    return [one for one in sent if one.error_class == NO_RECEIPT]


def _stored(uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt]) -> set[Hash]:
    """Return every hash that we hold of this nonce: what was signed for it, or rebuilt."""
    rebuilt = [
        one.error_text.split()[0]
        for one in uow.outbox.intents.bound_to(slot.account, slot.nonce)
        if one.request.kind == REBUILT and one.error_text
    ]
    return {*(one.signed.tx_hash for one in attempts), *map(Hash, rebuilt)}


def _logged(
    uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt], ours: Collection[Hash]
) -> int | None:
    """Return the block in which our own raw logs have a transaction of ours; None: in none."""
    sent = [one.first_sent_block for one in attempts if one.first_sent_block is not None]
    began = slot.opened_block or min(sent, default=0)
    if not began or not ours:
        return None
    return uow.logs.block_of(ours, max(0, began - _BLOCKS_UNDER_OPENING))


def _by_whom(found: Evidence, ours: Collection[Hash]) -> str:
    use = found.use
    if use is None:
        return "and no endpoint shows by which transaction"
    if use.hash in ours:
        return f"by ours: block {use.block_number} has {use.hash}"
    return f"by {use.hash} of block {use.block_number}, as too few endpoints show"


def _wait(context: TxContext, slot: NonceSlot, by_whom: str) -> StepResult | None:
    """Say why it waits, where people look for that; None: that is said already."""
    text = f"nonce {slot.nonce} is used {by_whom}; no endpoint shows a receipt of ours"
    with context.writing() as uow:
        intent = uow.outbox.intents.named(slot.intent_id)
        if intent is None or not uow.outbox.intents.set_error(
            intent, (NO_RECEIPT, text), context.stamp
        ):
            return None
    return StepResult(f"{intent.request.kind} without a receipt", intent.id, text)
