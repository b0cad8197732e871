"""Reports by lot: mostly right ones, and every way to make a wrong one.

Their data: tests/contracts/fuzz/data_drawing.py.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.contracts.fuzz.chain_kinds import true_hash
from tests.contracts.fuzz.data_drawing import drawn, spoilt
from tests.contracts.fuzz.limits import HOUR
from tests.contracts.fuzz.quorums import sign_by_quorum, twist_signatures
from tests.contracts.fuzz.refusals import push_digest
from tests.contracts.fuzz.state import Place, State
from tests.contracts.fuzz.step import Step

# --- the whole push ---


def push(chosen: Random, place: Place, later: State) -> Step:
    """A push for a state whose time has come: two in three are right, if one can be."""
    newest = later.number + place.ahead
    back = min(later.limits.anchor_window, newest - later.as_of - 1)
    as_of = newest - chosen.choice((1, 2, back, chosen.randint(1, max(back, 1))))
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    deadline = later.time + chosen.choice((0, 600, HOUR))
    words = (later.round + 1, later.config, as_of, block_hash, deadline)
    step = Step("push", words=words, data=drawn(chosen, later).raw)
    if chosen.random() < 0.2:
        step = _WRONG[chosen.randrange(len(_WRONG))](chosen, place, later, step)
    return signed(chosen, place, later, step)


def signed(chosen: Random, place: Place, later: State, step: Step) -> Step:
    """The step with a quorum's signatures, or with something like it."""
    signed_state = later
    if chosen.random() < 0.03:
        # On top of another report, or under another configuration.
        is_other_report = chosen.random() < 0.5
        other_report_state = replace(later, reports=(*later.reports[:-1], 1))
        signed_state = (
            other_report_state if is_other_report else replace(later, config=later.config + 1)
        )
    if chosen.random() < 0.03:
        place = replace(place, oracle=place.network)
    good = sign_by_quorum(chosen, later, push_digest(place, signed_state, step))
    if chosen.random() < 0.1:
        good = twist_signatures(chosen, good)
    return replace(step, signatures=good)


def _round(chosen: Random, _: Place, later: State, step: Step) -> Step:
    number = chosen.choice((0, later.round, later.round + 2, 2**32 - 1))
    return replace(step, words=(number, *step.words[1:]))


def _config(chosen: Random, _: Place, later: State, step: Step) -> Step:
    config = chosen.choice((0, later.config - 1, later.config + 1))
    return replace(step, words=(step.words[0], config, *step.words[2:]))


def _as_of(chosen: Random, place: Place, later: State, step: Step) -> Step:
    newest = later.number + place.ahead
    window = later.limits.anchor_window
    old = newest - window - 1
    past = (later.as_of, later.as_of - 1, old, old, old, old + 1)
    as_of = max(chosen.choice((*past, newest, newest + 1, newest + 500)), 0)
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    return replace(step, words=(*step.words[:2], as_of, block_hash, step.words[4]))


def _hash(chosen: Random, place: Place, __: State, step: Step) -> Step:
    other_hash = true_hash(step.words[2], is_arbitrum=not place.is_arbitrum)
    block_hash = chosen.choice((0, 1, int.from_bytes(other_hash)))
    return replace(step, words=(*step.words[:3], block_hash, step.words[4]))


def _deadline(chosen: Random, _: Place, later: State, step: Step) -> Step:
    wrong = chosen.choice((-HOUR, -1, HOUR + 1, 24 * HOUR))
    return replace(step, words=(*step.words[:4], later.time + wrong))


def _data(chosen: Random, _: Place, later: State, step: Step) -> Step:
    return replace(step, data=spoilt(chosen, later, step.data))


def _forwarded(_: Random, __: Place, ___: State, step: Step) -> Step:
    return replace(step, is_forwarded=True)


_WRONG: tuple[Callable[[Random, Place, State, Step], Step], ...] = (
    *(_round, _config, _as_of, _as_of, _as_of, _hash, _deadline, _deadline, _forwarded),
    *(_data, _data, _data, _data, _data, _data, _data, _data),
)
