"""Integer arithmetic that gives the same results on every machine.

Scores are integers in units of 10^-18, and a decay factor exp(-s/tau) is an integer in units of
2^-128 (docs/reference/scoring-rules.md#numbers).
"""

from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache

# 1.0 in the fixed-point format of scores.
UNIT = 10**18
# 1.0 in the fixed-point format of decay factors exp(-s/tau).
_ONE_BITS = 128
ONE = 1 << _ONE_BITS
# A decay factor is 0 after 2^21 seconds (24 days).
DECAY_BITS = 21
_DIGITS = 60
# Decay factors are precomputed for 0 to 2^11 - 1 seconds.
_SHORT_BITS = 11


@cache
def compute_decay_table(tau_seconds: int) -> tuple[int, ...]:
    """Return exp(-2^k/tau) for k from 0 to 20, in units of 2^-128 and rounded down."""
    # This function uses its own context, because the current context may round differently.
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    decay_factors = []
    for bit in range(DECAY_BITS):
        exponent = context.divide(Decimal(-(1 << bit)), Decimal(tau_seconds))
        factor = context.multiply(Decimal(ONE), context.exp(exponent))
        decay_factors.append(int(factor))
    return tuple(decay_factors)


@cache
def encode_decay_table(tau_seconds: int) -> bytes:
    """Encode the decay table for the native code, with 16 bytes per factor."""
    return b"".join(factor.to_bytes(16, "little") for factor in compute_decay_table(tau_seconds))


def compute_decay(seconds: int, tau_seconds: int) -> int:
    """Return exp(-seconds/tau) in units of 2^-128.

    A negative number of seconds counts as 0.
    """
    if seconds <= 0:
        return ONE
    if seconds >> DECAY_BITS:
        return 0
    decay_factor = _compute_decays_by_second(tau_seconds)[seconds & (1 << _SHORT_BITS) - 1]
    if seconds >> _SHORT_BITS:
        decay_table = compute_decay_table(tau_seconds)
        for bit in range(_SHORT_BITS, seconds.bit_length()):
            if seconds >> bit & 1:
                decay_factor = decay_factor * decay_table[bit] >> _ONE_BITS
    return decay_factor


@cache
def compute_decay_end(tau_seconds: int) -> int:
    """Return a time in seconds from which every decay factor is 0.

    A decay factor is rounded down, so it is 0 if exp(-seconds/tau) is below 2^-128, that is, after
    128 * ln(2) = 88.7228 time constants. Before that, the rounding of its products can turn single
    factors into 0.
    """
    return min(1 << DECAY_BITS, tau_seconds * 887_229 // 10_000 + 1)


@cache
def _compute_decays_by_second(tau_seconds: int) -> tuple[int, ...]:
    """Return the decay factors for 0 to 2047 seconds, in this order."""
    decays = [ONE]
    for factor in compute_decay_table(tau_seconds)[:_SHORT_BITS]:
        # Each product is rounded, so the order of multiplication must be the same for every number
        # of seconds.
        decays += [decay * factor >> _ONE_BITS for decay in decays]
    return tuple(decays)


def move_towards_one(base: int, remaining_fraction: int) -> int:
    """Move `base` towards 1, keeping only `remaining_fraction` of the gap.

    `base` and the result are in units of 10^-18, `remaining_fraction` is in units of 2^-128.
    """
    return base + ((UNIT - base) * (ONE - remaining_fraction) >> _ONE_BITS)


def multiply_fixed_point(factor: int, value: int) -> int:
    """Multiply two numbers in units of 10^-18, rounding down."""
    return factor * value // UNIT


def format_decimal(value: int, digits: int = 18) -> str:
    """Format a non-negative number in units of 10^-18 with 1 to 18 decimals, rounded down.

    For example, 0.29999 is `0.2999` with four decimals, so that it never looks like 0.3.
    """
    decimal_text = f"{value // UNIT}.{value % UNIT:018d}"
    return decimal_text[: len(decimal_text) - 18 + digits]
