"""Draws reports: mostly valid ones, and every kind of invalid one."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.contracts.fuzz.chain_kinds import true_hash
from tests.contracts.fuzz.limits import HOUR
from tests.contracts.fuzz.quorums import sign_by_quorum, twist_signatures
from tests.contracts.fuzz.roots.contents_drawing import draw_contents
from tests.contracts.fuzz.roots.refusals import push_digest
from tests.contracts.fuzz.roots.state import Place, State
from tests.contracts.fuzz.roots.step import Step

Report = tuple[int, ...]
Mistake = Callable[[Random, Place, State, Report], Report]


def draw_push(chosen: Random, place: Place, later: State) -> Step:
    """Draw a push for a state that already has its time: most are valid, if one can be."""
    newest = later.number + place.ahead
    back = min(later.limits.anchor_window, newest - later.as_of - 1)
    as_of = newest - chosen.choice((1, 2, back, chosen.randint(1, max(back, 1))))
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    deadline = later.time + chosen.choice((0, 600, HOUR))
    contents = draw_contents(chosen, place, later, as_of)
    root = int.from_bytes(contents.root)
    report: Report = (later.round + 1, later.config, as_of, block_hash, deadline, root)
    if chosen.random() < 0.15:
        report = chosen.choice(_MISTAKES)(chosen, place, later, report)
    return _sign(chosen, place, later, Step("push", arguments=(report,), contents=contents))


def _sign(chosen: Random, place: Place, later: State, step: Step) -> Step:
    """Return the step with signatures of a quorum, or with invalid ones."""
    report: Any = step.arguments[0]
    signed_state, signed_place = later, place
    if chosen.random() < 0.03:
        # On another root, or under another configuration.
        other_roots = {**later.roots, later.round: 1}
        other_states = (
            replace(later, roots=other_roots),
            replace(later, config=later.config + 1),
        )
        signed_state = chosen.choice(other_states)
    if chosen.random() < 0.03:
        signed_place = replace(place, oracle=place.network)
    digest = push_digest(signed_place, signed_state, report)
    signatures = sign_by_quorum(chosen, later, digest)
    if chosen.random() < 0.08:
        signatures = twist_signatures(chosen, signatures)
    return replace(step, signatures=signatures, arguments=(report, signatures.raw))


def _change_round(chosen: Random, _: Place, later: State, report: Report) -> Report:
    return (chosen.choice((0, later.round, later.round + 2, 2**32 - 1)), *report[1:])


def _change_config(chosen: Random, _: Place, later: State, report: Report) -> Report:
    config = chosen.choice((0, later.config - 1, later.config + 1))
    return (report[0], config, *report[2:])


def _change_as_of(chosen: Random, place: Place, later: State, report: Report) -> Report:
    newest = later.number + place.ahead
    old = newest - later.limits.anchor_window - 1
    past = (later.as_of, later.as_of - 1, old, old, old, old + 1)
    as_of = max(chosen.choice((*past, newest, newest + 1, newest + 500)), 0)
    block_hash = int.from_bytes(true_hash(as_of, is_arbitrum=place.is_arbitrum))
    return (*report[:2], as_of, block_hash, *report[4:])


def _change_hash(chosen: Random, place: Place, _: State, report: Report) -> Report:
    other_hash = true_hash(report[2], is_arbitrum=not place.is_arbitrum)
    block_hash = chosen.choice((0, 1, int.from_bytes(other_hash)))
    return (*report[:3], block_hash, *report[4:])


def _change_deadline(chosen: Random, _: Place, later: State, report: Report) -> Report:
    wrong = chosen.choice((-HOUR, -1, HOUR + 1, 24 * HOUR))
    return (*report[:4], later.time + wrong, report[5])


def _remove_root(_: Random, __: Place, ___: State, report: Report) -> Report:
    return (*report[:5], 0)


_MISTAKES: tuple[Mistake, ...] = (
    *(_change_round, _change_config, _change_as_of, _change_as_of, _change_as_of),
    *(_change_hash, _change_deadline, _change_deadline, _remove_root),
)
