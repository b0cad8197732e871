"""Computes ranks and measures of inequality with integers.

Coefficients and shares are in units of 10^-18, truncated towards zero.
"""

from collections.abc import Sequence
from itertools import accumulate

from oracle.domain.fixed_point import UNIT


def compute_ranks(values: Sequence[int]) -> list[int]:
    """Return the rank of each value, 1 for the largest.

    Equal values share the best rank.
    """
    rank_by_value: dict[int, int] = {}
    for rank, value in enumerate(sorted(values, reverse=True), start=1):
        rank_by_value.setdefault(value, rank)
    return [rank_by_value[value] for value in values]


def compute_gini(amounts: Sequence[int]) -> int | None:
    """Return the Gini coefficient of non-negative amounts, or None if their sum is 0.

    The coefficient is 0 if all amounts are equal. It has its maximum, (n - 1)/n, if only one of n
    amounts is not 0.
    """
    amount_count = len(amounts)
    total_amount = sum(amounts)
    if not total_amount:
        return None
    weighted_sum = sum(
        (2 * position - amount_count - 1) * amount
        for position, amount in enumerate(sorted(amounts), start=1)
    )
    return weighted_sum * UNIT // (amount_count * total_amount)


def compute_lorenz_curve(amounts: Sequence[int]) -> list[int]:
    """Return the Lorenz curve: the cumulative share of the smallest 0, 1, 2 … n amounts.

    The list is empty if the sum of the amounts is 0.
    """
    total_amount = sum(amounts)
    if not total_amount:
        return []
    return [amount * UNIT // total_amount for amount in accumulate(sorted(amounts), initial=0)]
