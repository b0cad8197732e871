"""Prices the replacement of an unconfirmed transaction, and names the limit that forbids it.

See docs/explanation/transactions.md#fees.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.signing.signer import Fees
from oracle.store.outbox.records import Attempt
from oracle.txmgr.budget import fetch_l1_cost, find_tightest_limit
from oracle.txmgr.client.fee_quote import (
    bump_fees,
    parse_required_fees,
    raise_both_fees,
    raise_fee,
)
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import AccountContext
from oracle.txmgr.unconfirmed import UnconfirmedNonce

# The pool refused the newest attempt for its fee.
UNDERPRICED = frozenset({SendOutcome.UNDERPRICED.value, SendOutcome.UNDERPRICED_REPLACEMENT.value})


class Replacement(NamedTuple):
    """A replacement that may be signed for a nonce; a dry run stops here.

    The fees exceed those of every attempt signed for the nonce. `l1_cost_wei` is the rollup's
    charge in addition to gas, a part of the reserved cost.
    """

    unconfirmed: UnconfirmedNonce
    gas_limit: int
    fees: Fees
    l1_cost_wei: int

    @property
    def max_cost(self) -> int:
        """The maximum cost in wei."""
        return self.gas_limit * self.fees.max_fee + self.l1_cost_wei

    @property
    def fee_text(self) -> str:
        """The fee as text for operators."""
        return f"up to {self.fees.max_fee} wei per gas"


def price_replacement(
    context: AccountContext,
    unconfirmed: UnconfirmedNonce,
    gas_limit: int,
    calldata: str,
    *,
    must_land: bool = False,
) -> tuple[Replacement | None, str]:
    """Price a replacement of `gas_limit` gas within every cap, every budget and the balance.

    If the market is above them, the fees are raised by the minimum only: offering everything would
    leave no room for the raise that lands. With `must_land` there is no replacement in that case.
    If there is none, the second value is the reason, as text for operators.

    Raises:
        TransientError: no endpoint returns the fee market or the balance.
    """
    fee_market, last_fees = context.fetch_fee_market(), compute_highest_fees(unconfirmed.attempts)
    l1_cost_wei = fetch_l1_cost(context, calldata, gas_limit)
    cap, setting = _find_fee_cap(context, unconfirmed, gas_limit, l1_cost_wei)
    newest, market_fee = unconfirmed.newest, fee_market.base_fee + fee_market.tip
    error_text = newest.last_error_text if newest.last_error_class in UNDERPRICED else None
    fees = (
        raise_both_fees(last_fees, cap)
        if market_fee > cap and not must_land
        else bump_fees(last_fees, fee_market, cap, parse_required_fees(error_text or ""))
    )
    if fees is not None:
        return Replacement(unconfirmed, gas_limit, fees, l1_cost_wei), ""
    return None, (
        f"the market fee is {market_fee} wei per gas, a replacement needs "
        f"{raise_fee(last_fees.max_fee)}, but {setting} allows {max(cap, 0)}"
    )


def compute_highest_fees(attempts: Sequence[Attempt]) -> Fees:
    """Return the fees that a bump must exceed: the highest of each fee signed for the nonce."""
    return Fees(
        max(attempt.signed.max_fee_wei for attempt in attempts),
        max(attempt.signed.tip_wei for attempt in attempts),
    )


def _find_fee_cap(
    context: AccountContext, unconfirmed: UnconfirmedNonce, gas_limit: int, l1_cost_wei: int
) -> tuple[int, str]:
    """Return the maximum fee per gas, and the name of the limit.

    `l1_cost_wei` is the rollup's charge in addition to gas, in wei.
    """
    balance = context.fetch_balance()
    with context.store.read_transaction() as uow:
        nonce_budget, setting = find_tightest_limit(uow, context, unconfirmed.slot)
        slots = uow.outbox.slots
        reserved_elsewhere = slots.sum_reserved_wei(context.account) - slots.compute_cost_wei(
            unconfirmed.slot
        )
    caps = [
        (context.sender_account.caps.fee_per_gas, "limits.max_fee_per_gas_wei"),
        ((nonce_budget - l1_cost_wei) // gas_limit, setting),
        (
            (balance - reserved_elsewhere - l1_cost_wei) // gas_limit,
            f"the balance of {context.account.address}",
        ),
    ]
    return min(caps)
