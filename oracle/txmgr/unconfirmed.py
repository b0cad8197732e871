"""A nonce without a receipt: what it serves, what was signed for it, whether it is used."""

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
    """A nonce without a receipt, what it serves, and what was signed for it, oldest first."""

    slot: NonceSlot
    intent: Intent
    attempts: Sequence[Attempt]

    @property
    def newest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def sent_block(self) -> int:
        """The head when the newest bytes were sent first."""
        return self.newest.first_sent_block or 0


def stuck_beside(uow: UnitOfWork, context: TxContext, ready: Intent) -> UnconfirmedNonce | None:
    """Return the call of the same kind that waits for a receipt, whose nonce may be taken.

    None: there is none, or this kind takes no nonce over.
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
    """Tell whether an endpoint has any of its bytes in a block, or enough count it as used.

    A daemon that was down for an hour finds its nonce overdue, and long used: this is checked
    before anything more is signed for it.

    Raises:
        TransientError: no endpoint answers.
    """
    lines = context.publisher.lines
    hashes = [attempt.signed.tx_hash for attempt in waiting.attempts]
    if receipt_that_stands(context, look_for(lines, hashes), hashes) is not None:
        return True
    # Used by any transaction: endpoints that show no receipt may be hiding ours.
    counts = counts_of(lines, context.account.address)
    return lines.quorum.is_reached_by(
        count.endpoint for count in counts if count.mined > waiting.slot.nonce
    )


def receipt_that_stands(
    context: TxContext, seen: ReceiptQuorum, hashes: Sequence[Hash], known: Hash | None = None
) -> Receipt | None:
    """Return the receipt that the endpoints show, the one in the `known` block first, or None.

    A receipt that too few witnesses show counts while its block is the chain's at the endpoints
    that have reached the folded block. An endpoint that stands still on a fork shows for ever
    what the chain has left.
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
    """Refuse to replace a transaction whose nonce is used.

    Raises:
        InputError: some of its bytes are in a block.
        TransientError: no endpoint answers.
    """
    if is_mined(context, waiting):
        raise InputError(
            f"intent {waiting.intent.id} is in a block already: `qos-oracle run` takes note of it"
        )
