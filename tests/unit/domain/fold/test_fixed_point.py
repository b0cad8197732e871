"""Fixed-point arithmetic of scores: the same results on every machine.

See docs/reference/scoring-rules.md#numbers.
"""

from decimal import ROUND_FLOOR, Decimal, getcontext, localcontext

import pytest
from hypothesis import example, given, strategies as st

from oracle.domain.fixed_point import (
    ONE,
    UNIT,
    compute_decay,
    compute_decay_end,
    compute_decay_table,
    format_decimal,
    move_towards_one,
    multiply_fixed_point,
)


@pytest.mark.parametrize("tau", [1, 60, 1800, 86_400])
def test_decay_table_matches_high_precision_computation(tau):
    with localcontext() as context:
        context.prec = 120
        exact = [Decimal(ONE) * (-Decimal(1 << k) / tau).exp() for k in range(21)]
        floors = tuple(int(value.to_integral_value(ROUND_FLOOR)) for value in exact)
    assert compute_decay_table(tau) == floors


def test_decay_table_is_independent_of_decimal_context():
    usual = compute_decay_table(1801)
    compute_decay_table.cache_clear()
    before = getcontext().prec
    getcontext().prec = 5
    try:
        assert compute_decay_table(1801) == usual
    finally:
        getcontext().prec = before


def test_documented_recovery_example_is_exact():
    assert move_towards_one(3 * UNIT // 10, compute_decay(600, 1800)) == 498428082598347524


@pytest.mark.parametrize(("seconds", "left"), [(-5, ONE), (0, ONE), (2**21, 0), (2**70, 0)])
def test_decay_matches_documented_limits(seconds, left):
    assert compute_decay(seconds, 1800) == left


def test_decay_is_still_positive_one_second_before_it_ends():
    assert compute_decay(2**21 - 1, 10**6) > 0


@pytest.mark.parametrize("tau", [1, 60, 1800, 86_400])
def test_decay_is_zero_after_its_end_and_positive_before(tau):
    end = compute_decay_end(tau)
    seconds = [*range(end, end + 5_000), *range(end, 2**21 + 10, 997)]

    assert {compute_decay(second, tau) for second in seconds} == {0}
    assert compute_decay(min(end - 4 * tau, 2**21 - 1), tau) > 0


@given(st.integers(0, 2**21), st.integers(0, 2**21), st.integers(0, UNIT))
def test_recovery_increases_with_time_up_to_maximum(a, b, base):
    early, late = sorted((a, b))
    first = move_towards_one(base, compute_decay(early, 1800))
    then = move_towards_one(base, compute_decay(late, 1800))
    # The steps round down by up to 21 units of 2^-128 in total: far less than 10^-18.
    assert base <= first <= then + 1
    assert then <= UNIT


@given(st.integers(0, UNIT), st.integers(0, UNIT))
@example(1, UNIT - 1)
def test_product_is_rounded_down(factor, other_factor):
    product = multiply_fixed_point(factor, other_factor)
    assert product * UNIT <= factor * other_factor < (product + 1) * UNIT


@given(st.integers(0, UNIT))
def test_decimal_text_has_eighteen_decimal_places(value):
    text = format_decimal(value)
    assert len(text) == 20
    assert Decimal(text).scaleb(18) == value


@given(st.integers(0, 3 * UNIT), st.integers(1, 18))
def test_formatted_number_is_rounded_down(value: int, digits: int) -> None:
    text = format_decimal(value, digits)
    step = 10 ** (18 - digits)
    assert len(text.partition(".")[2]) == digits
    assert Decimal(text) * UNIT == value // step * step
