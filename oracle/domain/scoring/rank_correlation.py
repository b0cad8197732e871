"""Computes Spearman's rank correlation with integers.

The coefficient is in units of 10^-18, truncated towards zero.
"""

from collections.abc import Sequence
from math import isqrt

from oracle.domain.fixed_point import UNIT

_MIN_VALUES = 2


def compute_rank_correlation(
    first_values: Sequence[int], second_values: Sequence[int]
) -> int | None:
    """Return Spearman's rank correlation of two lists of the same length.

    Equal values share the mean of their ranks. The result is 1 if both lists have the same order
    and -1 if their orders are opposite. It is None if there are fewer than two values, or if all
    values of one list are equal, because such a list has no order.

    Raises:
        ValueError: the lists differ in length.
    """
    rank_pairs = list(
        zip(
            _compute_doubled_ranks(first_values),
            _compute_doubled_ranks(second_values),
            strict=True,
        )
    )
    pair_count = len(rank_pairs)
    if pair_count < _MIN_VALUES:
        return None
    # Both lists have the same sum of ranks. Ranks are doubled here; the factor cancels out below.
    rank_sum = pair_count * (pair_count + 1)
    covariance = (
        pair_count * sum(first_rank * second_rank for first_rank, second_rank in rank_pairs)
        - rank_sum * rank_sum
    )
    first_variance = (
        pair_count * sum(first_rank * first_rank for first_rank, _ in rank_pairs)
        - rank_sum * rank_sum
    )
    second_variance = (
        pair_count * sum(second_rank * second_rank for _, second_rank in rank_pairs)
        - rank_sum * rank_sum
    )
    if not first_variance or not second_variance:
        return None
    correlation = isqrt(
        covariance * covariance * UNIT * UNIT // (first_variance * second_variance)
    )
    return correlation if covariance >= 0 else -correlation


def _compute_doubled_ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank of each value, which is always an integer."""
    first_rank: dict[int, int] = {}
    last_rank: dict[int, int] = {}
    for rank, value in enumerate(sorted(values), start=1):
        first_rank.setdefault(value, rank)
        last_rank[value] = rank
    return [first_rank[value] + last_rank[value] for value in values]
