"""The sanity gate holds reports that change too much at once, except in small networks."""

from typing import Any

from hypothesis import given, strategies as st

from oracle.domain.reports.sanity_limits import (
    Activity,
    SanityLimits,
    find_excessive_change_reason,
    find_quiet_period_reason,
)
from tests.support.examples import examples

LINE = 2002
MEMBERS = 100
lanes = st.integers(min_value=0, max_value=10_002)
moves = st.lists(st.tuples(lanes, lanes), max_size=MEMBERS)


def test_report_is_held_if_many_lanes_drop():
    fallen = [(9000, 1)] * 60
    assert "60 of 100 members would change" in str(
        find_excessive_change_reason(fallen, MEMBERS, LINE, SanityLimits())
    )


def test_report_is_held_if_over_a_quarter_would_drop_below_the_line():
    near = (2500, 2001)
    assert find_excessive_change_reason([near] * 25, MEMBERS, LINE, SanityLimits()) is None
    assert "26 of 100 members would drop" in str(
        find_excessive_change_reason([near] * 26, MEMBERS, LINE, SanityLimits())
    )


def test_low_lane_that_becomes_unselectable_counts_as_a_drop():
    assert (
        find_excessive_change_reason([(1500, 1)] * 26, MEMBERS, LINE, SanityLimits()) is not None
    )
    # A report that stays low is not held.
    assert find_excessive_change_reason([(1500, 1400)] * 26, MEMBERS, LINE, SanityLimits()) is None


def test_first_report_of_a_node_does_not_count_as_a_change():
    assert (
        find_excessive_change_reason([(0, 5002)] * MEMBERS, MEMBERS, LINE, SanityLimits()) is None
    )


def test_report_is_held_if_many_lanes_recover():
    assert (
        find_excessive_change_reason([(1, 9000)] * 51, MEMBERS, LINE, SanityLimits()) is not None
    )


@examples(25)
@given(moves, st.integers(min_value=0, max_value=19))
def test_report_of_tiny_network_is_never_held(moves, members):
    assert find_excessive_change_reason(moves, members, LINE, SanityLimits()) is None
    usual = [Activity(1000, 19)] * 30
    assert find_quiet_period_reason(Activity(0, 0), usual, members, SanityLimits()) is None


@examples(25)
@given(moves)
def test_report_is_never_held_with_share_limits_of_1(moves):
    open_gate = SanityLimits(changed_share=1, kick_share=1)
    assert find_excessive_change_reason(moves, MEMBERS, LINE, open_gate) is None


@examples(25)
@given(moves, st.lists(st.tuples(lanes, lanes), max_size=20))
def test_report_that_is_held_stays_held_with_additional_changes(moves, more):
    if find_excessive_change_reason(moves, MEMBERS, LINE, SanityLimits()) is not None:
        assert (
            find_excessive_change_reason([*moves, *more], MEMBERS, LINE, SanityLimits())
            is not None
        )


def quiet(now: Activity, before: list[Activity], **changes: Any) -> str | None:
    return find_quiet_period_reason(now, before, MEMBERS, SanityLimits(**changes))


def test_report_is_held_if_activity_falls_below_half_of_the_usual():
    usual = [Activity(tasks, 40) for tasks in (300, 200, 200, 100, 200)]
    assert quiet(Activity(100, 19), usual) is None
    assert quiet(Activity(99, 20), usual) is None
    assert "99 tasks of 19 nodes" in str(quiet(Activity(99, 19), usual))


def test_report_is_not_held_with_little_history():
    nothing = Activity(0, 0)
    assert quiet(nothing, [Activity(200, 40)] * 4) is None
    assert quiet(nothing, [Activity(99, 40)] * 30) is None


def test_report_of_a_second_consecutive_quiet_period_is_not_held():
    assert quiet(Activity(3, 2), [*[Activity(200, 40)] * 29, Activity(5, 3)]) is None


def test_report_is_never_held_with_events_share_of_0():
    assert quiet(Activity(0, 0), [Activity(200, 40)] * 30, events_share=0) is None


@examples(100)
@given(st.integers(20, 60), st.integers(100, 10_000), st.integers(0, 10_000), st.integers(5, 29))
def test_report_of_a_normal_period_after_a_task_spike_is_not_held(nodes, usual, bought, periods):
    """All nodes are busy already, so more tasks do not mean more nodes."""
    noisy = [Activity(usual + bought, nodes)] * periods
    assert quiet(Activity(usual, nodes), noisy) is None
