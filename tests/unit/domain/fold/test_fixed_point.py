"""Whole-number arithmetic of scores: the same on every machine.

See docs/reference/scoring-rules.md#numbers.
"""

from decimal import ROUND_FLOOR, Decimal, getcontext, localcontext

import pytest
from hypothesis import example, given, strategies as st

from oracle.domain.fixed_point import (
    ONE,
    UNIT,
    close_gap_to_one,
    compute_decay,
    compute_decay_table,
    format_decimal,
    multiply_fixed,
)


@pytest.mark.parametrize("tau", [1, 60, 1800, 86_400])
def test_the_table_is_exact_by_twice_as_many_digits(tau):
    with localcontext() as context:
        context.prec = 120
        exact = [Decimal(ONE) * (-Decimal(1 << k) / tau).exp() for k in range(21)]
        floors = tuple(int(value.to_integral_value(ROUND_FLOOR)) for value in exact)
    assert compute_decay_table(tau) == floors


def test_the_table_is_the_same_in_any_decimal_context():
    usual = compute_decay_table(1801)
    compute_decay_table.cache_clear()
    before = getcontext().prec
    getcontext().prec = 5
    try:
        assert compute_decay_table(1801) == usual
    finally:
        getcontext().prec = before


def test_the_worked_example_of_the_events_document_holds_exactly():
    assert close_gap_to_one(3 * UNIT // 10, compute_decay(600, 1800)) == 498428082598347524


@pytest.mark.parametrize(("seconds", "left"), [(-5, ONE), (0, ONE), (2**21, 0), (2**70, 0)])
def test_decay_ends_where_the_rules_say(seconds, left):
    assert compute_decay(seconds, 1800) == left


def test_the_last_second_before_the_end_is_still_computed():
    assert compute_decay(2**21 - 1, 10**6) > 0


@given(st.integers(0, 2**21), st.integers(0, 2**21), st.integers(0, UNIT))
def test_recovery_only_rises_with_time_and_stays_below_one(a, b, base):
    early, late = sorted((a, b))
    first, then = (
        close_gap_to_one(base, compute_decay(early, 1800)),
        close_gap_to_one(base, compute_decay(late, 1800)),
    )
    # The steps round down by up to 21 units of 2^-128 on the way: far below one of 10^-18.
    assert base <= first <= then + 1
    assert then <= UNIT


@given(st.integers(0, UNIT), st.integers(0, UNIT))
@example(1, UNIT - 1)
def test_a_product_is_rounded_down(one, other):
    product = multiply_fixed(one, other)
    assert product * UNIT <= one * other < (product + 1) * UNIT


@given(st.integers(0, UNIT))
def test_decimals_have_eighteen_digits(value):
    text = format_decimal(value)
    assert len(text) == 20
    assert Decimal(text).scaleb(18) == value
