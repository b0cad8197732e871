"""Which words of lanes a call updates: those that differ, in runs that the contract accepts."""

from collections.abc import Iterator
from itertools import product

from hypothesis import given, strategies as st

from oracle.bindings.qos_words import StoredWord, find_outdated_words, group_words_into_runs

INDEXES = st.sets(st.integers(0, 300))
MAX_WORDS = st.sampled_from([1, 4, 64, 2048])
# The gas of a call without words, in multiples of the gas of a word (docs/reference/gas.md).
CALL_WORDS = 6


def iterate_covers(indexes: set[int], first: int, count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield every set of aligned runs that covers these words of a range."""
    if not any(first <= index < first + count for index in indexes):
        yield []
    yield [(first, count)]
    if count > 1:
        half = count // 2
        covers = (iterate_covers(indexes, start, half) for start in (first, first + half))
        for left, right in product(*covers):
            yield left + right


@given(INDEXES, MAX_WORDS)
def test_every_changed_word_is_covered_by_exactly_one_run(indexes: set[int], max_words: int):
    runs = group_words_into_runs(indexes, max_words)
    covered = [index for first, count in runs for index in range(first, first + count)]
    assert indexes <= set(covered)
    assert covered == sorted(set(covered))


@given(INDEXES, MAX_WORDS)
def test_runs_are_aligned_and_not_longer_than_the_maximum(indexes: set[int], max_words: int):
    for first, count in group_words_into_runs(indexes, max_words):
        assert count <= max_words
        assert count & (count - 1) == 0
        assert first % count == 0


@given(st.sets(st.integers(0, 7)))
def test_words_are_grouped_into_runs_with_the_least_gas(indexes: set[int]):
    def cost(runs: list[tuple[int, int]]) -> int:
        return sum(CALL_WORDS + count for _, count in runs)

    assert cost(group_words_into_runs(indexes, 8)) == min(map(cost, iterate_covers(indexes, 0, 8)))


def test_stored_word_is_outdated_if_its_lanes_differ():
    stored = [
        StoredWord(0, 0),
        StoredWord(0, 0),
        StoredWord(7, 3),
        StoredWord(7, 3),
        StoredWord(7, 5),
    ]
    assert find_outdated_words(stored, [7, 0, 7, 8, 8], 5) == [0, 3]


def test_unchanged_word_older_than_min_round_is_outdated():
    stored = [StoredWord(7, 2), StoredWord(7, 3), StoredWord(0, 0)]
    assert find_outdated_words(stored, [7, 7, 0], 5, min_round=3) == [0]
