"""Loads a nonce without a receipt, checks whether it is used, and prices a replacement.

A replacement is priced within every limit. If a limit forbids it, the reason names the limit. See
docs/explanation/transactions.md#fees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.signing.signer import Fees
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, Intent, NonceSlot, NonceState
from oracle.txmgr.budget import fetch_l1_cost, find_tightest_limit
from oracle.txmgr.client.chain_nonces import fetch_nonce_counts
from oracle.txmgr.client.fee_quote import (
    bump_fees,
    parse_required_fees,
    raise_both_fees,
    raise_fee,
)
from oracle.txmgr.client.receipts import (
    Receipt,
    ReceiptQuorum,
    exclude_reorged_blocks,
    fetch_receipt_quorum,
    is_block_reorged,
)
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import AccountContext

# Errors with which an endpoint rejects an attempt if its fee is too low.
UNDERPRICED = frozenset({SendOutcome.UNDERPRICED.value, SendOutcome.UNDERPRICED_REPLACEMENT.value})


@dataclass(frozen=True, slots=True)
class UnconfirmedNonce:
    """A nonce without a receipt, with its intent and its attempts, oldest first."""

    slot: NonceSlot
    intent: Intent
    attempts: Sequence[Attempt]

    @property
    def newest_attempt(self) -> Attempt:
        return self.attempts[-1]

    @property
    def sent_block(self) -> int:
        """The head block when the newest attempt was first sent."""
        return self.newest_attempt.first_sent_block or 0


def load_requested_intent(uow: UnitOfWork, intent_id: int) -> Intent:
    """Return the intent that an operator requests by its id.

    Raises:
        InputError: there is no such intent.
    """
    intent = uow.outbox.intents.get(intent_id)
    if intent is None:
        raise InputError(
            f"intent {intent_id} was not found; `qos-oracle outbox list` shows all intents"
        )
    return intent


def find_takeover_target(
    uow: UnitOfWork, context: AccountContext, ready_intent: Intent
) -> UnconfirmedNonce | None:
    """Return the unconfirmed call whose nonce a ready call of the same kind may take.

    The result is None if there is no such call, or if this kind never takes over nonces.
    """
    if not context.registry.get_kind(ready_intent).takes_over:
        return None
    for slot in uow.outbox.slots.list_unfinished(context.account):
        if slot.state is not NonceState.LIVE:
            continue
        intent = uow.outbox.intents.get(slot.intent_id)
        attempts = uow.outbox.slots.list_attempts(slot)
        was_sent = bool(attempts) and attempts[-1].sends > 0
        if intent is not None and intent.request.kind == ready_intent.request.kind and was_sent:
            return UnconfirmedNonce(slot, intent, attempts)
    return None


def is_nonce_mined(context: AccountContext, slot: NonceSlot, attempts: Sequence[Attempt]) -> bool:
    """Return whether a mined transaction has used a nonce.

    The nonce is used if an endpoint has one of its attempts in a block, or if the transaction
    counts of enough endpoints include the nonce. Call this function before every further signature
    for the nonce, because after an outage a nonce may seem stuck although it was used long ago.

    Raises:
        TransientError: no endpoint answers.
    """
    pool_view = context.sender_account.pool_view
    hashes = [attempt.signed.tx_hash for attempt in attempts]
    if (
        find_canonical_receipt(context, fetch_receipt_quorum(pool_view, hashes), hashes)
        is not None
    ):
        return True
    # The nonce may be used even without a receipt. Any other transaction may have used it, or one
    # whose receipt the endpoints lack.
    counts = fetch_nonce_counts(pool_view, context.account.address)
    return pool_view.quorum.is_reached_by(
        count.endpoint for count in counts if count.mined > slot.nonce
    )


def find_canonical_receipt(
    context: AccountContext,
    receipt_quorum: ReceiptQuorum,
    hashes: Sequence[Hash],
    known_block_hash: Hash | None = None,
) -> Receipt | None:
    """Return the receipt of one of these transactions that the endpoints report, if any.

    If they report several receipts, the one in block `known_block_hash` is preferred. A receipt
    from too few witnesses counts only while its block is canonical at the endpoints that have the
    indexed block, because an endpoint that stalled on a fork keeps returning blocks that have left
    the chain.
    """
    reorged_hashes: set[Hash] = set()
    while True:
        receipt = exclude_reorged_blocks(receipt_quorum, reorged_hashes).find_receipt(
            hashes, known_block_hash
        )
        if receipt is None or receipt_quorum.has_agreement_on(receipt):
            return receipt
        if not is_block_reorged(
            context.get_synced_pool_view(), receipt.block_number, receipt.block_hash
        ):
            return receipt
        reorged_hashes.add(receipt.block_hash)


def check_nonce_not_mined(context: AccountContext, unconfirmed_nonce: UnconfirmedNonce) -> None:
    """Check that the nonce of a transaction to replace is still unused.

    Raises:
        InputError: an attempt is in a block.
        TransientError: no endpoint answers.
    """
    if is_nonce_mined(context, unconfirmed_nonce.slot, unconfirmed_nonce.attempts):
        raise InputError(
            f"the transaction of intent {unconfirmed_nonce.intent.id} is already in a block; "
            "`qos-oracle run` records the outcome"
        )


class Replacement(NamedTuple):
    """A replacement transaction that may be signed for a nonce.

    Its fees exceed the fees of every attempt that was signed for the nonce. `l1_cost_wei` is the
    rollup's fee in addition to gas; it is part of the reserved cost.
    """

    unconfirmed: UnconfirmedNonce
    gas_limit: int
    fees: Fees
    l1_cost_wei: int

    @property
    def max_cost(self) -> int:
        """The maximum cost of the replacement in wei."""
        return self.gas_limit * self.fees.max_fee + self.l1_cost_wei

    @property
    def fee_text(self) -> str:
        """The maximum fee as a text for operators."""
        return f"up to {self.fees.max_fee} wei per gas"


def price_replacement(
    context: AccountContext,
    unconfirmed_nonce: UnconfirmedNonce,
    gas_limit: int,
    calldata: str,
    *,
    must_land: bool = False,
) -> tuple[Replacement | None, str]:
    """Price a replacement with `gas_limit` gas within all caps, budgets and the balance.

    If the market is above these limits, the fees are raised only by the minimum, because offering
    the maximum would make a later raise impossible. With `must_land`, no replacement is returned
    in that case. If the first value is None, the second value is the reason, as text for
    operators.

    Raises:
        TransientError: no endpoint returns the fee market or the balance.
    """
    fee_market = context.fetch_fee_market()
    last_fees = compute_highest_fees(unconfirmed_nonce.attempts)
    l1_cost_wei = fetch_l1_cost(context, calldata, gas_limit)
    fee_cap, limiting_setting = _compute_fee_cap(
        context, unconfirmed_nonce, gas_limit, l1_cost_wei
    )
    newest_attempt = unconfirmed_nonce.newest_attempt
    market_fee = fee_market.base_fee + fee_market.tip
    error_text = (
        newest_attempt.last_error_text if newest_attempt.last_error_class in UNDERPRICED else None
    )
    fees = (
        raise_both_fees(last_fees, fee_cap)
        if market_fee > fee_cap and not must_land
        else bump_fees(last_fees, fee_market, fee_cap, parse_required_fees(error_text or ""))
    )
    if fees is not None:
        return Replacement(unconfirmed_nonce, gas_limit, fees, l1_cost_wei), ""
    return None, (
        f"the market fee is {market_fee} wei per gas, a replacement needs "
        f"{raise_fee(last_fees.max_fee)}, but {limiting_setting} allows {max(fee_cap, 0)}"
    )


def compute_highest_fees(attempts: Sequence[Attempt]) -> Fees:
    """Return the highest of each fee signed for the nonce.

    A bump must exceed both fees.
    """
    return Fees(
        max(attempt.signed.max_fee_wei for attempt in attempts),
        max(attempt.signed.tip_wei for attempt in attempts),
    )


def _compute_fee_cap(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, gas_limit: int, l1_cost_wei: int
) -> tuple[int, str]:
    """Return the maximum fee per gas, and the limit from which it follows.

    `l1_cost_wei` is the rollup's fee in addition to gas, in wei.
    """
    balance = context.fetch_balance()
    with context.store.read_transaction() as uow:
        nonce_budget, limiting_setting = find_tightest_limit(uow, context, unconfirmed_nonce.slot)
        slots = uow.outbox.slots
        reserved_elsewhere = slots.sum_reserved_wei(context.account) - slots.compute_cost_wei(
            unconfirmed_nonce.slot
        )
    caps = [
        (context.sender_account.caps.fee_per_gas, "limits.max_fee_per_gas_wei"),
        ((nonce_budget - l1_cost_wei) // gas_limit, limiting_setting),
        (
            (balance - reserved_elsewhere - l1_cost_wei) // gas_limit,
            f"the balance of {context.account.address}",
        ),
    ]
    return min(caps)
