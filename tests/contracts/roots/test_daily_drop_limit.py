"""QoSWords: how many lanes may fall per day by words of the last round."""

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from oracle.domain.reports.lanes import pack_lanes, unpack_lanes
from tests.contracts.roots.root_rounds import OPEN_LANE, RootRound, make_leaves
from tests.contracts.roots.roots_driver import LAG, RootsOracle
from tests.contracts.roots.test_qos_words import get_error_name, push_forged
from tests.contracts.roots.words_driver import BIG_FALL, DAY, FALL_SHARE, HotSet, deploy_words
from tests.support.evm.chain import RevertedError
from tests.support.round_leaves import get_word

COUNT = 100
CLOSED = {"lane": 1}


def push(hot_set: HotSet, by_seat: dict[int, dict[str, Any]], count: int = COUNT) -> RootRound:
    hot_set.roots.push_leaves(make_leaves(count, by_seat))
    return hot_set.roots.last_round


def close(*seats: int) -> dict[int, dict[str, Any]]:
    return dict.fromkeys(seats, CLOSED)


def next_day(hot_set: HotSet, days: int = 1) -> None:
    """Advance to an hour after the start of a day (UTC)."""
    chain = hot_set.roots.chain
    chain.at((chain.time // DAY + days) * DAY + 3_600)
    chain.mine()


def mark_struck(hot_set: HotSet, first: int) -> None:
    roots = hot_set.roots
    roots.do("pauseFor", 3_600, sender=roots.pauser)
    roots.do("strike", first, sender=roots.pauser)
    roots.chain.later(3_700)
    roots.chain.mine()


@pytest.fixture
def hot_set(roots: RootsOracle) -> HotSet:
    """Return a hot set in which a hundred lanes were open for more than a day, so ten may fall."""
    hot_set = deploy_words(roots)
    hot_set.bring(push(hot_set, {}), 0, 8)
    next_day(hot_set, 2)
    return hot_set


def test_words_above_the_drop_limit_are_not_written(hot_set: HotSet) -> None:
    # Four in word 0, six in word 1, one in word 2.
    seats = [*range(4), *range(16, 22), 32]
    last = push(hot_set, close(*seats))
    brought = hot_set.bring(last, 0, 8).only("WordsBrought")
    assert brought["written"] == 6
    assert hot_set.read("roundsAt", 0, 7) == [3, 3, 2, 3, 3, 3, 3]
    assert hot_set.falls == [10, 10]
    assert hot_set.read("openCount") == COUNT - 10
    assert get_error_name(lambda: hot_set.bring(last, 2, 1)) == "NothingWritten"
    for _ in range(LAG):
        push(hot_set, close(*seats))
    assert (
        get_error_name(lambda: hot_set.bring(hot_set.roots.last_round, 2, 1)) == "NothingWritten"
    )
    hot_set.bring(last, 2, 1)  # now it could have been struck
    assert hot_set.lanes(COUNT) == [leaf.lane for leaf in last.leaves]
    assert hot_set.falls == [10, 10]


def test_root_struck_within_the_lag_never_reaches_the_hot_set(hot_set: HotSet) -> None:
    stolen = push(hot_set, close(*range(1, COUNT)))
    for word in range(7):
        bring_if_allowed(hot_set, stolen, word)
    assert hot_set.read("openCount") >= COUNT - 10
    mark_struck(hot_set, stolen.round)
    assert get_error_name(lambda: hot_set.bring(stolen, 0, 1)) == "NoRoot"
    for _ in range(LAG):
        push(hot_set, {})
    assert get_error_name(lambda: hot_set.bring(stolen, 0, 1)) == "NoRoot"
    hot_set.bring(hot_set.roots.last_round, 0, 8)
    assert hot_set.lanes(COUNT) == [OPEN_LANE] * COUNT


def test_fabricated_nodes_do_not_raise_the_drop_limit(hot_set: HotSet) -> None:
    """An attack from an audit: register invented nodes with good lanes,
    then close the honest ones.
    """
    many = 2_000
    hot_set.bring(push(hot_set, {}, count=many), 0, 128)
    assert hot_set.read("openCount") == many
    assert hot_set.falls == [0, 10]
    stolen = push(hot_set, close(*range(COUNT)), count=many)
    for word in range(7):
        bring_if_allowed(hot_set, stolen, word)
    assert hot_set.falls[0] <= 10
    assert hot_set.lanes(COUNT).count(1) <= 10
    next_day(hot_set)  # the day before, a hundred were open when it began
    assert hot_set.falls == [0, 10]
    hot_set.bring(push(hot_set, {}, count=many), 0, 128)
    assert hot_set.falls == [0, 10]
    next_day(hot_set)
    assert hot_set.falls[1] > 100


def bring_if_allowed(hot_set: HotSet, source: RootRound, word: int) -> None:
    """Send a word, which the limit may leave out."""
    with suppress(RevertedError):
        hot_set.bring(source, word, 1)


def test_small_network_allows_four_lane_drops(roots: RootsOracle) -> None:
    hot_set = deploy_words(roots)
    hot_set.bring(push(hot_set, {}, count=16))
    assert hot_set.falls == [0, 4]
    assert get_error_name(lambda: hot_set.bring(push(hot_set, close(*range(5)), count=16))) == (
        "NothingWritten"
    )
    hot_set.bring(push(hot_set, close(*range(4)), count=16))
    assert hot_set.falls == [4, 4]


def test_lane_drops_are_counted_per_day(hot_set: HotSet) -> None:
    hot_set.bring(push(hot_set, close(*range(10))))
    later = close(*range(10), 20)
    assert get_error_name(lambda: hot_set.bring(push(hot_set, later), 1, 1)) == "NothingWritten"
    next_day(hot_set)
    assert hot_set.falls == [0, 10]  # a hundred when yesterday began
    hot_set.bring(push(hot_set, later), 1, 1)
    assert hot_set.falls == [1, 10]
    next_day(hot_set)
    assert hot_set.falls == [0, 9]  # 90, when yesterday began
    next_day(hot_set, 3)
    assert hot_set.falls == [0, 8]  # 89, days without a word


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
        # A lane that was never written has the weight of a newcomer, 5000.
        (0, 1, 1),
        (0, 5_001 - BIG_FALL, 0),
        (0, 5_000 - BIG_FALL, 1),
        (0, 10_002, 0),
        # A lane that is removed again.
        (5_001 + BIG_FALL, 0, 0),
        (5_002 + BIG_FALL, 0, 1),
        (1, 0, 0),
    ],
)
def test_lane_that_closes_or_falls_sharply_counts_as_a_drop(
    roots: RootsOracle, before: int, after: int, falls: int
) -> None:
    hot_set = deploy_words(roots)
    others = [OPEN_LANE] * 15
    forged = push_forged(roots, pack_lanes([*others[:7], before, *others[7:]]))
    hot_set.bring(forged)
    (before_falls, _) = hot_set.falls  # the lane's first one may be a fall
    forged = push_forged(roots, pack_lanes([*others[:7], after, *others[7:]]))
    hot_set.bring(forged)
    assert hot_set.falls == [before_falls + falls, 4]
    assert hot_set.read("openCount") == 15 + (after >= 2)


