"""Integer arithmetic that is exact everywhere (docs/reference/scoring-rules.md#numbers).

Scores are integers in units of 10^-18; exp(-s/tau) is an integer in units of 2^-128.
"""

from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache

# One, in scores.
UNIT = 10**18
# One, in the fixed point of exp(-s/tau).
_ONE_BITS = 128
ONE = 1 << _ONE_BITS
# Elapsed times of 2^21 seconds (24 days) and more have decayed to nothing.
DECAY_BITS = 21
_DIGITS = 60


@cache
def compute_decay_table(tau_seconds: int) -> tuple[int, ...]:
    """Return floor(2^128 * exp(-2^k/tau)) for k = 0 to 20, from 60-digit decimals."""
    # A separate context, because the caller's could round differently.
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    table = []
    for k in range(DECAY_BITS):
        exponent = context.divide(Decimal(-(1 << k)), Decimal(tau_seconds))
        factor = context.multiply(Decimal(ONE), context.exp(exponent))
        table.append(int(factor))
    return tuple(table)


def compute_decay(seconds: int, tau_seconds: int) -> int:
    """Return exp(-seconds/tau) in units of 2^-128; negative times count as 0."""
    if seconds <= 0:
        return ONE
    if seconds >> DECAY_BITS:
        return 0
    remaining = ONE
    for k, factor in enumerate(compute_decay_table(tau_seconds)):
        if seconds >> k & 1:
            remaining = remaining * factor >> _ONE_BITS
    return remaining


def close_gap_to_one(base: int, remaining: int) -> int:
    """Return `base` after all but `remaining` (2^-128) of its gap to one has closed; 10^-18."""
    return base + ((UNIT - base) * (ONE - remaining) >> _ONE_BITS)


def multiply_fixed(factor: int, value: int) -> int:
    """Multiply two numbers in units of 10^-18, rounded down."""
    return factor * value // UNIT


def format_decimal(value: int) -> str:
    """Format units of 10^-18 as a decimal with 18 digits: `0.300000000000000000`."""
    return f"{value // UNIT}.{value % UNIT:018d}"
