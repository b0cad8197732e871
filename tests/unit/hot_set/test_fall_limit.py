"""Which lanes fall, and which words the daily limit leaves out, as QoSWords counts them."""

import pytest
from hypothesis import given, strategies as st

from oracle.bindings.qos_words import StoredWord
from oracle.domain.reports.lanes import pack_lanes
from oracle.hot_set.hot_set_planner import count_falling_lanes, split_words_by_fall_limit

BIG_FALL = 2_500
LANES = st.lists(st.sampled_from([0, 1, 2, 2_501, 5_001, 7_500, 10_002]), min_size=16, max_size=16)


# The same cases as those of the contract in tests/contracts/roots/test_daily_drop_limit.py.
@pytest.mark.parametrize(
    ("before", "after", "falls"),
    [
        (7_002, 1, 1),
        (2, 1, 1),
        (7_002, 7_002 - BIG_FALL, 0),
        (7_002, 7_001 - BIG_FALL, 1),
        (1, 2, 0),
        (1, 1, 0),
        (7_002, 10_002, 0),
        (0, 1, 1),
        (0, 5_001 - BIG_FALL, 0),
        (0, 5_000 - BIG_FALL, 1),
        (0, 10_002, 0),
        (5_001 + BIG_FALL, 0, 0),
        (5_002 + BIG_FALL, 0, 1),
        (1, 0, 0),
    ],
)
def test_lane_that_closes_or_falls_sharply_counts_as_drop(
    before: int, after: int, falls: int
) -> None:
    others = [7_002] * 15
    previous_word, word = (pack_lanes([lane, *others]) for lane in (before, after))
    assert count_falling_lanes(previous_word, word, BIG_FALL) == falls


@given(st.lists(st.tuples(LANES, LANES), max_size=8), st.integers(0, 20))
def test_words_are_written_in_order_up_to_the_drop_limit(pairs, left: int) -> None:
    stored = [StoredWord(pack_lanes(before), 1) for before, _ in pairs]
    lane_words = [pack_lanes(after) for _, after in pairs]
    within, beyond = split_words_by_fall_limit(
        range(len(pairs)), stored, lane_words, left, BIG_FALL
    )

    assert sorted(within + beyond) == list(range(len(pairs)))
    for index in range(len(pairs)):
        taken = [*(other for other in within if other < index), index]
        total = sum(
            count_falling_lanes(stored[other].lanes, lane_words[other], BIG_FALL)
            for other in taken
        )
        assert (index in within) == (total <= left)
