"""Which words of lanes a call brings: those that differ, in runs that the contract takes."""

from hypothesis import given, strategies as st

from oracle.bindings.qos_words import StoredWord, find_outdated_words, group_word_runs

INDEXES = st.sets(st.integers(0, 300))


@given(INDEXES, st.sampled_from([1, 4, 64, 2048]))
def test_runs_hold_exactly_the_words_once(indexes: set[int], max_words: int):
    runs = group_word_runs(indexes, max_words)
    covered = [index for first, count in runs for index in range(first, first + count)]
    assert covered == sorted(indexes)


@given(INDEXES, st.sampled_from([1, 4, 64, 2048]))
def test_run_is_aligned_and_no_longer_than_allowed(indexes: set[int], max_words: int):
    for first, count in group_word_runs(indexes, max_words):
        assert count <= max_words
        assert count & (count - 1) == 0
        assert first % count == 0


@given(INDEXES)
def test_no_two_runs_could_be_one(indexes: set[int]):
    runs = set(group_word_runs(indexes))
    for first, count in runs:
        if first % (2 * count) == 0:
            assert (first + count, count) not in runs


def test_only_older_words_with_other_lanes_are_outdated():
    stored = [
        StoredWord(0, 0),
        StoredWord(0, 0),
        StoredWord(7, 3),
        StoredWord(7, 3),
        StoredWord(7, 5),
    ]
    assert find_outdated_words(stored, [7, 0, 7, 8, 8], 5) == [0, 3]
