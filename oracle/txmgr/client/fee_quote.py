"""What we pay: quotes, absolute caps, and by how much a fee is raised.

Amounts in wei; a fee is wei for each unit of gas.
See docs/explanation/transactions.md#fees.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.signing.signer import Fees

# State may change between the estimate and the block: a fifth more, and the cost of a slot.
_GAS_MARGIN_PERCENT = 120
_GAS_MARGIN = 10_000
# Pools take a replacement that pays 10 % more on both fees; some used to ask for 12.5 %.
_RAISE_PERCENT = 10
# What the cheapest call takes, and what a byte of calldata takes at least (EIP-2028, EIP-7623).
PLAIN_GAS = 21_000
_FLOOR_PER_TOKEN = 10
_TOKENS_PER_BYTE = 4
# How clients tell what they ask for: go-ethereum's tip and base fee, Nethermind's tip.
_TIP_WANTED = re.compile(r"minimum needed:? (\d+)|too low \d+ < (\d+)", re.IGNORECASE)
_FEE_WANTED = re.compile(r"base ?fee:? (\d+)|queued:? (\d+)", re.IGNORECASE)


_NOTHING = Fees(0, 0)


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Absolute limits in wei; nothing that we send goes beyond them, whatever it is for.

    `cost_per_hour` None: only the day's counts. `least_tip`: what is offered in any case.
    """

    fee_per_gas: int
    cost_per_transaction: int
    cost_per_day: int
    cost_per_hour: int | None = None
    least_tip: int = 0


@dataclass(frozen=True, slots=True)
class Market:
    """What the chain asks for now."""

    base_fee: int
    tip: int


def market(base_fee: int, rewards: Sequence[int], floor: int = 0) -> Market:
    """Sum up the newest blocks: `rewards` are their median tips, `floor` the least we offer."""
    middle = int(statistics.median(rewards)) if rewards else 0
    return Market(base_fee, max(middle, floor))


def most_likely(told: Sequence[Market], cap: int) -> Market | None:
    """Make one of what several endpoints tell; None: none told.

    A base fee costs only what the block then asks: the highest that the cap allows is the safest.
    A tip is paid in full: the lowest counts, so that no single endpoint can make us overpay.
    """
    if not told:
        return None
    fees = [one.base_fee for one in told]
    base_fee = max((fee for fee in fees if fee <= cap), default=min(fees))
    return Market(base_fee, min(one.tip for one in told))


def quote(now: Market, cap: int) -> Fees | None:
    """Offer twice the base fee and the tip; None: not even the next block is within the cap."""
    if now.base_fee > cap:
        return None
    most = min(2 * now.base_fee + now.tip, cap)
    return Fees(most, min(now.tip, most))


def raised(fee: int) -> int:
    """Return the next fee: an eighth more, and strictly more where that is nothing."""
    return max(-(-9 * fee // 8), fee + 1)


def raised_both(last: Fees, cap: int) -> Fees | None:
    """Return an eighth more on both, whatever the market asks; None: the cap does not allow it.

    Less than an eighth is not tried up to the cap: that is left for the raise that lands.
    """
    fees = Fees(raised(last.max_fee), raised(last.tip))
    return fees if fees.tip <= fees.max_fee <= cap else None


def bumped(last: Fees, now: Market, cap: int, wanted: Fees = _NOTHING) -> Fees | None:
    """Return fees that replace `last` in every pool; None: the cap does not allow it.

    Not either while the cap is below the market: to offer all of it now leaves no room for the
    raise that lands. `wanted`: what a pool said that it asks for.
    """
    if now.base_fee + now.tip > cap:
        return None
    tip_wanted = max(raised(last.tip), now.tip, wanted.tip)
    # Twice the base fee, where there is room for that beside another raise.
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
    """Return the limit that we set for an estimate."""
    return estimate * _GAS_MARGIN_PERCENT // 100 + _GAS_MARGIN


def least_gas(calldata: str) -> int:
    """Return what no block takes the call below: its data alone, by both ways of counting.

    Some endpoints estimate without the floor of EIP-7623, and some pools refuse below it.
    """
    given = bytes.fromhex(calldata.removeprefix("0x"))
    zeros = given.count(0)
    tokens = zeros + _TOKENS_PER_BYTE * (len(given) - zeros)
    return PLAIN_GAS + _FLOOR_PER_TOKEN * tokens


def wanted_in(text: str) -> Fees:
    """Return what a pool asks for, as far as its refusal tells; 0 where it does not."""
    return Fees(_number(_FEE_WANTED, text), _number(_TIP_WANTED, text))


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return 0 if found is None else int(next(one for one in found.groups() if one is not None))
