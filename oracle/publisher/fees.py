"""What we pay (publishing.md 3.6): quotes, absolute caps, and by how much a fee is raised.

Amounts in wei; a fee is wei for each unit of gas.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# State may change between the estimate and the block: a fifth more, and the cost of a slot.
_GAS_MARGIN_PERCENT = 120
_GAS_MARGIN = 10_000
# Pools take a replacement that pays 10 % more on both fees; some used to ask for 12.5 %.
_RAISE_PERCENT = 10


class Fees(NamedTuple):
    """The most we pay, and what of it goes to whoever builds the block."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class Caps:
    """Absolute limits in wei; nothing that we send goes beyond them, whatever it is for."""

    fee_per_gas: int
    cost_per_transaction: int
    cost_per_day: int


@dataclass(frozen=True, slots=True)
class Market:
    """What the chain asks for now."""

    base_fee: int
    tip: int


def market(base_fee: int, rewards: Sequence[int], floor: int = 0) -> Market:
    """Sum up the newest blocks: `rewards` are their median tips, `floor` the least we offer."""
    middle = int(statistics.median(rewards)) if rewards else 0
    return Market(base_fee, max(middle, floor))


def quote(now: Market, cap: int) -> Fees | None:
    """Offer twice the base fee and the tip; None: not even the next block is within the cap."""
    if now.base_fee > cap:
        return None
    most = min(2 * now.base_fee + now.tip, cap)
    return Fees(most, min(now.tip, most))


def raised(fee: int) -> int:
    """Return the next fee: an eighth more, and strictly more where that is nothing."""
    return max(-(-9 * fee // 8), fee + 1)


def bumped(last: Fees, now: Market, cap: int) -> Fees | None:
    """Return fees that replace `last` in every pool; None: the cap does not allow it."""
    max_fee = min(max(raised(last.max_fee), 2 * now.base_fee + now.tip), cap)
    tip = min(max(raised(last.tip), now.tip), max_fee)
    enough = all(
        new > old and 100 * new >= (100 + _RAISE_PERCENT) * old
        for new, old in ((max_fee, last.max_fee), (tip, last.tip))
    )
    return Fees(max_fee, tip) if enough else None


def gas_limit(estimate: int) -> int:
    """Return the limit that we set for an estimate."""
    return estimate * _GAS_MARGIN_PERCENT // 100 + _GAS_MARGIN
