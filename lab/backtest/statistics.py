"""Rank correlation and inequality in integer arithmetic.

Values between -1 and 1 are in units of 10^-18, truncated towards zero.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import isqrt

from oracle.domain.fixed_point import UNIT

_LEAST = 2


def ranks_of(values: Sequence[int]) -> list[int]:
    """Return each value's rank, 1 for the largest; equal values share the best rank."""
    first: dict[int, int] = {}
    for rank, value in enumerate(sorted(values, reverse=True), start=1):
        first.setdefault(value, rank)
    return [first[value] for value in values]


def rank_correlation(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return Spearman's rank correlation of two lists of the same length.

    Equal values share the mean of their ranks. 1: the same order; -1: the opposite one; None:
    fewer than two values, or all of one list are equal, so that it orders nothing.

    Raises:
        ValueError: the lists differ in length.
    """
    pairs = list(zip(_middle_ranks(one), _middle_ranks(other), strict=True))
    count = len(pairs)
    if count < _LEAST:
        return None
    # Both lists have the same sum of ranks; all ranks are doubled, which cancels out.
    total = count * (count + 1)
    both = count * sum(a * b for a, b in pairs) - total * total
    spread_one = count * sum(a * a for a, _ in pairs) - total * total
    spread_other = count * sum(b * b for _, b in pairs) - total * total
    if not spread_one or not spread_other:
        return None
    size = isqrt(both * both * UNIT * UNIT // (spread_one * spread_other))
    return size if both >= 0 else -size


def _middle_ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank of each value, which is always an integer."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for rank, value in enumerate(sorted(values), start=1):
        first.setdefault(value, rank)
        last[value] = rank
    return [first[value] + last[value] for value in values]


def gini(amounts: Sequence[int]) -> int | None:
    """Return the Gini coefficient of non-negative amounts, or None if their sum is 0.

    0 means that all are equal. The maximum is (n - 1)/n, if one of n has everything.
    """
    count, total = len(amounts), sum(amounts)
    if not total:
        return None
    weighted = sum(
        (2 * place - count - 1) * amount for place, amount in enumerate(sorted(amounts), start=1)
    )
    return weighted * UNIT // (count * total)


def lorenz(amounts: Sequence[int]) -> list[int]:
    """Return the Lorenz curve: the shares of the poorest 0, 1, 2 … n together.

    The list is empty if the sum is 0.
    """
    total = sum(amounts)
    if not total:
        return []
    return [amount * UNIT // total for amount in accumulate(sorted(amounts), initial=0)]
