"""A nonce without a receipt: its call, its attempts, and whether it is used."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, Intent, NonceSlot, NonceState
from oracle.txmgr.client.chain_nonces import fetch_nonce_counts
from oracle.txmgr.client.receipts import (
    Receipt,
    ReceiptQuorum,
    exclude_blocks,
    fetch_receipt_quorum,
    is_block_reorged,
)
from oracle.txmgr.context import AccountContext


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


def find_takeover_target(
    uow: UnitOfWork, context: AccountContext, ready_intent: Intent
) -> UnconfirmedNonce | None:
    """Return the unconfirmed call of the same kind whose nonce may be taken over.

    The result is None if there is none, or if the kind takes over no nonces.
    """
    if not context.registry.get_kind(ready_intent).takes_over:
        return None
    for slot in uow.outbox.slots.list_unfinished(context.account):
        if slot.state is not NonceState.LIVE:
            continue
        intent = uow.outbox.intents.get(slot.intent_id)
        attempts = uow.outbox.slots.list_attempts(slot)
        is_sent = bool(attempts) and attempts[-1].sends > 0
        if intent is not None and intent.request.kind == ready_intent.request.kind and is_sent:
            return UnconfirmedNonce(slot, intent, attempts)
    return None


def is_nonce_mined(context: AccountContext, unconfirmed: UnconfirmedNonce) -> bool:
    """Return whether an endpoint shows an attempt in a block, or enough count the nonce as used.

    After an outage of an hour a nonce is overdue although it was used long ago, so this is checked
    before anything more is signed for it.

    Raises:
        TransientError: no endpoint answers.
    """
    pool_view = context.sender_account.pool_view
    hashes = [attempt.signed.tx_hash for attempt in unconfirmed.attempts]
    if (
        find_canonical_receipt(context, fetch_receipt_quorum(pool_view, hashes), hashes)
        is not None
    ):
        return True
    # The nonce may be used by any transaction: endpoints that show no receipt may hide ours.
    counts = fetch_nonce_counts(pool_view, context.account.address)
    return pool_view.quorum.is_reached_by(
        count.endpoint for count in counts if count.mined > unconfirmed.slot.nonce
    )


def find_canonical_receipt(
    context: AccountContext,
    receipt_quorum: ReceiptQuorum,
    hashes: Sequence[Hash],
    known_block_hash: Hash | None = None,
) -> Receipt | None:
    """Return the receipt that the endpoints show, or None; `known_block_hash` is preferred.

    A receipt that too few witnesses show counts while its block is canonical at the endpoints that
    have reached the indexed block. An endpoint stalled on a fork keeps showing blocks that left
    the chain.
    """
    reorged_hashes: set[Hash] = set()
    while True:
        receipt = exclude_blocks(receipt_quorum, reorged_hashes).find_receipt(
            hashes, known_block_hash
        )
        if receipt is None or receipt_quorum.has_agreement_on(receipt):
            return receipt
        if not is_block_reorged(
            context.get_synced_pool_view(), receipt.block_number, receipt.block_hash
        ):
            return receipt
        reorged_hashes.add(receipt.block_hash)


def check_not_mined(context: AccountContext, unconfirmed: UnconfirmedNonce) -> None:
    """Raise an error if the nonce of a transaction that should be replaced is already used.

    Raises:
        InputError: an attempt is in a block.
        TransientError: no endpoint answers.
    """
    if is_nonce_mined(context, unconfirmed):
        raise InputError(
            f"intent {unconfirmed.intent.id} is already in a block; `qos-oracle run` records it"
        )
