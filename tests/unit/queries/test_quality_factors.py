"""A relay's single figure is the product of two numbers; two polls determine their ranges."""

import math

import pytest
from hypothesis import given, strategies as st

from oracle.chain.feed.feed_client import RelayFigures
from oracle.domain.ids import Address
from oracle.queries.relay_audit.relay_watch import derive_quality_factors

NODE = Address("0x" + "11" * 20)
TAU = 1800


def figure(quality: float, at: float, slack: float = 0.0) -> RelayFigures:
    return RelayFigures(NODE, quality, 1.0, 0.5, at, slack)


def quality(long_term: float, health: float, seconds: float) -> float:
    return long_term * (1 - (1 - health) * math.exp(-seconds / TAU))


def test_documented_example_of_separated_factors_is_reproduced():
    factors = derive_quality_factors(figure(0.302697, 100), figure(0.315722, 160))

    assert factors is not None
    assert factors.long_term == pytest.approx(0.7, abs=5e-5)
    assert 1 - (1 - factors.health) * math.exp(100 / TAU) == pytest.approx(0.4, abs=5e-5)


@given(long_term=st.floats(0.02, 1), health=st.floats(0.01, 1), seconds=st.floats(30, 7200))
def test_two_qos_figures_reveal_long_term_score_and_reliability(
    long_term: float, health: float, seconds: float
):
    second = quality(long_term, health, seconds)
    factors = derive_quality_factors(
        figure(quality(long_term, health, 0), 0), figure(second, seconds)
    )

    assert factors is not None
    assert abs(factors.long_term - long_term) <= factors.slack
    assert factors.health == pytest.approx(health, abs=1e-6)


@given(health=st.floats(0.05, 0.95), late=st.floats(-0.2, 0.2), seconds=st.floats(30, 600))
def test_error_bound_of_the_long_term_score_covers_clock_errors(
    health: float, late: float, seconds: float
):
    first = figure(quality(0.7, health, 0), 0, slack=0.1)
    second = figure(quality(0.7, health, seconds + late), seconds, slack=0.1)
    factors = derive_quality_factors(first, second)

    assert factors is not None
    assert abs(factors.long_term - 0.7) <= factors.slack * 1.01


@pytest.mark.parametrize(("quality_then", "at"), [(0.2, 60.0), (0.4, 0.0), (0.9999, 1.0)])
def test_falling_or_jumping_qos_reveals_no_factors(quality_then: float, at: float):
    assert derive_quality_factors(figure(0.3, 0), figure(quality_then, at)) is None
