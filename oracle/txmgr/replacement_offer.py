"""Prices the replacement of an unconfirmed transaction, and names the limit that forbids it.

See docs/explanation/transactions.md#fees.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.signing.signer import Fees
from oracle.store.outbox.records import Attempt
from oracle.txmgr.budget import l1_cost, tightest
from oracle.txmgr.client.fee_quote import bumped, raised, raised_both, wanted_in
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import TxContext
from oracle.txmgr.unconfirmed import UnconfirmedNonce

# The pool refused the newest attempt for its fee.
TOO_LITTLE = frozenset({SendOutcome.UNDERPRICED.value, SendOutcome.UNDERPRICED_REPLACEMENT.value})


class ReplacementFees(NamedTuple):
    """Fees that beat every attempt signed for a nonce; None if `setting` allows no more than `cap`.

    `market_fee`: the fee for the next block; `min_replacement_fee`: the fee at which pools accept
    a replacement. All are in wei per gas.
    """

    fees: Fees | None
    market: int
    replacing: int
    cap: int
    setting: str
    # The rollup's charge in addition to gas, in wei; a part of the reserved cost.
    beside: int

    @property
    def why_none(self) -> str:
        """The reason why no fees are possible, as text for operators."""
        return (
            f"the market asks for {self.market} wei for each gas, a replacement takes "
            f"{self.replacing}, and {self.setting} allows {max(self.cap, 0)}"
        )


class Replacement(NamedTuple):
    """A replacement that may be signed for a nonce; a dry run stops here."""

    waiting: UnconfirmedNonce
    gas_limit: int
    fees: Fees
    # The rollup's charge in addition to gas, in wei.
    beside: int = 0

    @property
    def cost(self) -> int:
        """The maximum cost in wei."""
        return self.gas_limit * self.fees.max_fee + self.beside

    @property
    def text(self) -> str:
        """The fee as text for operators."""
        return f"up to {self.fees.max_fee} wei for each gas"


def offer(
    context: TxContext,
    waiting: UnconfirmedNonce,
    limit: int,
    calldata: str,
    *,
    must_land: bool = False,
) -> ReplacementFees:
    """Price a replacement of `gas_limit` gas within every cap, every budget and the balance.

    If the market is above them, the fees are raised by the minimum only: offering everything would
    leave no room for the raise that lands. With `must_land` there are no fees in that case.

    Raises:
        TransientError: no endpoint returns the fee market or the balance.
    """
    now, last = context.market(), dearest(waiting.attempts)
    beside = l1_cost(context, calldata, limit)
    cap, setting = _cap(context, waiting, limit, beside)
    newest, asked = waiting.newest, now.base_fee + now.tip
    said = newest.last_error_text if newest.last_error_class in TOO_LITTLE else None
    fees = (
        raised_both(last, cap)
        if asked > cap and not must_land
        else bumped(last, now, cap, wanted_in(said or ""))
    )
    return ReplacementFees(fees, asked, raised(last.max_fee), cap, setting, beside)


def dearest(attempts: Sequence[Attempt]) -> Fees:
    """Return the fees that a bump has to beat: the highest of each fee signed for the nonce."""
    return Fees(
        max(one.signed.max_fee_wei for one in attempts),
        max(one.signed.tip_wei for one in attempts),
    )


def _cap(
    context: TxContext, waiting: UnconfirmedNonce, limit: int, beside: int
) -> tuple[int, str]:
    """Return the maximum fee per gas, and the name of the limit.

    `l1_cost_wei` is the rollup's charge in addition to gas, in wei.
    """
    balance = context.balance()
    with context.store.reading() as uow:
        nonce_budget, setting = tightest(uow, context, waiting.slot)
        slots = uow.outbox.slots
        others = slots.reserved(context.account) - slots.cost_of(waiting.slot)
    caps = [
        (context.publisher.caps.fee_per_gas, "limits.max_fee_per_gas_wei"),
        ((nonce_budget - beside) // limit, setting),
        ((balance - others - beside) // limit, f"the ether of {context.account.address}"),
    ]
    return min(caps)
