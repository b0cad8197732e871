"""Why the oracle must refuse the data of a report: who is given an index, and what words say."""

from collections.abc import Iterator
from copy import copy

from tests.contracts.fuzz.state import (
    ALWAYS,
    BEST_LANE,
    LANES,
    NONE,
    PENDING,
    RECORD,
    ZERO_QOS,
    Data,
    State,
    lanes_of,
    taken_apart,
)

Reasons = Iterator[tuple[str, bool]]


def in_data(state: State, raw: bytes) -> Reasons:
    data = taken_apart(raw)
    new_node_count = 0 if data is None else len(data.reused) + len(data.fresh)
    yield "BadLength", data is None or new_node_count > state.limits.max_new
    if data is None:
        return
    count, remainder = divmod(len(data.records), RECORD)
    yield "BadLength", count == 0 or remainder != 0 or count > state.limits.max_words
    after = copy(state)
    after.slots, after.holders = dict(state.slots), list(state.holders)
    yield from _indexes(after, data)
    yield from _words(after, data)


def _indexes(after: State, data: Data) -> Reasons:
    """Gives them as it goes: one that comes later meets what those before it left."""
    for fresh, old in data.reused:
        refused = not is_releasable(after, old)
        yield "NotReleasable", refused
        if refused:
            return
        index = after.slot(old).index_plus_one - 1
        release(after, old)
        yield "AlreadyRegistered", not _is_new(after, fresh)
        give(after, fresh, index)
    for fresh in data.fresh:
        yield "AlreadyRegistered", not _is_new(after, fresh)
        give(after, fresh, len(after.holders))


def is_releasable(state: State, old: int) -> bool:
    """It has an index, its lane was closed by an earlier round, and no kickout of it lives."""
    return state.lane_of(old) == 1 and not state.is_pending(old)


def _is_new(state: State, fresh: int) -> bool:
    return fresh != 0 and state.slot(fresh).index_plus_one == 0


def release(state: State, old: int) -> None:
    slot = state.slot(old)
    kick = NONE if slot.kick == PENDING else slot.kick
    state.slots[old] = slot._replace(index_plus_one=0, kick=kick)


def give(state: State, fresh: int, index: int) -> None:
    state.slots[fresh] = state.slot(fresh)._replace(index_plus_one=index + 1)
    if index == len(state.holders):
        state.holders.append(fresh)
    else:
        state.holders[index] = fresh


def _words(after: State, data: Data) -> Reasons:
    last, fallen = -1, 0
    count = len(after.holders)
    words = dict(after.words)
    for at, word in data.words:
        yield "NotAscending", at <= last
        yield "UnknownNode", LANES * at >= count
        last = at
        pairs = list(zip(lanes_of(after.words.get(at, 0)), lanes_of(word), strict=True))
        for place, (old, new) in enumerate(pairs):
            yield "UnknownNode", new != 0 and LANES * at + place >= count
            yield "ScoreTooHigh", new > BEST_LANE
            yield "ScoreErased", old != 0 and new == 0
            fallen += falls(old, new, after.limits.big_fall)
        words[at] = word
    # The appended ones come last; what they have must be written by these words.
    scored = (words.get(i // LANES, 0) >> 16 * (i % LANES) & 0xFFFF for i in range(count))
    yield "NoScore", not all(scored)
    max_falls = max(ALWAYS, after.open_count * after.limits.fall_share // 10_000)
    yield "TooManyFalls", fallen > max_falls


def falls(old: int, new: int, step: int) -> bool:
    """Closed, or sunk by more than the step."""
    return old > new + step or old >= ZERO_QOS > new
