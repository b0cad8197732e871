"""JavaScript's floating-point arithmetic, as Pocket's selector uses it.

See docs/explanation/pocket.md#derived-statistics and docs/explanation/pocket.md#ranking.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

_FIVE_PLACES = Decimal("0.00001")
# The precision is enough for every double below 10^40. This is a separate context, so that the
# thread's context stays unchanged.
_EXACT = Context(prec=60)


def round_half_up(x: float) -> int:
    """Round half up exactly as JavaScript's `Math.round` does.

    The expression floor(x + 0.5) would round 0.49999999999999994 up.
    """
    integer_part = math.floor(x)
    return integer_part + 1 if x - integer_part >= 0.5 else integer_part  # noqa: PLR2004 - a half


@lru_cache(maxsize=10_000)
def format_five_decimals(x: float) -> str:
    """Format a number with five decimals as JavaScript's `toFixed(5)` does."""
    return str(Decimal(x).quantize(_FIVE_PLACES, ROUND_HALF_UP, _EXACT))


def round_to_five_decimals(x: float) -> float:
    """Round to five decimals as JavaScript's `toFixed(5)` does."""
    return float(format_five_decimals(x))


def compute_quantile(sorted_samples: Sequence[float], q: float) -> float:
    """Compute the quantile `q` of samples by linear interpolation at (n - 1) * q.

    There must be at least one sample.
    """
    quantile_position = (len(sorted_samples) - 1) * q
    lower_index = math.floor(quantile_position)
    if lower_index + 1 == len(sorted_samples):
        return sorted_samples[lower_index]
    return sorted_samples[lower_index] + (quantile_position - lower_index) * (
        sorted_samples[lower_index + 1] - sorted_samples[lower_index]
    )
