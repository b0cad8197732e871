"""The sanity gate: what changes too much at once waits for a human, and small networks pass."""

from typing import Any

from hypothesis import given, strategies as st

from oracle.domain.reports.sanity_limits import (
    Activity,
    LaneChange,
    SanityLimits,
    excess_change_reason,
    quiet_period_reason,
)
from tests.support.examples import examples

LINE = 2002
MEMBERS = 100
lanes = st.integers(min_value=0, max_value=10_002)
moves = st.lists(st.builds(LaneChange, lanes, lanes), max_size=MEMBERS)


def test_a_mass_drop_is_held():
    fallen = [LaneChange(9000, 1)] * 60
    assert "60 of 100 members would change" in str(
        excess_change_reason(fallen, MEMBERS, LINE, SanityLimits())
    )


def test_a_quarter_of_the_members_may_fall_under_the_line_and_no_more():
    near = LaneChange(2500, 2001)
    assert excess_change_reason([near] * 25, MEMBERS, LINE, SanityLimits()) is None
    assert "26 of 100 members would fall" in str(
        excess_change_reason([near] * 26, MEMBERS, LINE, SanityLimits())
    )


def test_a_low_lane_that_becomes_unselectable_counts_as_fallen():
    assert (
        excess_change_reason([LaneChange(1500, 1)] * 26, MEMBERS, LINE, SanityLimits()) is not None
    )
    # And one that stays low does not.
    assert (
        excess_change_reason([LaneChange(1500, 1400)] * 26, MEMBERS, LINE, SanityLimits()) is None
    )


def test_the_first_word_about_a_node_is_no_change():
    assert (
        excess_change_reason([LaneChange(0, 5002)] * MEMBERS, MEMBERS, LINE, SanityLimits())
        is None
    )


def test_a_mass_recovery_is_held_too():
    assert (
        excess_change_reason([LaneChange(1, 9000)] * 51, MEMBERS, LINE, SanityLimits()) is not None
    )


@examples(25)
@given(moves, st.integers(min_value=0, max_value=19))
def test_a_tiny_network_is_never_held(moves, members):
    assert excess_change_reason(moves, members, LINE, SanityLimits()) is None
    usual = [Activity(1000, 19)] * 30
    assert quiet_period_reason(Activity(0, 0), usual, members, SanityLimits()) is None


@examples(25)
@given(moves)
def test_shares_of_one_never_hold(moves):
    open_gate = SanityLimits(changed_share=1, kick_share=1)
    assert excess_change_reason(moves, MEMBERS, LINE, open_gate) is None


@examples(25)
@given(moves, st.lists(st.builds(LaneChange, lanes, lanes), max_size=20))
def test_what_is_held_is_held_with_more_changes_too(moves, more):
    if excess_change_reason(moves, MEMBERS, LINE, SanityLimits()) is not None:
        assert excess_change_reason([*moves, *more], MEMBERS, LINE, SanityLimits()) is not None


def quiet(now: Activity, before: list[Activity], **changes: Any) -> str | None:
    return quiet_period_reason(now, before, MEMBERS, SanityLimits(**changes))


def test_half_of_the_usual_activity_is_enough_and_less_is_held():
    usual = [Activity(tasks, 40) for tasks in (300, 200, 200, 100, 200)]
    assert quiet(Activity(100, 19), usual) is None
    assert quiet(Activity(99, 20), usual) is None
    assert "99 tasks of 19 nodes" in str(quiet(Activity(99, 19), usual))


def test_few_periods_or_few_tasks_are_never_held():
    nothing = Activity(0, 0)
    assert quiet(nothing, [Activity(200, 40)] * 4) is None
    assert quiet(nothing, [Activity(99, 40)] * 30) is None


def test_second_quiet_period_in_a_row_is_usual():
    assert quiet(Activity(3, 2), [*[Activity(200, 40)] * 29, Activity(5, 3)]) is None


def test_share_of_nothing_never_holds():
    assert quiet(Activity(0, 0), [Activity(200, 40)] * 30, events_share=0) is None


@examples(100)
@given(st.integers(20, 60), st.integers(100, 10_000), st.integers(0, 10_000), st.integers(5, 29))
def test_tasks_bought_by_a_stranger_hold_no_ordinary_period(nodes, usual, bought, periods):
    """All nodes work already: more tasks do not make more nodes."""
    noisy = [Activity(usual + bought, nodes)] * periods
    assert quiet(Activity(usual, nodes), noisy) is None
