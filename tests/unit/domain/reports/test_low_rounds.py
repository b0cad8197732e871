"""Which rounds showed a lane under the line: the hysteresis of kickouts."""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.kickout_evidence import (
    count_newest_low_run,
    find_first_low_run,
    iter_lane_observations,
)
from oracle.domain.reports.lanes import replace_lane
from tests.support.examples import examples
from tests.support.rounds import accepted

LINE, INDEX = 2002, 17


def a_round(number: int, lane: int | None) -> RoundAccepted:
    """A round that carries the lane's word, or None: only another one."""
    words = ((0, 5002),) if lane is None else ((1, replace_lane(0, INDEX, lane)),)
    accepted_round = accepted(number, dict(words))
    return replace(
        accepted_round, at=Position(100 + number, 0, 0, 0), as_of=90 + number, digest=ZERO_HASH
    )


def rounds(*lanes: int | None) -> list[RoundAccepted]:
    return [a_round(number, lane) for number, lane in enumerate(lanes, start=1)]


def test_round_without_lane_update_keeps_previous_lane():
    observations = list(iter_lane_observations(rounds(None, 1500, None), INDEX, 5002))
    assert [observation.lane for observation in observations] == [5002, 1500, 1500]


def test_first_low_run_is_returned():
    observations = iter_lane_observations(rounds(1500, 9000, 1400, None, 1300, 9000), INDEX, 5002)
    assert [observation.round for observation in find_first_low_run(observations, LINE, 3)] == [
        3,
        4,
        5,
    ]


def test_unreported_lane_or_lane_at_the_threshold_is_not_low():
    assert count_newest_low_run(list(iter_lane_observations(rounds(2002), INDEX, 0)), LINE) == 0
    assert count_newest_low_run(list(iter_lane_observations(rounds(None), INDEX, 0)), LINE) == 0
    assert count_newest_low_run(list(iter_lane_observations(rounds(1, None), INDEX, 0)), LINE) == 2


lanes = st.lists(st.none() | st.sampled_from([0, 1, 1500, 2001, 2002, 9000]), max_size=12)


@examples(25)
@given(lanes, lanes, st.integers(min_value=1, max_value=4))
def test_later_rounds_do_not_change_the_first_low_run(before, after, count):
    run = find_first_low_run(iter_lane_observations(rounds(*before), INDEX, 0), LINE, count)
    if len(run) == count:
        assert (
            find_first_low_run(
                iter_lane_observations(rounds(*before, *after), INDEX, 0), LINE, count
            )
            == run
        )


@examples(25)
@given(lanes, st.integers(min_value=1, max_value=4))
def test_long_enough_newest_low_run_implies_a_first_low_run(lanes, count):
    observations = list(iter_lane_observations(rounds(*lanes), INDEX, 0))
    if count_newest_low_run(observations, LINE) >= count:
        assert len(find_first_low_run(observations, LINE, count)) == count
