"""A nonce without a receipt: its call, its attempts, and whether it is used."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, Intent, NonceSlot, NonceState
from oracle.txmgr.client.chain_nonces import counts_of
from oracle.txmgr.client.receipts import (
    Receipt,
    ReceiptQuorum,
    is_block_gone,
    look_for,
    without_blocks,
)
from oracle.txmgr.context import TxContext


@dataclass(frozen=True, slots=True)
class UnconfirmedNonce:
    """A nonce without a receipt, its intent, and its attempts, oldest first."""

    slot: NonceSlot
    intent: Intent
    attempts: Sequence[Attempt]

    @property
    def newest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def sent_block(self) -> int:
        """The head when the newest attempt was first sent."""
        return self.newest.first_sent_block or 0


def stuck_beside(uow: UnitOfWork, context: TxContext, ready: Intent) -> UnconfirmedNonce | None:
    """Return the unconfirmed call of the same kind whose nonce may be taken over.

    The result is None if there is none, or if the kind takes over no nonces.
    """
    if not context.registry.kind_of(ready).takes_over:
        return None
    for slot in uow.outbox.slots.watched(context.account):
        if slot.state is not NonceState.LIVE:
            continue
        intent = uow.outbox.intents.named(slot.intent_id)
        attempts = uow.outbox.slots.attempts(slot)
        is_sent = bool(attempts) and attempts[-1].sends > 0
        if intent is not None and intent.request.kind == ready.request.kind and is_sent:
            return UnconfirmedNonce(slot, intent, attempts)
    return None


def is_mined(context: TxContext, waiting: UnconfirmedNonce) -> bool:
    """Return whether an endpoint has any attempt in a block, or enough count the nonce as used.

    After an outage of an hour a nonce is overdue although it was used long ago, so this is checked
    before anything more is signed for it.

    Raises:
        TransientError: no endpoint answers.
    """
    lines = context.publisher.lines
    hashes = [attempt.signed.tx_hash for attempt in waiting.attempts]
    if receipt_that_stands(context, look_for(lines, hashes), hashes) is not None:
        return True
    # The nonce may be used by any transaction: endpoints that show no receipt may hide ours.
    counts = counts_of(lines, context.account.address)
    return lines.quorum.is_reached_by(
        count.endpoint for count in counts if count.mined > waiting.slot.nonce
    )


def receipt_that_stands(
    context: TxContext, seen: ReceiptQuorum, hashes: Sequence[Hash], known: Hash | None = None
) -> Receipt | None:
    """Return the receipt that the endpoints show, preferring the `known` block, or None.

    A receipt that too few witnesses show counts while its block is canonical at the endpoints that
    have reached the indexed block. An endpoint stalled on a fork keeps showing blocks that left
    the chain.
    """
    gone: set[Hash] = set()
    while True:
        receipt = without_blocks(seen, gone).receipt(hashes, known)
        if receipt is None or seen.has_agreement_on(receipt):
            return receipt
        if not is_block_gone(context.lines(), receipt.block_number, receipt.block_hash):
            return receipt
        gone.add(receipt.block_hash)


def refuse_mined(context: TxContext, waiting: UnconfirmedNonce) -> None:
    """Raise an error if the nonce of a transaction to be replaced is used.

    Raises:
        InputError: an attempt is in a block.
        TransientError: no endpoint answers.
    """
    if is_mined(context, waiting):
        raise InputError(
            f"intent {waiting.intent.id} is in a block already: `qos-oracle run` takes note of it"
        )
