"""The limit on lanes that fall in a day by words of the last round, as QoSWords counts them.

A lane falls if it closes, or if its QoS drops by more than a step. See
docs/reference/contract-interface.md#qoswords.
"""

from collections.abc import Iterable, Sequence

from oracle.bindings.qos_words import FallLimit, StoredWord
from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED, unpack_lanes

# A lane that was never written counts as that of a newcomer, whose weight is 5000.
_NEWCOMER_LANE = 5_001


def count_falls(previous_word: int, new_word: int, big_fall: int) -> int:
    """Return the number of lanes that fall between two words; `big_fall` is in steps of 0.0001."""
    return sum(
        previous - lane > big_fall or previous >= LOWEST_SCORE > lane
        for previous, lane in zip(
            _unpack_comparable_lanes(previous_word),
            _unpack_comparable_lanes(new_word),
            strict=True,
        )
    )


def split_by_fall_limit(
    indexes: Iterable[int],
    stored_words: Sequence[StoredWord],
    lane_words: Sequence[int],
    fall_limit: FallLimit,
    big_fall: int,
) -> tuple[list[int], list[int]]:
    """Split words into those that the contract accepts from the last round, and others."""
    within: list[int] = []
    beyond: list[int] = []
    falls = fall_limit.falls
    for index in indexes:
        word_falls = count_falls(stored_words[index].lanes, lane_words[index], big_fall)
        # The contract skips a word that would exceed the limit, and continues.
        is_within = falls + word_falls <= fall_limit.max_falls
        falls += word_falls if is_within else 0
        (within if is_within else beyond).append(index)
    return within, beyond


def _unpack_comparable_lanes(lane_word: int) -> list[int]:
    return [_NEWCOMER_LANE if lane == NEVER_REPORTED else lane for lane in unpack_lanes(lane_word)]
