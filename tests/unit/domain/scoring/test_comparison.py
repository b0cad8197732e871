"""Ranks, rank correlation, Gini and Lorenz, compared with exact fractions."""

from fractions import Fraction
from itertools import pairwise
from math import isqrt

import pytest
from hypothesis import given, strategies as st

from lab.backtest.statistics import (
    compute_gini,
    compute_lorenz_curve,
    compute_ranks,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rank_correlation import compute_rank_correlation

amounts = st.lists(st.integers(0, 10**30), min_size=1, max_size=30)
pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=20)


def plain_gini(values):
    """Return the mean difference of all pairs of values, divided by twice the mean."""
    differences = sum(abs(left - right) for left in values for right in values)
    return Fraction(differences, 2 * len(values) * sum(values))


def mean_ranks(values):
    def rank(value):
        below = sum(other_value < value for other_value in values)
        alike = sum(other_value == value for other_value in values)
        return below + Fraction(alike + 1, 2)

    return [rank(value) for value in values]


def pearson_squared(xs, ys):
    """Return the sign and the square of Pearson's correlation of two lists of fractions."""
    mean_one = Fraction(sum(xs), len(xs))
    mean_other = Fraction(sum(ys), len(ys))
    both = sum((a - mean_one) * (b - mean_other) for a, b in zip(xs, ys, strict=True))
    square_one = sum((a - mean_one) ** 2 for a in xs)
    square_other = sum((b - mean_other) ** 2 for b in ys)
    return (1 if both >= 0 else -1), both * both / (square_one * square_other)


@given(amounts)
def test_gini_equals_half_relative_mean_difference(values):
    if not any(values):
        assert compute_gini(values) is None
        return
    exact = plain_gini(values) * UNIT
    assert compute_gini(values) == exact.numerator // exact.denominator


@given(st.integers(1, 10**30), st.integers(1, 50))
def test_equal_amounts_have_zero_gini(amount, count):
    assert compute_gini([amount] * count) == 0


def test_gini_is_three_quarters_if_one_of_four_owns_everything():
    assert compute_gini([0, 0, 7, 0]) == 3 * UNIT // 4


@given(pairs)
def test_rank_correlation_equals_pearson_of_mean_ranks(values):
    xs = [a for a, _ in values]
    ys = [b for _, b in values]
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert compute_rank_correlation(xs, ys) is None
        return
    sign, square = pearson_squared(mean_ranks(xs), mean_ranks(ys))
    scaled = square * UNIT * UNIT
    assert compute_rank_correlation(xs, ys) == sign * isqrt(scaled.numerator // scaled.denominator)


@given(st.lists(st.integers(), min_size=2, max_size=30, unique=True))
def test_rank_correlation_is_1_with_itself_and_minus_1_with_reverse(values):
    assert compute_rank_correlation(values, values) == UNIT
    assert compute_rank_correlation(values, [-value for value in values]) == -UNIT


def test_constant_list_has_no_rank_correlation():
    assert compute_rank_correlation([], []) is None
    assert compute_rank_correlation([1], [2]) is None
    assert compute_rank_correlation([3, 3, 3], [1, 2, 3]) is None


def test_lists_of_different_lengths_are_rejected():
    with pytest.raises(ValueError, match="shorter"):
        compute_rank_correlation([1, 2], [1])


@given(amounts)
def test_rank_is_one_plus_number_of_larger_values(values):
    assert compute_ranks(values) == [
        1 + sum(other_value > value for other_value in values) for value in values
    ]


@given(amounts)
def test_lorenz_curve_is_convex_from_0_to_1(values):
    curve = compute_lorenz_curve(values)
    if not any(values):
        assert curve == []
        return
    assert (curve[0], curve[-1], len(curve)) == (0, UNIT, len(values) + 1)
    steps = [after - before for before, after in pairwise(curve)]
    # Rounding moves a step by up to one unit.
    assert all(later >= earlier - 1 for earlier, later in pairwise(steps))
