"""When a report is worth its gas: properties of the fee that the transmitter pays."""

from hypothesis import given, strategies as st

from oracle.domain.reports.report import ReportChange
from oracle.domain.reports.submission_policy import (
    SubmissionDecision,
    SubmissionPolicy,
    compute_max_fee,
    decide_submission,
)
from tests.support.examples import examples

fees = st.integers(min_value=1, max_value=10**12)
seconds = st.integers(min_value=0, max_value=10**7)
bounds = st.fixed_dictionaries(
    {"heartbeat_seconds": st.integers(min_value=1, max_value=10**6), "fee_cap": fees}
)
policies = st.builds(
    SubmissionPolicy,
    cheap_fee_wei=st.none() | fees,
    min_nodes=st.integers(min_value=1, max_value=1024),
    min_change=st.none() | st.integers(min_value=1, max_value=10**6),
)
changes = st.builds(
    ReportChange,
    node_count=st.integers(min_value=0, max_value=1024),
    steps=st.integers(min_value=0, max_value=10**6),
    max_steps=st.integers(min_value=0, max_value=10**4),
    crosses_band=st.booleans(),
)


@examples(25)
@given(seconds, seconds, policies, bounds)
def test_max_fee_never_decreases_with_age(first_age, second_age, policy, bounds):
    younger, older = sorted((first_age, second_age))
    assert compute_max_fee(younger, policy, **bounds) <= compute_max_fee(older, policy, **bounds)


@examples(25)
@given(changes, seconds, policies, bounds)
def test_submission_fee_never_exceeds_cap(change, age, policy, bounds):
    decision = decide_submission(change, age, policy, **bounds)
    assert 0 < decision.max_fee_per_gas <= bounds["fee_cap"]


@examples(25)
@given(changes, policies, bounds)
def test_report_is_sent_with_the_max_fee_after_the_heartbeat(change, policy, bounds):
    decision = decide_submission(change, bounds["heartbeat_seconds"], policy, **bounds)
    assert (decision.should_send, decision.max_fee_per_gas) == (True, bounds["fee_cap"])


@examples(25)
@given(changes, seconds, policies, bounds)
def test_band_crossing_is_sent_immediately_with_max_fee(change, age, policy, bounds):
    urgent_change = change._replace(crosses_band=True)
    assert decide_submission(urgent_change, age, policy, **bounds) == SubmissionDecision(
        should_send=True, reason="a node crosses a band", max_fee_per_gas=bounds["fee_cap"]
    )


@examples(25)
@given(changes, seconds, bounds)
def test_default_policy_sends_any_change_with_the_max_fee(change, age, bounds):
    some_change = change._replace(node_count=max(1, change.node_count))
    decision = decide_submission(some_change, age, SubmissionPolicy(), **bounds)
    assert (decision.should_send, decision.max_fee_per_gas) == (True, bounds["fee_cap"])


def test_small_change_of_few_nodes_is_not_sent_yet():
    policy = SubmissionPolicy(min_nodes=3, min_change=500)
    bounds = {"heartbeat_seconds": 3600, "fee_cap": 100}

    def is_sent(node_count: int, steps: int) -> bool:
        change = ReportChange(node_count, steps, max_steps=1)
        return decide_submission(change, 10, policy, **bounds).should_send

    assert [is_sent(2, 499), is_sent(3, 1), is_sent(1, 500)] == [False, True, True]


def test_max_fee_grows_linearly_with_age():
    policy = SubmissionPolicy(cheap_fee_wei=20)
    bounds = {"heartbeat_seconds": 100, "fee_cap": 120}
    max_fees = [compute_max_fee(age, policy, **bounds) for age in (0, 50, 100, 999)]
    assert max_fees == [20, 70, 120, 120]
