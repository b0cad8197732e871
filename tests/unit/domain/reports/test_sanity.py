"""The sanity gate: what changes too much at once waits for a human, and small networks pass."""

from hypothesis import given, strategies as st

from oracle.domain.reports.sanity_limits import (
    EventCounts,
    Move,
    Sanity,
    why_too_much,
    why_too_quiet,
)
from tests.support.examples import examples

LINE = 2002
MEMBERS = 100
lanes = st.integers(min_value=0, max_value=10_002)
moves = st.lists(st.builds(Move, lanes, lanes), max_size=MEMBERS)


def test_a_mass_drop_is_held():
    fallen = [Move(9000, 1)] * 60
    assert "60 of 100 members would change" in str(why_too_much(fallen, MEMBERS, LINE, Sanity()))


def test_a_quarter_of_the_members_may_fall_under_the_line_and_no_more():
    near = Move(2500, 2001)
    assert why_too_much([near] * 25, MEMBERS, LINE, Sanity()) is None
    assert "26 of 100 members would fall" in str(
        why_too_much([near] * 26, MEMBERS, LINE, Sanity())
    )


def test_a_low_lane_that_becomes_unselectable_counts_as_fallen():
    assert why_too_much([Move(1500, 1)] * 26, MEMBERS, LINE, Sanity()) is not None
    # And one that stays low does not.
    assert why_too_much([Move(1500, 1400)] * 26, MEMBERS, LINE, Sanity()) is None


def test_the_first_word_about_a_node_is_no_change():
    assert why_too_much([Move(0, 5002)] * MEMBERS, MEMBERS, LINE, Sanity()) is None


def test_a_mass_recovery_is_held_too():
    assert why_too_much([Move(1, 9000)] * 51, MEMBERS, LINE, Sanity()) is not None


@examples(25)
@given(moves, st.integers(min_value=0, max_value=19))
def test_a_tiny_network_is_never_held(moves, members):
    counted = EventCounts(0, [1000] * 30)
    assert why_too_much(moves, members, LINE, Sanity()) is None
    assert why_too_quiet(counted, members, Sanity()) is None


@examples(25)
@given(moves)
def test_shares_of_one_never_hold(moves):
    open_gate = Sanity(changed_share=1, kick_share=1)
    assert why_too_much(moves, MEMBERS, LINE, open_gate) is None


@examples(25)
@given(moves, st.lists(st.builds(Move, lanes, lanes), max_size=20))
def test_what_is_held_is_held_with_more_changes_too(moves, more):
    if why_too_much(moves, MEMBERS, LINE, Sanity()) is not None:
        assert why_too_much([*moves, *more], MEMBERS, LINE, Sanity()) is not None


def test_half_of_the_usual_events_is_enough_and_fewer_are_held():
    usual = [300, 200, 200, 100, 200]
    assert why_too_quiet(EventCounts(100, usual), MEMBERS, Sanity()) is None
    assert "99 events" in str(why_too_quiet(EventCounts(99, usual), MEMBERS, Sanity()))


def test_few_periods_or_few_events_say_nothing():
    assert why_too_quiet(EventCounts(0, [200] * 4), MEMBERS, Sanity()) is None
    assert why_too_quiet(EventCounts(0, [99] * 30), MEMBERS, Sanity()) is None


def test_a_count_that_a_human_passed_is_the_measure_afterwards():
    usual = [200] * 30
    assert why_too_quiet(EventCounts(60, usual, excused=80), MEMBERS, Sanity()) is None
    assert why_too_quiet(EventCounts(39, usual, excused=80), MEMBERS, Sanity()) is not None


def test_a_share_of_nothing_never_holds():
    quiet = EventCounts(0, [200] * 30)
    assert why_too_quiet(quiet, MEMBERS, Sanity(events_share=0)) is None
