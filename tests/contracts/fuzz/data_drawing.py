"""The data of reports by lot: newcomers, indexes that change hands, words; and spoilt data."""

from random import Random

from tests.contracts.fuzz.data_refusals import falls, is_releasable
from tests.contracts.fuzz.state import (
    ALWAYS,
    BEST_LANE,
    COUNTS,
    LANES,
    RECORD,
    Data,
    State,
    lanes_of,
    taken_apart,
)

# Addresses that nodes have: the network knows them all.
NODES = 48
# Below this index the fuzzer appends; then it waits for indexes to be given back.
MOST = 40


def drawn(chosen: Random, state: State) -> Data:
    """Right data for this state, where there can be any."""
    reused = _reused(chosen, state)
    takers = [taker for taker, _ in reused]
    room = max(state.limits.max_new - len(reused), 0)
    if len(state.holders) >= MOST:
        room = 0
    outside = [who for who in range(1, NODES) if not state.slot(who).index_plus_one]
    outside = [who for who in outside if who not in takers]
    some = min(room, len(outside), chosen.choice((0, 0, 1, 3)))
    if not state.holders:
        some = min(max(some, 1), room)
    fresh = tuple(chosen.sample(outside, some))
    return Data(reused, fresh, written(_words(chosen, state, len(fresh))))


def _reused(chosen: Random, state: State) -> tuple[tuple[int, int], ...]:
    free = [who for who in state.holders if is_releasable(state, who)]
    outside = [who for who in range(1, NODES) if not state.slot(who).index_plus_one]
    if not free or not outside or not state.limits.max_new or chosen.random() < 0.7:
        return ()
    return ((chosen.choice(outside), chosen.choice(free)),)


def _words(chosen: Random, state: State, appended: int) -> list[tuple[int, int]]:
    """Right words, as many as there may be at most; those of appended nodes first of all."""
    before, count = len(state.holders), len(state.holders) + appended
    needed = {index // LANES for index in range(before, count)}
    optional_indexes = [at for at in range((count + LANES - 1) // LANES) if at not in needed]
    max_extra = max(state.limits.max_words - len(needed), 0)
    min_extra = 0 if needed else min(1, len(optional_indexes))
    more = chosen.sample(
        optional_indexes, min(len(optional_indexes), max(min_extra, chosen.randint(0, max_extra)))
    )
    share = state.open_count * state.limits.fall_share // 10_000
    left = [max(ALWAYS, share) if chosen.random() < 0.95 else 10**6]
    return [(at, _word(chosen, state, at, count, left)) for at in sorted((*needed, *more))]


def _word(chosen: Random, state: State, at: int, count: int, left: list[int]) -> int:
    """`left`: how many lanes may still fall; it is counted down."""
    packed_word = 0
    for place, old in enumerate(lanes_of(state.words.get(at, 0))):
        if LANES * at + place >= count:
            break
        new = _lane(chosen, old)
        if falls(old, new, state.limits.big_fall):
            new = new if left[0] > 0 else old
            left[0] -= 1
        packed_word |= new << 16 * place
    return packed_word


def _lane(chosen: Random, old: int) -> int:
    if old and chosen.random() < 0.4:
        return old
    return chosen.choice((1, 2, 1_000, 2_001, 2_002, BEST_LANE, chosen.randrange(1, BEST_LANE)))


def written(these: list[tuple[int, int]]) -> bytes:
    return b"".join(at.to_bytes(3) + word.to_bytes(32) for at, word in these)


# --- spoilt ---


def spoilt(chosen: Random, state: State, raw: bytes) -> bytes:
    """Something else than this right data."""
    data = taken_apart(raw)
    assert data is not None
    ways = (*_other_words(chosen, state, data), *_other_nodes(chosen, state, data))
    return chosen.choice((*(variant.raw for variant in ways), *_cut(chosen, raw)))


def _cut(chosen: Random, raw: bytes) -> tuple[bytes, ...]:
    return b"", raw[:3], raw[:COUNTS], raw[: -chosen.randint(1, RECORD)], raw + b"\0"


def _other_words(chosen: Random, state: State, data: Data) -> list[Data]:
    records = data.records
    lanes = LANES * len(records) // RECORD
    beyond = (len(state.holders) + len(data.fresh) + LANES) // LANES
    max_words = state.limits.max_words
    record_variants = (
        records + records[-RECORD:],
        records[RECORD:] + records[:RECORD],
        b"",
        written([(beyond, 5)]),
        records + written([(beyond, 0)]),
        written([(at, 5) for at in range(max_words + 1)]),
        *(_one_lane(chosen, state, records, chosen.randrange(max(lanes, 1))) for _ in range(6)),
    )
    return [data._replace(records=variant) for variant in record_variants]


def _one_lane(chosen: Random, state: State, records: bytes, place: int) -> bytes:
    """Another value in one lane, whatever that lane holds and whoever's it is."""
    wrong = (0, 1, 2, BEST_LANE, BEST_LANE + 1, 0x7FFF, 0x8000, 0xFFFF)
    at = RECORD * (place // LANES) + 3 + 2 * (LANES - 1 - place % LANES)
    step = state.limits.big_fall
    old = int.from_bytes(records[at : at + 2])
    steps = (max(old - step, 0), max(old - step - 1, 0))
    value = chosen.choice((*wrong, *steps, *steps))
    return records[:at] + value.to_bytes(2) + records[at + 2 :]


def _other_nodes(chosen: Random, state: State, data: Data) -> list[Data]:
    """Addresses that have an index, or none; too many, or twice; zero."""
    anybody = chosen.randrange(NODES)
    outsider = next((who for who in range(1, NODES) if not state.slot(who).index_plus_one), 0)
    holder = chosen.choice(state.holders) if state.holders else anybody
    pair = (outsider, holder)
    too_many = tuple(range(100, 101 + state.limits.max_new))
    return [
        data._replace(fresh=(*data.fresh, anybody)),
        data._replace(fresh=(*data.fresh, 0)),
        data._replace(fresh=(*data.fresh, outsider)),
        data._replace(fresh=(*data.fresh, outsider, outsider)),
        data._replace(fresh=too_many),
        data._replace(reused=(*data.reused, pair)),
        data._replace(reused=(*data.reused, pair, pair)),
        data._replace(reused=((anybody, holder),)),
        data._replace(reused=((outsider, anybody),)),
        data._replace(reused=(pair,), fresh=(outsider,)),
    ]
