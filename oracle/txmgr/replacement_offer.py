"""What may be offered in the place of bytes that wait, and which limit is in the way.

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

# A pool has refused the newest bytes for what they pay.
TOO_LITTLE = frozenset({SendOutcome.UNDERPRICED.value, SendOutcome.UNDERPRICED_REPLACEMENT.value})


class ReplacementFees(NamedTuple):
    """Fees that beat everything signed for a nonce; None: `setting` allows `cap`, and no more.

    `market`: what the next block takes; `replacing`: what pools take in the place of the old
    bytes. All in wei for a unit of gas.
    """

    fees: Fees | None
    market: int
    replacing: int
    cap: int
    setting: str
    # What a rollup takes beside gas, in wei: a part of what is reserved.
    beside: int

    @property
    def why_none(self) -> str:
        """Say for people what is in the way."""
        return (
            f"the market asks for {self.market} wei for each gas, a replacement takes "
            f"{self.replacing}, and {self.setting} allows {max(self.cap, 0)}"
        )


class Replacement(NamedTuple):
    """What may be signed now on a nonce that waits; a dry run ends here, the real one signs it."""

    waiting: UnconfirmedNonce
    gas_limit: int
    fees: Fees
    # What a rollup takes beside gas, in wei.
    beside: int = 0

    @property
    def cost(self) -> int:
        """Return what it may cost in all, in wei."""
        return self.gas_limit * self.fees.max_fee + self.beside

    @property
    def text(self) -> str:
        """Say for people what it pays."""
        return f"up to {self.fees.max_fee} wei for each gas"


def offer(
    context: TxContext,
    waiting: UnconfirmedNonce,
    limit: int,
    calldata: str,
    *,
    must_land: bool = False,
) -> ReplacementFees:
    """Price a replacement of `limit` gas within every cap, budget and our ether.

    Where the market is above them it is a raise and no more, in the place of the old bytes: to
    offer all there is would leave no room for the raise that lands. `must_land`: there is none
    then.

    Raises:
        TransientError: no endpoint tells the market or the balance.
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
    """Return what a fee bump has to beat: the highest of each fee signed for the nonce."""
    return Fees(
        max(one.signed.max_fee_wei for one in attempts),
        max(one.signed.tip_wei for one in attempts),
    )


def _cap(
    context: TxContext, waiting: UnconfirmedNonce, limit: int, beside: int
) -> tuple[int, str]:
    """Return the most that a unit of gas may cost, and which limit says so.

    `beside` in wei: what a rollup takes for it.
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
