"""Finds the transaction that used a nonce for which no endpoint returns a receipt.

A transaction count does not show which transaction used the nonce. The transaction is attributed
to the daemon if an indexed log or a stored hash proves this, and to a foreign sender only if every
endpoint that answers returns this very transaction. Otherwise the nonce waits, and the reason is
shown to the operator.
"""

from collections.abc import Collection, Sequence

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import REBUILT, Account, Attempt, Intent, IntentState, NonceSlot
from oracle.txmgr.client.nonce_uses import NonceQuery, NonceUse, find_nonce_use
from oracle.txmgr.client.receipts import ReceiptQuorum
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.finalizer import record_foreign_use

# Error class of a call whose nonce the chain has used although no endpoint returns a receipt.
NO_RECEIPT = "no_receipt"
# Number of blocks below the head at which the nonce was assigned, from which the search starts. A
# reorg may move the transaction to a lower height.
_REORG_MARGIN_BLOCKS = 64


def attribute_used_nonce(
    context: AccountContext,
    slot: NonceSlot,
    attempts: Sequence[Attempt],
    receipt_quorum: ReceiptQuorum,
    heads: Heads,
) -> StepResult | None:
    """Record which transaction used a nonce without a receipt.

    Return None if nothing new was found.
    """
    with context.store.read_transaction() as uow:
        own_hashes = _load_own_transaction_hashes(uow, slot, attempts)
        logged_block = _find_logged_block(uow, slot, attempts, own_hashes)
    if logged_block is not None:
        return _record_nonce_wait_reason(
            context, slot, f"by an own transaction with a log in block {logged_block}"
        )
    if not context.search_backoff.is_due(slot.nonce, heads.final.number):
        return None
    query = NonceQuery(context.account.chain_id, context.account.address, slot.nonce)
    nonce_evidence = find_nonce_use(context.sender_account.pool_view, query, heads.final)
    nonce_use = nonce_evidence.use
    if nonce_use is not None and nonce_evidence.is_agreed and nonce_use.hash not in own_hashes:
        hashes = [attempt.signed.tx_hash for attempt in attempts]
        # If one of these endpoints returns a receipt for the daemon's own transaction, the
        # evidence contradicts itself. No foreign use is then recorded.
        if not hashes or nonce_evidence.endpoints.isdisjoint(
            receipt_quorum.endpoints - receipt_quorum.list_endpoints_without_receipt(hashes)
        ):
            return record_foreign_use(context, slot, nonce_use)
    context.search_backoff.record_failure(slot.nonce, heads.final.number)
    return _record_nonce_wait_reason(context, slot, _describe_nonce_use(nonce_use, own_hashes))


def record_missing_receipt(context: AccountContext, slot: NonceSlot) -> StepResult | None:
    """Record that a mined nonce has lost its receipt.

    Return None if this is already recorded.
    """
    return _record_nonce_wait_reason(
        context, slot, f"by an own transaction, mined in block {slot.block_number}"
    )


def find_missing_receipt_reason(context: AccountContext) -> str | None:
    """Return the error of a used nonce without a receipt, or None if there is none."""
    with context.store.read_transaction() as uow:
        intents = find_intents_without_receipt(uow, context.account)
    return f"{context.account.address}: {intents[0].error_text}" if intents else None


def find_intents_without_receipt(uow: UnitOfWork, account: Account) -> list[Intent]:
    """Return the intents whose nonce is used but has no receipt at any endpoint."""
    states = [IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED]
    sent_intents = uow.outbox.intents.list_in_states(account, states)
    return [intent for intent in sent_intents if intent.error_class == NO_RECEIPT]


def _load_own_transaction_hashes(
    uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt]
) -> set[Hash]:
    """Load the hashes of the daemon's own transactions with this nonce.

    Transactions that a rebuild read from the chain are included.
    """
    rebuilt_hashes = [
        intent.error_text.split()[0]
        for intent in uow.outbox.intents.list_for_nonce(slot.account, slot.nonce)
        if intent.request.kind == REBUILT and intent.error_text
    ]
    return {*(attempt.signed.tx_hash for attempt in attempts), *map(Hash, rebuilt_hashes)}


def _find_logged_block(
    uow: UnitOfWork, slot: NonceSlot, attempts: Sequence[Attempt], own_hashes: Collection[Hash]
) -> int | None:
    """Return the block whose stored logs contain one of these transactions, or None."""
    sent_blocks = [
        attempt.first_sent_block for attempt in attempts if attempt.first_sent_block is not None
    ]
    opened_block = slot.opened_block or min(sent_blocks, default=0)
    if not opened_block or not own_hashes:
        return None
    return uow.logs.find_transaction_block(own_hashes, max(0, opened_block - _REORG_MARGIN_BLOCKS))


def _describe_nonce_use(nonce_use: NonceUse | None, own_hashes: Collection[Hash]) -> str:
    if nonce_use is None:
        return "by a transaction that no endpoint shows in a final block yet"
    if nonce_use.hash in own_hashes:
        return f"by own transaction {nonce_use.hash} of block {nonce_use.block_number}"
    return (
        f"by {nonce_use.hash} of block {nonce_use.block_number}, but too few witnesses confirm it"
    )


def _record_nonce_wait_reason(
    context: AccountContext, slot: NonceSlot, use_text: str
) -> StepResult | None:
    """Store in the intent why its nonce waits.

    Return None if this is already stored.
    """
    text = f"nonce {slot.nonce} is used {use_text}; no endpoint shows a receipt of ours"
    with context.write_transaction() as uow:
        intent = uow.outbox.intents.get(slot.intent_id)
        if intent is None or not uow.outbox.intents.set_error(
            intent, (NO_RECEIPT, text), context.stamp
        ):
            return None
    return StepResult(f"{intent.request.kind} without a receipt", intent.id, text)
