"""Reports by lot: mostly right ones, and every way to make a wrong one."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.contracts.fuzz.refusals import push_digest
from tests.contracts.fuzz.signing import Form, Signature, Signatures, ring
from tests.contracts.fuzz.state import (
    BEST_LANE,
    LANES,
    RECORD,
    ZERO_QOS,
    Place,
    State,
    lanes_of,
    true_hash,
)
from tests.contracts.fuzz.step import Step

HOUR = 3600


def number_of(address: int) -> int:
    """The number of the key that has this address."""
    return next(at for at, key in enumerate(ring()) if key.address == address)


# --- signatures ---


def quorum(chosen: Random, state: State, digest: bytes) -> Signatures:
    """A right quorum."""
    who = chosen.sample(state.signers, state.quorum)
    return Signatures(tuple(Signature(number_of(one), digest) for one in who))


def twisted(chosen: Random, state: State, good: Signatures) -> Signatures:
    """The same, and something is wrong with it; or nothing is, where there is nothing to twist."""
    given, at = list(good.given), chosen.randrange(len(good.given))
    how = chosen.randrange(8)
    if how == 0:
        given[at] = given[at - 1]
    elif how == 1:
        given[at] = replace(given[at], key=chosen.randrange(len(ring())))
    elif how in {2, 3, 4}:
        form = (Form.HIGH_S, Form.LOW_V, Form.NOISE)[how - 2]
        given[at] = replace(given[at], form=form)
    elif how == 5:
        given[at] = replace(given[at], digest=bytes(31) + b"\x01")
    elif how == 6:
        given = given[:-1] if chosen.random() < 0.5 else [*given, given[at]]
    else:
        return replace(good, longer=chosen.choice((-65, -1, 1, 65)))
    return Signatures(tuple(given))


# --- records ---


def lane(chosen: Random, old: int, max_step: int) -> int:
    """A lane that may follow this one."""
    if chosen.random() < 0.4:
        return old
    new = chosen.choice((1, 2, 1_000, 2_001, 2_002, BEST_LANE, chosen.randrange(1, BEST_LANE)))
    if min(old, new) < ZERO_QOS:
        return new
    return min(max(new, old - max_step), old + max_step)


def words(chosen: Random, state: State) -> list[tuple[int, int]]:
    """Right words, as many as there may be at most."""
    count = len(state.nodes)
    places = range((count + LANES - 1) // LANES)
    most = min(state.limits.max_words, len(places))
    found = []
    for at in sorted(chosen.sample(places, chosen.randint(min(1, most), most))):
        old = lanes_of(state.words.get(at, 0))
        lanes = [
            lane(chosen, one, state.limits.max_step) if LANES * at + place < count else 0
            for place, one in enumerate(old)
        ]
        found.append((at, sum(one << 16 * place for place, one in enumerate(lanes))))
    return found


def written(these: list[tuple[int, int]]) -> bytes:
    return b"".join(at.to_bytes(3) + word.to_bytes(32) for at, word in these)


def _spoilt(chosen: Random, state: State, records: bytes) -> bytes:
    """Something else than these right records."""
    lanes = LANES * len(records) // RECORD
    beyond = (len(state.nodes) + LANES) // LANES
    ways = (
        records + records[-RECORD:],
        records[RECORD:] + records[:RECORD],
        chosen.choice((b"", records[: -chosen.randint(1, RECORD)])),
        written([(beyond, 5)]),
        written([(beyond, 0)]),
        written([(at, 5) for at in range(state.limits.max_words + 1)]),
        *(_one_lane(chosen, state, records, chosen.randrange(max(lanes, 1))) for _ in range(5)),
    )
    return chosen.choice(ways)


def _one_lane(chosen: Random, state: State, records: bytes, place: int) -> bytes:
    """Another value in one lane, whatever that lane holds and whoever's it is."""
    wrong = (0, 1, 2, BEST_LANE, BEST_LANE + 1, 0x7FFF, 0x8000, 0xFFFF)
    at = RECORD * (place // LANES) + 3 + 2 * (LANES - 1 - place % LANES)
    step = chosen.choice((state.limits.max_step + 1, state.limits.max_step))
    old = int.from_bytes(records[at : at + 2])
    steps = (max(old - step, 0), min(old + step, 0xFFFF))
    value = chosen.choice((*wrong, *steps, *steps, *steps))
    return records[:at] + value.to_bytes(2) + records[at + 2 :]


# --- the whole push ---


def push(chosen: Random, place: Place, later: State) -> Step:
    """A push for a state whose time has come: two in three are right, if one can be."""
    newest = later.number + place.ahead
    back = min(later.limits.anchor_window, newest - later.as_of - 1)
    as_of = newest - chosen.choice((1, 2, back, chosen.randint(1, max(back, 1))))
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    deadline = later.time + chosen.choice((0, 600))
    step = Step(
        "push",
        words=(later.round + 1, later.rules, as_of, block_hash, deadline),
        records=written(words(chosen, later)),
    )
    if chosen.random() < 0.2:
        step = _WRONG[chosen.randrange(len(_WRONG))](chosen, place, later, step)
    return signed(chosen, place, later, step)


def signed(chosen: Random, place: Place, later: State, step: Step) -> Step:
    """The step with a quorum's signatures, or with something like it."""
    wanted = later
    if chosen.random() < 0.03:
        # On top of another report, or under other rules.
        is_other_report = chosen.random() < 0.5
        other = replace(later, reports=(*later.reports[:-1], 1))
        wanted = other if is_other_report else replace(later, rules_hash=1)
    if chosen.random() < 0.03:
        place = replace(place, oracle=place.network)
    good = quorum(chosen, later, push_digest(place, wanted, step))
    if chosen.random() < 0.1:
        good = twisted(chosen, later, good)
    return replace(step, signatures=good)


def _round(chosen: Random, _: Place, later: State, step: Step) -> Step:
    number = chosen.choice((0, later.round, later.round + 2, 2**32 - 1))
    return replace(step, words=(number, *step.words[1:]))


def _rules(chosen: Random, _: Place, later: State, step: Step) -> Step:
    rules = chosen.choice((0, later.rules - 1, later.rules + 1))
    return replace(step, words=(step.words[0], rules, *step.words[2:]))


def _as_of(chosen: Random, place: Place, later: State, step: Step) -> Step:
    newest = later.number + place.ahead
    window = later.limits.anchor_window
    old = newest - window - 1
    past = (later.as_of, later.as_of - 1, old, old, old, old + 1)
    as_of = max(chosen.choice((*past, newest, newest + 1, newest + 500)), 0)
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    return replace(step, words=(*step.words[:2], as_of, block_hash, step.words[4]))


def _hash(chosen: Random, place: Place, __: State, step: Step) -> Step:
    other = true_hash(step.words[2], is_arbitrum=not place.is_arbitrum)
    block_hash = chosen.choice((0, 1, int.from_bytes(other)))
    return replace(step, words=(*step.words[:3], block_hash, step.words[4]))


def _deadline(chosen: Random, _: Place, later: State, step: Step) -> Step:
    return replace(step, words=(*step.words[:4], later.time - chosen.choice((1, HOUR))))


def _records(chosen: Random, _: Place, later: State, step: Step) -> Step:
    return replace(step, records=_spoilt(chosen, later, step.records))


def _forwarded(_: Random, __: Place, ___: State, step: Step) -> Step:
    return replace(step, is_forwarded=True)


_WRONG: tuple[Callable[[Random, Place, State, Step], Step], ...] = (
    *(_round, _rules, _as_of, _as_of, _as_of, _hash, _deadline, _forwarded),
    *(_records, _records, _records, _records, _records),
)
