"""Fee quotes, absolute caps, and the steps of a fee bump.

Amounts are in wei; a fee is in wei per gas. See docs/explanation/transactions.md#fees.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.signing.signer import Fees

# The margin on a gas estimate, because the state may change before inclusion: a fifth, and the
# cost of a storage slot.
_GAS_MARGIN_PERCENT = 120
_GAS_MARGIN = 10_000
# Pools accept a replacement that pays 10 % more on both fees; some used to require 12.5 %.
_RAISE_PERCENT = 10
# The gas of a plain transfer, and the minimum per byte of calldata (EIP-2028, EIP-7623).
PLAIN_GAS = 21_000
_FLOOR_PER_TOKEN = 10
_TOKENS_PER_BYTE = 4
# How clients report the required fees: go-ethereum's tip and base fee, Nethermind's tip.
_TIP_WANTED = re.compile(r"minimum needed:? (\d+)|too low \d+ < (\d+)", re.IGNORECASE)
_FEE_WANTED = re.compile(r"base ?fee:? (\d+)|queued:? (\d+)", re.IGNORECASE)


_NOTHING = Fees(0, 0)


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Absolute limits in wei that no transaction exceeds.

    `cost_per_hour` None means that only the daily limit applies. `min_tip` is the lowest tip that
    is offered.
    """

    fee_per_gas: int
    cost_per_transaction: int
    cost_per_day: int
    cost_per_hour: int | None = None
    least_tip: int = 0


@dataclass(frozen=True, slots=True)
class Market:
    """The base fee and the tip that the chain requires now."""

    base_fee: int
    tip: int


def market(base_fee: int, rewards: Sequence[int], floor: int = 0) -> Market:
    """Build the fee market from the newest blocks: `rewards` are their median tips.

    `min_tip` is the lowest tip that is offered.
    """
    middle = int(statistics.median(rewards)) if rewards else 0
    return Market(base_fee, max(middle, floor))


def most_likely(told: Sequence[Market], cap: int) -> Market | None:
    """Combine the fee markets of several endpoints, or return None if there are none.

    The base fee that is paid is the block's own, so the highest within the cap is the safest. A
    tip is paid in full, so the lowest counts, and no single endpoint can make the account overpay.
    """
    if not told:
        return None
    fees = [one.base_fee for one in told]
    base_fee = max((fee for fee in fees if fee <= cap), default=min(fees))
    return Market(base_fee, min(one.tip for one in told))


def quote(now: Market, cap: int) -> Fees | None:
    """Return twice the base fee plus the tip, or None if the base fee exceeds the cap."""
    if now.base_fee > cap:
        return None
    most = min(2 * now.base_fee + now.tip, cap)
    return Fees(most, min(now.tip, most))


def raised(fee: int) -> int:
    """Return a fee raised by an eighth, and by at least one wei."""
    return max(-(-9 * fee // 8), fee + 1)


def raised_both(last: Fees, cap: int) -> Fees | None:
    """Return both fees raised by an eighth whatever the market, or None if the cap forbids it.

    Smaller raises up to the cap are not tried: that room is left for the raise that lands.
    """
    fees = Fees(raised(last.max_fee), raised(last.tip))
    return fees if fees.tip <= fees.max_fee <= cap else None


def bumped(last: Fees, now: Market, cap: int, wanted: Fees = _NOTHING) -> Fees | None:
    """Return fees that replace `last` in every pool, or None if the cap does not allow them.

    The result is also None while the cap is below the market: offering all of it now leaves no
    room for the raise that lands. `pool_required` holds the fees that a pool asked for in its
    error.
    """
    if now.base_fee + now.tip > cap:
        return None
    tip_wanted = max(raised(last.tip), now.tip, wanted.tip)
    # Twice the base fee, if that leaves room for another raise.
    asked = now.base_fee + max(now.tip, wanted.tip)
    market_fee = asked if asked + now.base_fee > cap else asked + now.base_fee
    max_fee = min(max(raised(last.max_fee), market_fee, wanted.max_fee), cap)
    tip = min(tip_wanted, max_fee)
    enough = all(
        new > old and 100 * new >= (100 + _RAISE_PERCENT) * old
        for new, old in ((max_fee, last.max_fee), (tip, last.tip))
    )
    return Fees(max_fee, tip) if enough else None


def gas_limit(estimate: int) -> int:
    """Return the gas limit for an estimate, with the margin added."""
    return estimate * _GAS_MARGIN_PERCENT // 100 + _GAS_MARGIN


def least_gas(calldata: str) -> int:
    """Return the minimum gas of a call from its calldata, by both pricing rules.

    Some endpoints estimate without the floor of EIP-7623, and some pools refuse less than it.
    """
    given = bytes.fromhex(calldata.removeprefix("0x"))
    zeros = given.count(0)
    tokens = zeros + _TOKENS_PER_BYTE * (len(given) - zeros)
    return PLAIN_GAS + _FLOOR_PER_TOKEN * tokens


def wanted_in(text: str) -> Fees:
    """Return the fees that a pool's error requires; 0 where it names none."""
    return Fees(_number(_FEE_WANTED, text), _number(_TIP_WANTED, text))


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return 0 if found is None else int(next(one for one in found.groups() if one is not None))