@dataclass
class WordsModel:
    """An independent implementation of QoSWords: plain lists, one lane after the other."""

    words: int
    lanes: list[int] = field(init=False)
    stamps: list[int] = field(init=False)
    # The lanes that were open when a day began, for days in which a word was written.
    opened_at: dict[int, int] = field(default_factory=dict)
    falls: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.lanes = [0] * 16 * self.words
        self.stamps = [0] * self.words

    @property
    def open_count(self) -> int:
        return sum(lane >= 2 for lane in self.lanes)

    def allowed(self, day: int) -> int:
        later = [known for known in self.opened_at if known >= day - 1]
        open_count = self.opened_at[min(later)] if later else self.open_count
        return max(4, open_count * FALL_SHARE // 10_000)

    def bring(self, source: RootRound, indexes: range, day: int, *, limited: bool) -> int:
        """Write words in order; return how many were written."""
        allowed = self.allowed(day)
        open_count = self.open_count
        written = 0
        for index in indexes:
            if self.stamps[index] >= source.round:
                continue
            before = self.lanes[16 * index : 16 * index + 16]
            after = list(unpack_lanes(get_word(source.tree, index)))
            if limited:
                falls = sum(map(self.is_fall, before, after))
                if self.falls[day] + falls > allowed:
                    continue
                self.falls[day] += falls
            self.lanes[16 * index : 16 * index + 16] = after
            self.stamps[index] = source.round
            written += 1
        if written:
            self.opened_at.setdefault(day, open_count)
        return written

    @staticmethod
    def is_fall(before: int, after: int) -> bool:
        before = before or 5_001
        after = after or 5_001
        return (before > 1 and after == 1) or before - after > BIG_FALL


def test_random_word_updates_match_the_model(roots: RootsOracle) -> None:
    chooser = random.Random(4)  # noqa: S311 -- the same steps in each run
    hot_set = deploy_words(roots)
    model = WordsModel(8)
    count = 120
    by_seat: dict[int, dict[str, Any]] = {}
    rounds: list[RootRound] = []
    written_words: Counter[tuple[bool, bool]] = Counter()
    for step in range(120):
        for seat in chooser.sample(range(count), 6):
            by_seat[seat] = {"lane": chooser.choice([1, 1, 2, 3_000, OPEN_LANE, 10_002])}
        rounds.append(push(hot_set, by_seat, count=count))
        if step % 9 == 8:
            next_day(hot_set, chooser.choice([1, 1, 2, 3]))
        limited = chooser.random() < 0.7 or step < LAG
        source = rounds[-1] if limited else rounds[-1 - LAG]
        size = 1 << chooser.choice([0, 0, 1, 2, 3])
        first = chooser.randrange(8 // size) * size
        day = (roots.chain.time + 1) // DAY  # of the next block
        allowed = model.allowed(day)
        written = model.bring(source, range(first, first + size), day, limited=limited)
        if written:
            brought = hot_set.bring(source, first, size).only("WordsBrought")
            assert brought["written"] == written
            assert hot_set.falls == [model.falls[day], allowed]
        else:
            assert get_error_name(partial(hot_set.bring, source, first, size)) == "NothingWritten"
        written_words[written < size, written == 0] += 1
        assert hot_set.lanes(16 * model.words) == model.lanes
        assert hot_set.read("roundsAt", 0, model.words) == model.stamps
        assert hot_set.read("openCount") == model.open_count
    # Runs that were written completely, partly, and not at all.
    assert min(written_words.values()) > 5
    assert len(written_words) == 3
