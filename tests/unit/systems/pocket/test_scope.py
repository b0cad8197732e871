"""Outcomes and their memory: what lives how long, to the second; units; flags; removal."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.pocket.parameters import (
    ARTICLE,
    PORTAL_API_HEAD,
    Parameters,
    SampleWindow,
    compute,
)
from oracle.systems.pocket.ranking import RankedNode, Reason, evaluate
from oracle.systems.pocket.record_scope import RecordScope
from tests.support.examples import examples

A, B, C = (Address(name) for name in "abc")
SLOW = replace(compute(20), p90_min_results=500)


def row(scope: RecordScope, now: float, node: Address = A) -> RankedNode:
    found = evaluate(scope.records, [node], now, scope.params).row_of(node)
    assert found is not None
    return found


def failing(times: int, params: Parameters = ARTICLE) -> RecordScope:
    scope = RecordScope(params)
    for _ in range(times):
        scope.failed(A, 0)
    return scope


def test_counts_end_three_hundred_seconds_after_the_last_outcome():
    scope = failing(1)
    scope.failed(A, 299)
    assert row(scope, 598.999).stats.attempts == 2
    assert row(scope, 599).stats.attempts == 0


def test_samples_end_three_hundred_seconds_after_the_first_outcome():
    scope = RecordScope(ARTICLE)
    scope.failed(A, 0)
    scope.succeeded(A, 1.0, 299)
    scope.succeeded(A, 3.0, 299.5)
    assert row(scope, 299.5).stats.median == 2.0
    scope.succeeded(A, 5.0, 300)
    assert row(scope, 300).stats.median == 5.0


def test_a_first_success_is_its_own_median_whatever_samples_are_left():
    scope = RecordScope(replace(ARTICLE, samples_ttl=900))
    scope.succeeded(A, 1.0, 0)
    scope.succeeded(A, 3.0, 300)
    assert row(scope, 300).stats.median == 3.0
    scope.succeeded(A, 3.0, 301)
    assert row(scope, 301).stats.median == 3.0
    scope.succeeded(A, 0.5, 302)
    assert row(scope, 302).stats.median == 2.0


def test_samples_of_a_sliding_window_end_each_by_its_own_age():
    scope = RecordScope(replace(ARTICLE, window=SampleWindow.SLIDING))
    for time, seconds in ((0, 1.0), (100, 2.0), (300, 4.0)):
        scope.succeeded(A, seconds, time)
    assert row(scope, 300).stats.median == 3.0


def test_a_flag_ends_three_hundred_seconds_after_it_was_set():
    scope = failing(50)
    scope.look([A], 10)
    # Its counts ended before; without them it has the one ticket of a flagged node.
    assert row(scope, 309.999).reason is Reason.PROBATION_ONE
    assert row(scope, 310).reason is Reason.UNTESTED


def test_a_cleared_flag_is_known_for_two_hours():
    scope = failing(1)
    scope.records[A].set_flag(300, flag=True)
    scope.succeeded(A, 0.1, 1)
    scope.look([A], 2)
    assert (scope.records[A].flag, scope.records[A].flag_until) == (False, 7202)


@pytest.mark.parametrize(("params", "tickets"), [(ARTICLE, 0), (PORTAL_API_HEAD, 10)])
def test_a_dead_node_has_no_ticket_in_the_article_and_all_of_them_at_the_head(params, tickets):
    scope = failing(50, params)
    for now in (1, 100, 299):
        scope.look([A], now)
        assert row(scope, now).tickets == tickets


def test_alternating_success_and_failure_leaves_one_ticket():
    scope = RecordScope(ARTICLE)
    for n in range(40):
        scope.succeeded(A, 0.1, 2 * n)
        scope.failed(A, 2 * n + 1)
    assert (row(scope, 80).stats.success_rate, row(scope, 80).tickets) == (0.5, 1)


@pytest.mark.parametrize("window", SampleWindow)
def test_memory_of_a_node_is_bounded(window: SampleWindow):
    scope = RecordScope(replace(ARTICLE, window=window, scaled=True, rolling_from=20))
    for n in range(2000):
        scope.succeeded(A, (n * 7919 % 2000) / 1000, 0.1 * n)
        assert len(scope.records[A].samples) <= ARTICLE.max_samples
    assert len(scope._ascending) == len(scope._newest) == ARTICLE.max_samples
    assert scope._ascending == sorted(scope._newest)


@examples(30)
@given(
    st.lists(st.tuples(st.sampled_from((A, B, C)), st.none() | st.integers(0, 400)), max_size=80),
    st.integers(-5, 8),
)
def test_scaled_work_of_any_length_gives_the_same_tickets(outcomes, power):
    scale = 2.0**power
    # What takes longer is also remembered for longer in `compute`; here only the unit differs.
    small, large = RecordScope(SLOW), RecordScope(replace(SLOW, expected=SLOW.expected * scale))
    for n, (node, seconds) in enumerate(outcomes):
        for scope, factor in ((small, 1.0), (large, scale)):
            if seconds is None:
                scope.failed(node, n)
            else:
                scope.succeeded(node, seconds * factor, n)
    of_small, of_large = (
        [(r.node, r.tickets) for r in evaluate(s.records, [A, B, C], 80, s.params).rows]
        for s in (small, large)
    )
    assert of_small == of_large


def test_a_task_of_twice_the_size_may_take_longer():
    scope = RecordScope(compute(10, expected_per_size=5))
    scope.succeeded(A, 40, 0, size=2)
    scope.succeeded(B, 40, 0, size=10)
    assert row(scope, 1, A).stats.median == 2.0
    assert row(scope, 1, B).stats.median == round(40 / 60, 5)


def test_the_scopes_own_median_replaces_what_was_expected():
    scope = RecordScope(replace(SLOW, rolling_from=3))
    for seconds in (5, 6, 7):
        assert scope.expected() == 20
        scope.succeeded(A, seconds, 0)
    assert scope.expected() == 6
    scope.succeeded(B, 9, 0)
    assert row(scope, 0, B).stats.median == 1.5


def test_a_flag_set_by_outcomes_needs_no_evaluation():
    scope = failing(3, SLOW)
    assert row(scope, 1).reason is Reason.FLAGGED
    scope.succeeded(A, 5, 2)
    assert row(scope, 2).reason is Reason.LOW_SUCCESS
    assert scope.records[A].flag is False


def test_errors_in_a_row_flag_a_node_where_they_are_counted():
    scope = failing(3, replace(ARTICLE, errors_limit=2, errors_counted=True))
    assert row(scope, 59).stats.failing
    assert not row(scope, 60).stats.failing
    scope.failed(A, 60)
    assert scope.records[A].errors == 1


def test_a_success_ends_a_row_of_errors():
    scope = failing(3, replace(ARTICLE, errors_limit=2, errors_counted=True))
    scope.succeeded(A, 0.1, 1)
    assert scope.records[A].errors == 0


def test_a_passed_check_clears_the_flag():
    scope = failing(50)
    scope.look([A], 0)
    scope.health_passed(A, 1)
    assert not scope.records[A].is_flagged(1)


def test_a_failure_that_came_with_its_timeout_is_not_early():
    scope = RecordScope(replace(ARTICLE, early_failures=1))
    scope.failed(A, 0, early_by=2.0)
    assert evaluate(scope.records, [A], 0, scope.params).left_out == ()
    scope.failed(A, 0, early_by=2.1)
    assert evaluate(scope.records, [A], 3599, scope.params).left_out == (A,)
    assert evaluate(scope.records, [A], 3600, scope.params).left_out == ()


_gaps = st.sampled_from((0, 1, 60, 149, 299, 300, 301))
_runs = st.sampled_from((1, 2, 49, 50, 51))


@examples(60)
@pytest.mark.parametrize("params", [ARTICLE, PORTAL_API_HEAD, replace(SLOW, shelve_failures=2)])
@given(
    steps=st.lists(
        st.tuples(_gaps, st.sampled_from((A, B, C)), st.booleans(), _runs, st.sets(st.just(A))),
        max_size=30,
    )
)
def test_looking_at_suspects_does_what_an_evaluation_of_everybody_does(steps, params):
    quick, plain, now = RecordScope(params), RecordScope(params), 0
    for gap, node, well, times, absent in steps:
        now += gap
        for scope in (quick, plain):
            for _ in range(times):
                scope.succeeded(node, 0.1, now) if well else scope.failed(node, now)
        present = [name for name in (A, B, C) if name not in absent]
        quick.look(present, now)
        plain.apply(evaluate(plain.records, present, now, params).effects)
        assert quick.records == plain.records
