"""When a report is worth its gas: properties of the price we are willing to pay."""

from hypothesis import given, strategies as st

from oracle.domain.reports.lanes import replace_lane
from oracle.domain.reports.submission_policy import (
    ReportChange,
    SubmissionDecision,
    SubmissionPolicy,
    compute_max_fee,
    decide_submission,
    measure_change,
)
from tests.support.examples import examples

fees = st.integers(min_value=1, max_value=10**12)
seconds = st.integers(min_value=0, max_value=10**7)
bounds = st.fixed_dictionaries(
    {"heartbeat": st.integers(min_value=1, max_value=10**6), "cap": fees}
)
submission_policy = st.builds(
    SubmissionPolicy,
    cheap_fee_wei=st.none() | fees,
    min_words=st.integers(min_value=1, max_value=1024),
    min_change=st.none() | st.integers(min_value=1, max_value=10**6),
)
news = st.builds(
    ReportChange,
    words=st.integers(min_value=0, max_value=1024),
    change=st.integers(min_value=0, max_value=10**6),
    is_urgent=st.booleans(),
    age=seconds,
)


@examples(25)
@given(seconds, seconds, submission_policy, bounds)
def test_max_fee_never_decreases_with_age(
    first_age_seconds, second_age_seconds, submission_policy, bounds
):
    younger, older = sorted((first_age_seconds, second_age_seconds))
    assert compute_max_fee(younger, submission_policy, **bounds) <= compute_max_fee(
        older, submission_policy, **bounds
    )


@examples(25)
@given(news, submission_policy, bounds)
def test_submission_fee_never_exceeds_cap(news, submission_policy, bounds):
    assert (
        0 < decide_submission(news, submission_policy, **bounds).max_fee_per_gas <= bounds["cap"]
    )


@examples(25)
@given(news, submission_policy, bounds)
def test_change_older_than_heartbeat_is_sent_with_max_fee_at_the_cap(
    news, submission_policy, bounds
):
    old = ReportChange(news.words, news.change, news.is_urgent, bounds["heartbeat"])
    worth = decide_submission(old, submission_policy, **bounds)
    assert (worth.should_send, worth.max_fee_per_gas) == (True, bounds["cap"])


@examples(25)
@given(news, submission_policy, bounds)
def test_band_crossing_is_sent_immediately_with_max_fee_at_the_cap(
    news, submission_policy, bounds
):
    urgent = ReportChange(news.words, news.change, is_urgent=True, age=news.age)
    assert decide_submission(urgent, submission_policy, **bounds) == SubmissionDecision(
        should_send=True, reason="a node crosses a band", max_fee_per_gas=bounds["cap"]
    )


@examples(25)
@given(news, bounds)
def test_default_policy_sends_any_change_immediately_with_max_fee_at_the_cap(news, bounds):
    some = ReportChange(max(1, news.words), news.change, news.is_urgent, news.age)
    worth = decide_submission(some, SubmissionPolicy(), **bounds)
    assert (worth.should_send, worth.max_fee_per_gas) == (True, bounds["cap"])


def test_few_words_wait_unless_change_is_large_enough():
    submission_policy, bounds = (
        SubmissionPolicy(min_words=3, min_change=500),
        {"heartbeat": 3600, "cap": 100},
    )
    assert not decide_submission(_calm(2, 499), submission_policy, **bounds).should_send
    assert decide_submission(_calm(3, 1), submission_policy, **bounds).should_send
    assert decide_submission(_calm(1, 500), submission_policy, **bounds).should_send


def test_max_fee_grows_linearly_with_age():
    submission_policy, bounds = SubmissionPolicy(cheap_fee_wei=20), {"heartbeat": 100, "cap": 120}
    assert [compute_max_fee(age, submission_policy, **bounds) for age in (0, 50, 100, 999)] == [
        20,
        70,
        120,
        120,
    ]


def test_change_is_the_sum_of_steps_over_all_lanes():
    before = {0: replace_lane(replace_lane(0, 0, 5000), 1, 6000)}
    target_words = [(0, replace_lane(replace_lane(0, 0, 5100), 1, 5950)), (7, 0)]
    assert measure_change(before, target_words, 2002) == (150, False)


def test_lane_that_appears_or_falls_below_the_line_crosses_a_band():
    assert measure_change({0: 2002}, [(0, 2001)], 2002) == (1, True)
    assert measure_change({}, [(0, 5002)], 2002) == (5002, True)
    assert measure_change({0: 5002}, [(0, 1)], 2002) == (5001, True)


def _calm(word_count: int, change: int) -> ReportChange:
    return ReportChange(word_count, change, is_urgent=False, age=10)
