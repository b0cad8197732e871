"""Invariants of the hot set and the challenges after every call, read from the chain alone.

Each function is an invariant of docs/reference/contract-invariants.md.
"""

from typing import Any

from tests.contracts.fuzz.limits import DAY
from tests.contracts.fuzz.roots.invariants import History, Moment
from tests.contracts.fuzz.roots.state import ALWAYS_MAY_FALL, NEWCOMER
from tests.contracts.fuzz.roots.trees import (
    BEST_LANE,
    DO_NOT_SELECT,
    ZERO_QOS,
    Contents,
    Leaf,
    lanes_of,
)

_REASONS = ("two leaves", "lane", "pool")


def check_modules(moment: Moment, history: History) -> None:
    """Check every invariant of the modules.

    Raises:
        AssertionError: one of them does not hold.
    """
    for invariant in (
        check_word_is_what_its_root_states,
        check_open_lanes_are_counted,
        check_falls_are_within_the_share,
        check_seat_is_what_a_lagged_root_states,
        check_wrong_round_contradicts_itself,
    ):
        invariant(moment, history)


def check_word_is_what_its_root_states(moment: Moment, history: History) -> None:
    last = moment.before.head.round
    for index, (word, round_) in moment.after.words.items():
        before = moment.before.words[index]
        if (word, round_) == before:
            continue
        assert moment.step.name == "bring", "a word that was not brought"
        assert round_ in {last, last - moment.place.lag}, "a word of another round"
        assert round_ not in history.struck, "a word of a struck round"
        assert round_ > before[1], "an older word over a newer one"
        stated = history.contents[round_].words
        assert (index, word) in stated, "a word that its root does not state"
        assert max(lanes_of(word)) <= BEST_LANE, "a lane above the best score"


def _count_open(words: dict[int, Any]) -> int:
    lanes = (lane for word, _ in words.values() for lane in lanes_of(word))
    return sum(lane >= ZERO_QOS for lane in lanes)


def check_open_lanes_are_counted(moment: Moment, _: History) -> None:
    assert moment.after.open_count == _count_open(moment.after.words)


def check_falls_are_within_the_share(moment: Moment, history: History) -> None:
    """Words of the last round lower, per day, at most a share of the lanes
    that were open a day before.
    """
    day = moment.now // DAY
    place = moment.place
    start_of_day_before = (day - 1) * DAY
    earlier = [count for at, count in history.open_at if at < start_of_day_before]
    lagged = earlier[-1] if earlier else 0
    allowed = max(lagged * place.fall_share // 10_000, ALWAYS_MAY_FALL)
    fallen = 0
    for index, (word, round_) in moment.after.words.items():
        before, _ = moment.before.words[index]
        is_last = round_ == moment.before.head.round and place.lag != 0
        if is_last and (word, round_) != moment.before.words[index]:
            fallen += _count_falls(before, word, place.big_fall)
    history.falls[day] = history.falls.get(day, 0) + fallen
    assert history.falls[day] <= allowed, "more lanes fell than the share"
    assert moment.after.falls == (history.falls[day], allowed)
    history.open_at.append((moment.now, _count_open(moment.after.words)))


def _count_falls(before: int, after: int, step: int) -> int:
    count = 0
    for old, new in zip(lanes_of(before), lanes_of(after), strict=True):
        old_weight, new_weight = (
            NEWCOMER if lane == 0 else lane - DO_NOT_SELECT for lane in (old, new)
        )
        is_closed = old_weight > 0 and new_weight == 0
        count += is_closed or old_weight - new_weight > step
    return count


def check_seat_is_what_a_lagged_root_states(moment: Moment, history: History) -> None:
    lagged = moment.before.head.round - moment.place.lag
    for node, seat in moment.after.seats.items():
        if seat == moment.before.seats[node]:
            continue
        assert moment.step.name == "bind", "a seat without a leaf"
        assert lagged not in history.struck, "a seat of a struck round"
        leaves = history.contents[lagged].leaves
        assert any((leaf.node, leaf.seat) == (node, seat) for leaf in leaves)


def check_wrong_round_contradicts_itself(moment: Moment, history: History) -> None:
    for round_, _, _ in moment.events("RoundWrong"):
        assert round_ not in history.struck, "a struck round was judged"
        contents = history.contents[round_]
        reason = moment.after.reasons.get(round_)
        texts = [text for text in _REASONS if _as_word(text) == reason]
        assert reason is None or texts, "a reason that has no name"
        for text in texts:
            assert _contradicts(contents, text), f"{text}: the root does not contradict itself"


def _as_word(text: str) -> int:
    return int.from_bytes(text.encode().ljust(32, b"\0"))


def _contradicts(contents: Contents, reason: str) -> bool:
    leaves = contents.leaves
    if reason == "lane":
        return any(leaf.lane != leaf.expected_lane for leaf in leaves)
    if reason == "pool":
        return any(not _is_pool_right(leaf) for leaf in leaves)
    distinct = set(leaves)
    nodes = {leaf.node for leaf in distinct}
    seats = {leaf.seat for leaf in distinct}
    has_twin = len(nodes) < len(distinct) or len(seats) < len(distinct)
    return has_twin or any(leaf.is_in_gap(node) for leaf in distinct for node in nodes)


def _is_pool_right(leaf: Leaf) -> bool:
    return (leaf.score_count, leaf.score_sum) == (len(leaf.pool), sum(leaf.pool))
