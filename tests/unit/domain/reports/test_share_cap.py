"""No round lets more lanes fall than the contract takes, and the worst go first."""

from hypothesis import given, strategies as st

from oracle.domain.reports.contract_state import RoundLimits
from oracle.domain.reports.lanes import LOWEST_SCORE, replace_lane, unpack_lanes
from oracle.domain.reports.target_words import (
    FallCause,
    count_open_lanes,
    iter_falling_lanes,
    limit_falls,
)
from tests.support.vectors import Vector, vectors_of

lanes = st.one_of(st.integers(0, 3), st.integers(0, 10_002))
a_word = st.lists(lanes, min_size=16, max_size=16).map(
    lambda found: sum(lane << 16 * place for place, lane in enumerate(found))
)
some_words = st.dictionaries(st.integers(0, 3), a_word, max_size=4)
caps = st.builds(RoundLimits, fall_share=st.integers(0, 10_000), big_fall=st.integers(0, 10_000))


def causes_by(cause: FallCause):
    return lambda indexes: dict.fromkeys(indexes, cause)


def fallen(before: dict[int, int], after: dict[int, int], cap: RoundLimits) -> int:
    """As the contract counts: lane by lane, of the words that a report carries."""
    count = 0
    for number, word in after.items():
        for old, new in zip(unpack_lanes(before.get(number, 0)), unpack_lanes(word), strict=True):
            is_closed = old >= LOWEST_SCORE and new < LOWEST_SCORE
            count += is_closed or new + cap.big_fall < old
    return count


@given(some_words, some_words, caps)
def test_falls_never_exceed_contract_limit(before, target_words, cap):
    words, deferred_falls = limit_falls(before, target_words, cap, causes_by(FallCause.OTHER))
    max_falls = max(4, count_open_lanes(before) * cap.fall_share // 10_000)

    assert fallen(before, words, cap) <= max_falls
    assert (
        fallen(before, target_words, cap)
        == min(max_falls, fallen(before, target_words, cap)) + deferred_falls
    )


@given(some_words, some_words, caps)
def test_every_lane_has_either_its_old_or_its_new_value(before, target_words, cap):
    limited_words, _ = limit_falls(before, target_words, cap, causes_by(FallCause.OTHER))

    for number, word in limited_words.items():
        lane_triples = zip(
            unpack_lanes(word),
            unpack_lanes(before.get(number, 0)),
            unpack_lanes(target_words[number]),
            strict=True,
        )
        assert all(lane in {old, new} for lane, old, new in lane_triples)


@given(some_words, some_words, caps)
def test_repeated_rounds_reach_target_values(before, target_words, cap):
    reached = dict(before)
    # Lanes that sink without falling are written at once; of the others at least four a round.
    for _ in range(1 + 4 * 16 // 4):
        reached |= limit_falls(reached, target_words, cap, causes_by(FallCause.OTHER))[0]
    assert {number: reached[number] for number in target_words} == target_words


def ten_fall(share: int = 1000):
    """Ten of ten open lanes are to close; four may."""
    before = {0: sum(5002 << 16 * place for place in range(10))}
    target_words = {0: sum(1 << 16 * place for place in range(10))}
    return before, target_words, RoundLimits(fall_share=share)


def closed_first(causes) -> list[int]:
    before, target_words, cap = ten_fall()
    words, _ = limit_falls(
        before, target_words, cap, lambda indexes: {index: causes[index] for index in indexes}
    )
    return [place for place, lane in enumerate(unpack_lanes(words[0])[:10]) if lane == 1]


def test_paused_departed_excluded_and_kickout_due_lanes_fall_before_others():
    causes = dict.fromkeys(range(10), FallCause.OTHER) | {
        9: FallCause.KICKOUT_DUE,
        8: FallCause.EXCLUDED,
        7: FallCause.NO_MEMBER,
        6: FallCause.PAUSED,
    }
    assert closed_first(causes) == [6, 7, 8, 9]


def test_lanes_with_the_lowest_index_fall_first_within_the_same_cause():
    assert closed_first(dict.fromkeys(range(10), FallCause.EXCLUDED)) == [0, 1, 2, 3]


def test_causes_are_not_looked_up_when_no_fall_is_deferred():
    before, target_words, cap = ten_fall(share=10_000)

    def unasked(_):
        raise AssertionError("somebody was asked")

    assert limit_falls(before, target_words, cap, unasked)[1] == 0


def test_first_lane_value_of_a_node_is_not_a_fall():
    assert (
        list(iter_falling_lanes({}, {0: replace_lane(0, 3, 1)}, RoundLimits(fall_share=0))) == []
    )


@vectors_of("falls", file="rounds")
def test_falling_lanes_match_vector(vector: Vector):
    before = {number: int(word, 16) for number, word in vector["before"]}
    after = {number: int(word, 16) for number, word in vector["after"]}
    cap = RoundLimits(fall_share=vector["fall_share"], big_fall=vector["big_fall"])

    assert [index for index, _ in iter_falling_lanes(before, after, cap)] == vector["falling"]
    assert cap.compute_max_falls(count_open_lanes(before)) == vector["most"]
