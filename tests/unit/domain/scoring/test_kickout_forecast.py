"""The forecast of a kickout equals the fold's result when the forecast scores are applied."""

from dataclasses import replace
from fractions import Fraction
from random import Random
from statistics import median

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.kickout_forecast import (
    FAR_SCORES,
    NEAR_SCORES,
    RECENT_SCORES,
    forecast_kickout,
    is_kickout_near,
)
from oracle.domain.scoring.node_scores import append_score_to_pool, is_kickout_due
from oracle.domain.state import Membership
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.examples import examples
from tests.support.histories import History, fold_node
from tests.unit.systems.legacy.networks import RULES as LEGACY

SCORES = (0, 2, 5, 10)
MEMBER = fold_node(History().joins("A"), "A")
POOLS = st.lists(st.sampled_from(SCORES), min_size=1, max_size=50).map(bytes)


def with_pool(pool):
    return replace(MEMBER, pool=bytes(pool), pool_sum=sum(pool))


def forecast(pool):
    return forecast_kickout(with_pool(pool), MEMBER.since, CRYNUX)


def play_mean(pool, count, better=()):
    """Return the mean of the pool after `count` scores: the better ones, and the recent mean."""
    recent = pool[-RECENT_SCORES:]
    mean = Fraction(sum(recent), len(recent))
    played = [*map(Fraction, pool), *map(Fraction, better)]
    played = [*played, *[mean] * (count - len(better))][-CRYNUX.pool_size :]
    return Fraction(sum(played), CRYNUX.pool_size) if len(played) == CRYNUX.pool_size else None


def is_played_pool_due(pool, count, better=()):
    mean = play_mean(pool, count, better)
    return mean is not None and mean < Fraction(CRYNUX.kickout_below, UNIT)


@given(POOLS)
@examples(100)
def test_forecast_matches_exact_pool_simulation(pool):
    due_in = next((count for count in range(61) if is_played_pool_due(pool, count)), None)
    result = forecast(pool)
    assert (None if result is None else result.scores) == due_in


@given(POOLS, st.sampled_from([("first_places", 10), ("second_places", 5)]))
@examples(100)
def test_forecast_states_the_fewest_places_that_avoid_a_kickout(pool, place):
    name, points = place
    result = forecast(pool)
    if result is None:
        return
    fewest = next(
        (
            count
            for count in range(1, result.scores + 1)
            if not is_played_pool_due(pool, result.scores, [points] * count)
        ),
        None,
    )
    assert getattr(result, name) == fewest


@given(POOLS)
@examples(50)
def test_forecast_is_zero_if_and_only_if_the_kickout_is_due(pool):
    result = forecast(pool)
    is_due = is_kickout_due(with_pool(pool), CRYNUX, MEMBER.since)
    assert (result is not None and result.scores == 0) == is_due


@pytest.mark.parametrize("count", [20, 35, 50])
def test_kickout_after_constant_zeros_is_due_as_forecast(count):
    pool = bytes((5,) * (50 - count) + (0,) * count)[-50:]
    result = forecast(pool)
    assert result is not None
    for _ in range(result.scores):
        assert not is_kickout_due(with_pool(pool), CRYNUX, MEMBER.since)
        pool = append_score_to_pool(pool, 0, CRYNUX)
    assert is_kickout_due(with_pool(pool), CRYNUX, MEMBER.since)


def test_node_that_always_ranks_third_has_no_kickout_forecast():
    assert forecast(bytes((2,) * 50)) is None


@pytest.mark.parametrize(
    ("changes", "rules"),
    [({"membership": Membership.QUIT}, CRYNUX), ({"pool": b""}, CRYNUX), ({}, LEGACY)],
)
def test_node_whose_pool_cannot_cause_a_kickout_has_no_forecast(changes, rules):
    failing = replace(with_pool(bytes(49)), **changes)
    assert forecast_kickout(failing, failing.since, rules) is None
    assert not is_kickout_near(failing, failing.since, rules)


def test_kickout_counts_as_near_only_a_few_scores_before_it_is_due():
    near = [is_kickout_near(with_pool(bytes(count)), MEMBER.since, CRYNUX) for count in range(51)]
    assert near.index(True) == 50 - NEAR_SCORES + 1
    assert near[50 - NEAR_SCORES + 1 : 50] == [True] * (NEAR_SCORES - 1)
    assert not near[50], "a kickout that is due is not near"


def draw_course(random, healthy, failing):
    """Return scores of a node that is healthy for 80 tasks, and then fails."""
    return random.choices(SCORES, healthy, k=80) + random.choices(SCORES, failing, k=160)


HEALTHY = [(0.2, 3, 4, 3), (0.5, 5, 3, 1), (0.1, 2, 3, 5)]
FAILING = [(6, 8, 1, 0), (6, 4, 0, 0), (1, 0, 0, 0), (4, 9, 2, 0)]


def find_first(course, is_wanted):
    return next(
        (
            count
            for count in range(50, len(course) + 1)
            if is_wanted(with_pool(course[count - 50 : count]), MEMBER.since, CRYNUX)
        ),
        None,
    )


def find_due(course):
    return find_first(course, lambda node, time, rules: is_kickout_due(node, rules, time))


def test_warning_precedes_every_simulated_kickout():
    random = Random(4)  # noqa: S311  repeatable, no secret
    for healthy in HEALTHY:
        for failing in FAILING:
            course = draw_course(random, healthy, failing)
            lead = find_due(course) - find_first(course, is_kickout_near)
            assert 2 <= lead <= 2 * FAR_SCORES


# Statistics of a page. CI tests each forecast against the fold, above.
@pytest.mark.slow
@pytest.mark.nightly
def test_forecast_error_matches_the_documentation():
    """See docs/explanation/kickouts.md#forecast."""
    random = Random(4)  # noqa: S311  repeatable, no secret
    errors, warned = [], 0
    for _ in range(400):
        course = draw_course(random, random.choice(HEALTHY), random.choice(FAILING))
        due = find_due(course)
        warned += find_first(course[: due - 1], is_kickout_near) is not None
        if due - 11 >= 80:
            outlook = forecast(course[due - 61 : due - 11])
            errors += [] if outlook is None else [outlook.scores - 11]
    assert warned == 396
    assert median(errors) == 0
    assert sorted(map(abs, errors))[len(errors) * 9 // 10] == 5

    healthy_courses = [random.choices(SCORES, random.choice(HEALTHY), k=300) for _ in range(100)]
    assert [find_first(course, is_kickout_near) for course in healthy_courses] == [None] * 100
