"""The interval of a QoS is exact: it equals an enumeration of all outcomes, and it is monotone."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_figures import (
    compute_node_scores,
    compute_qos_interval,
    compute_score_sum_interval,
)
from oracle.domain.state import Membership
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, fold_node
from tests.unit.systems.legacy.networks import RULES as LEGACY

SCORES = (0, 2, 5, 10)
MEMBER = fold_node(History().joins("A"), "A")


def enumerate_interval(pool, values):
    """Return the interval from the weight of every sequence of scores, in fractions of the sum."""
    counts = Counter(pool)
    weight_by_score = {value: counts[value] * len(values) + 1 for value in values}
    weight_by_sum: Counter[int] = Counter()
    for outcome in product(values, repeat=len(pool)):
        weight = 1
        for score in outcome:
            weight *= weight_by_score[score]
        weight_by_sum[sum(outcome)] += weight
    total = sum(weight_by_sum.values())

    def weight_where(is_wanted):
        return sum(weight for result, weight in weight_by_sum.items() if is_wanted(result))

    sums = sorted(weight_by_sum)
    low = max(s for s in sums if 20 * weight_where(lambda result, s=s: result < s) <= total)
    high = min(s for s in sums if 20 * weight_where(lambda result, s=s: result > s) <= total)
    return low, high


@given(st.lists(st.sampled_from(SCORES), min_size=1, max_size=5))
@examples(100)
def test_score_interval_matches_enumeration_of_outcomes(pool):
    assert compute_score_sum_interval(bytes(pool), SCORES) == enumerate_interval(pool, SCORES)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3), st.sets(st.integers(0, 6), min_size=1))
@examples(100)
def test_score_interval_of_any_score_table_matches_enumeration(pool, possible):
    values = sorted(possible.union(pool))
    assert compute_score_sum_interval(bytes(pool), tuple(possible)) == enumerate_interval(
        pool, values
    )


@given(st.lists(st.sampled_from(SCORES), min_size=1, max_size=50), st.data())
@examples(100)
def test_better_score_never_lowers_the_interval(pool, data):
    index = data.draw(st.integers(0, len(pool) - 1))
    better = data.draw(st.sampled_from([score for score in SCORES if score >= pool[index]]))
    raised = [*pool[:index], better, *pool[index + 1 :]]
    before, after = (
        compute_score_sum_interval(bytes(scores), SCORES) for scores in (pool, raised)
    )
    assert before[0] <= after[0]
    assert before[1] <= after[1]


@given(st.lists(st.sampled_from(SCORES), min_size=1, max_size=50), st.randoms())
@examples(50)
def test_score_interval_is_independent_of_score_order(pool, random):
    shuffled = random.sample(pool, len(pool))
    assert compute_score_sum_interval(bytes(pool), SCORES) == compute_score_sum_interval(
        bytes(shuffled), SCORES
    )


def test_score_interval_narrows_with_more_scores():
    widths = []
    for repetitions in (1, 2, 10):
        pool = bytes((10, 5, 2, 5, 0) * repetitions)
        low, high = compute_score_sum_interval(pool, SCORES)
        widths.append((high - low) / len(pool))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


def test_score_interval_of_full_pool_is_exact():
    pool = bytes((10,) * 20 + (5,) * 15 + (2,) * 10 + (0,) * 5)
    assert compute_score_sum_interval(pool, SCORES) == (250, 336)


def test_score_interval_of_empty_pool_is_rejected():
    with pytest.raises(ValueError, match="empty pool"):
        compute_score_sum_interval(b"", SCORES)


@given(st.lists(st.sampled_from(SCORES), min_size=1, max_size=50), st.integers(0, UNIT))
@examples(50)
def test_interval_bounds_are_multiplied_by_reliability(pool, reliability):
    scored = replace(
        MEMBER, pool=bytes(pool), pool_sum=sum(pool), base=reliability, since=MEMBER.since
    )
    interval = compute_qos_interval(scored, scored.since, CRYNUX)
    low, high = compute_score_sum_interval(bytes(pool), SCORES)
    best = 10 * len(pool)
    assert interval == (
        low * UNIT // best * reliability // UNIT,
        high * UNIT // best * reliability // UNIT,
    )


@given(
    st.lists(st.sampled_from(SCORES), min_size=3, max_size=50),
    st.sampled_from([CRYNUX, RELAY]),
)
@examples(50)
def test_qos_interval_lies_between_0_and_1(pool, rules):
    scored = replace(MEMBER, pool=bytes(pool), pool_sum=sum(pool))
    interval = compute_qos_interval(scored, scored.since, rules)
    if interval is not None:
        assert 0 <= interval[0] <= interval[1] <= UNIT


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"pool": b"", "pool_sum": 0}, CRYNUX),
        ({"membership": Membership.QUIT}, CRYNUX),
        ({}, LEGACY),
        ({"pool": bytes(3), "pool_sum": 0}, RELAY),
    ],
)
def test_qos_without_mean_score_has_no_interval(changes, rules):
    scored = replace(MEMBER, **({"pool": bytes((10, 5)), "pool_sum": 15} | changes))
    assert compute_qos_interval(scored, scored.since, rules) is None


def test_qos_interval_contains_qos_and_never_exceeds_reliability():
    scored = replace(MEMBER, pool=bytes((10, 5, 2)), pool_sum=17, base=UNIT // 2)
    time = scored.since + 600
    interval = compute_qos_interval(scored, time, CRYNUX)
    scores = compute_node_scores(scored, time, CRYNUX)
    assert interval is not None
    low, high = interval
    assert low < (scores.qos or 0) < high <= scores.reliability
