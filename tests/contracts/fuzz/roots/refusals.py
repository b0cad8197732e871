"""The error with which the oracle must reject a step: the first that applies, in the order of the
checks.

Written from the contract's specification, check by check. Those of the modules:
tests/contracts/fuzz/roots/module_refusals.py.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.contracts.fuzz.limits import DAY, HOUR, KickLimits
from tests.contracts.fuzz.quorums import list_addresses
from tests.contracts.fuzz.roots.limits import RootLimits, can_set_kick_limits
from tests.contracts.fuzz.roots.state import ACCUSED, EXPELLED, Place, State
from tests.contracts.fuzz.roots.step import Step
from tests.contracts.fuzz.roots.trees import (
    HELD,
    ZERO_QOS,
    Leaf,
    hash_words,
    is_proven,
    read_leaf,
)
from tests.contracts.fuzz.signing import BYTES, Signatures

Reasons = Iterator[tuple[str, bool]]
Rule = Callable[[Place, State, Step, int], Reasons]

# A call to an address without code reverts without data.
NO_REASON = "unnamed 0x"


def find_first(reasons: Reasons) -> str | None:
    return next((name for name, holds in reasons if holds), None)


# --- rounds ---


def _push(place: Place, state: State, step: Step, _: int) -> Reasons:
    report: Any = step.arguments[0]
    round_, config, as_of, as_of_hash, deadline, root = report
    newest = state.number + place.ahead
    yield "Paused", state.time < state.paused_until
    yield "WrongRound", round_ != state.round + 1
    yield "WrongConfig", config != state.config
    yield "TooSoon", state.time < state.pushed_at + state.limits.min_interval
    yield "Expired", state.time > deadline
    yield "DeadlineTooFar", deadline > state.time + HOUR
    yield "StaleAsOf", not state.as_of < as_of < newest
    yield "AsOfTooOld", newest - as_of > state.limits.anchor_window
    block_hash = place.hash_of(as_of, newest)
    yield "Reorged", block_hash == 0 or block_hash != as_of_hash
    yield "NoRoot", root == 0
    yield from _signatures(state, push_digest(place, state, report), step.signatures)


def push_digest(place: Place, state: State, report: Sequence[int]) -> bytes:
    """Return the digest that a quorum must have signed for this report to be accepted now."""
    round_, _config, as_of, as_of_hash, deadline, root = report
    chained = (state.config_digest(place), round_, state.last_root)
    return place.domain.of_root_report((*chained, as_of, as_of_hash, deadline, root))


def _signatures(state: State, digest: bytes, signatures: Signatures) -> Reasons:
    yield "BadSignatureLength", len(signatures) != BYTES * state.quorum
    addresses = list_addresses(signatures)
    is_good = all(signature.is_good_for(digest) for signature in signatures.given)
    is_distinct = len(set(addresses)) == len(addresses)
    yield "BadSignature", not (is_good and is_distinct and set(addresses) <= set(state.signers))


def _strike(place: Place, state: State, step: Step, _: int) -> Reasons:
    (first,) = step.arguments
    assert isinstance(first, int)
    yield "NotPaused", state.time >= state.paused_until
    yield "WrongRound", not max(state.round - place.kept, 0) < first <= state.round


# --- kickouts ---


def _kickouts_run(state: State) -> Reasons:
    yield "Paused", state.time < state.paused_until
    yield "KicksRest", state.kicks_paused
    yield "WrongConfig", state.round_config != state.config


def _proven(place: Place, state: State, leaf: Sequence[int], proof: Sequence[int]) -> Reasons:
    root = state.root_of(place, state.round)
    yield "NoRoot", root is None
    assert root is not None
    yield "NotProven", not is_proven(root, hash_words(leaf), proof)


def _due(state: State, leaf: Leaf) -> Reasons:
    yield "NotDue", not 0 < leaf.due_since <= state.time
    yield "NotBelowThreshold", leaf.lane >= state.limits.kick_below + ZERO_QOS
    is_allowed = state.kick(leaf.node).allowed == leaf.due_since
    yield "KickHeld", bool(leaf.flags & HELD) and not is_allowed


def _accuse(place: Place, state: State, step: Step, _: int) -> Reasons:
    abi: Any
    proof: Any
    abi, proof = step.arguments
    leaf = read_leaf(abi)
    kick = state.kick(abi[0])
    yield from _kickouts_run(state)
    yield "AlreadyExpelled", state.is_expelled(leaf.node)
    yield from _proven(place, state, abi, proof)
    yield from _due(state, leaf)
    yield "Spared", leaf.due_since <= kick.spared_until
    yield "AlreadyAccused", kick.state == ACCUSED and kick.due_since == leaf.due_since


def _execute(place: Place, state: State, step: Step, _: int) -> Reasons:
    abi: Any
    proof: Any
    summary: Any
    abi, proof, summary = step.arguments
    leaf = read_leaf(abi)
    kick = state.kick(abi[0])
    yield from _kickouts_run(state)
    yield "NoKick", kick.state != ACCUSED
    is_early = state.time < kick.ready_at or state.round < kick.round + state.limits.kick_rounds
    yield "KickNotReady", is_early
    yield "StaleScores", not state.is_fresh
    yield from _proven(place, state, abi, proof)
    yield from _due(state, leaf)
    yield "OtherInterval", leaf.due_since != kick.due_since
    is_last = summary[2] == state.round and proof[-1].to_bytes(32) == hash_words(summary)
    yield "SummaryNotProven", not is_last
    yield "TooFewOpen", summary[5] < state.limits.min_open
    yield "BucketEmpty", state.in_bucket[0] == 0


def _retry(_: Place, state: State, step: Step, __: int) -> Reasons:
    (node,) = step.arguments
    assert isinstance(node, int)
    kick = state.kick(node)
    yield from _kickouts_run(state)
    yield "NotExpelled", not state.is_expelled(node)
    yield "NoTarget", state.target == 0
    is_early = state.round < kick.round + state.limits.kick_rounds
    yield "KickNotReady", kick.state == EXPELLED and is_early


def _clear(place: Place, state: State, step: Step, _: int) -> Reasons:
    abi: Any
    proof: Any
    abi, proof = step.arguments
    kick = state.kick(abi[0])
    yield "NoKick", kick.state != ACCUSED
    yield from _proven(place, state, abi, proof)
    yield "StillDue", read_leaf(abi).due_since == kick.due_since


def _veto(_: Place, state: State, step: Step, __: int) -> Reasons:
    node: Any = step.arguments[0]
    yield "NoKick", state.kick(node).state != ACCUSED


def _readmit(_: Place, state: State, step: Step, __: int) -> Reasons:
    node: Any = step.arguments[0]
    yield "NotExpelled", state.kick(node).state < EXPELLED


# --- roles ---


def _accept_admin(_: Place, state: State, __: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != state.pending_admin


def _offer_vetoer(place: Place, state: State, _: Step, caller: int) -> Reasons:
    yield NO_REASON, state.admin != place.timelock
    yield "NotAllowed", caller != place.proposer


def _withdraw_offer(_: Place, state: State, __: Step, caller: int) -> Reasons:
    is_pauser = caller == state.pauser and caller != state.vetoer
    yield "NotAllowed", caller != state.admin and not is_pauser


def _accept_vetoer(_: Place, state: State, __: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != state.pending_vetoer
    yield "OfferTooRecent", state.time < state.offered_from


def _cancel_operation(place: Place, state: State, step: Step, _: int) -> Reasons:
    yield NO_REASON, state.admin != place.timelock
    yield "TimelockUnexpectedOperationState", step.arguments[0] not in state.scheduled


def _set_signers(_: Place, __: State, step: Step, ___: int) -> Reasons:
    wanted: Any
    needed: Any
    wanted, needed = step.arguments
    yield "BadSigners", not len(wanted) / 2 < needed <= len(wanted) <= 255
    yield "BadSigners", 0 in wanted or len(set(wanted)) < len(wanted)


def _drop_signer(_: Place, state: State, step: Step, __: int) -> Reasons:
    yield "BadSigners", step.arguments[0] not in state.signers
    left = len(state.signers) - 1
    quorum = state.quorum
    yield "BadSigners", not left / 2 < quorum <= left


def _set_limits(place: Place, _: State, step: Step, __: int) -> Reasons:
    limits: Any = step.arguments[0]
    yield from _limits(place, RootLimits(*limits))


def _limits(place: Place, limits: RootLimits) -> Reasons:
    can_work = limits.can_work(place.lag, place.farthest)
    yield "BadLimits", not (can_work and limits.is_within(place.floors))


def _tighten(place: Place, state: State, step: Step, __: int) -> Reasons:
    argument: Any = step.arguments[0]
    limits = RootLimits(*argument)
    yield "BadLimits", not limits.is_tightening(state.limits, place.tightest)
    yield from _limits(place, limits)


def _set_kick_limits(place: Place, _: State, step: Step, __: int) -> Reasons:
    limits: Any = step.arguments[0]
    yield "BadLimits", not can_set_kick_limits(KickLimits(*limits), place.kick_floors)


def _set_rules(_: Place, __: State, step: Step, ___: int) -> Reasons:
    yield "BadRules", step.arguments == (0,)


def _set_target(place: Place, _: State, step: Step, __: int) -> Reasons:
    yield "NoTarget", step.arguments[0] not in {0, *place.contracts}


def _pause_for(_: Place, state: State, step: Step, __: int) -> Reasons:
    (seconds,) = step.arguments
    assert isinstance(seconds, int)
    yield "PauseTooLong", not 1 <= seconds <= 7 * DAY
    yield "PauseCoolDown", state.time < state.paused_until + state.pause


def _resume(_: Place, state: State, __: Step, ___: int) -> Reasons:
    yield "NotPaused", state.time >= state.paused_until


def _nothing(_: Place, __: State, ___: Step, ____: int) -> Reasons:
    yield from ()


def _only(holder: str, rules: dict[str, Rule]) -> dict[str, Rule]:
    """Return the rules after the check of the caller's role."""

    def with_role(rule: Rule) -> Rule:
        def check(place: Place, state: State, step: Step, caller: int) -> Reasons:
            yield "NotAllowed", caller != getattr(state, holder)
            yield from rule(place, state, step, caller)

        return check

    return {name: with_role(rule) for name, rule in rules.items()}


ORACLE_RULES: dict[str, Rule] = {
    **_only(
        "admin",
        {
            "transferAdmin": _nothing,
            "setPauser": _nothing,
            "setVetoer": _nothing,
            "resume": _resume,
            "resumeKicks": _nothing,
            "setSigners": _set_signers,
            "setLimits": _set_limits,
            "setKickLimits": _set_kick_limits,
            "setRules": _set_rules,
            "setTarget": _set_target,
            "readmit": _readmit,
        },
    ),
    **_only(
        "pauser",
        {
            "pauseFor": _pause_for,
            "pauseKicks": _nothing,
            "strike": _strike,
            "dropSigner": _drop_signer,
            "tightenLimits": _tighten,
        },
    ),
    **_only("vetoer", {"veto": _veto, "allow": _nothing, "cancelOperation": _cancel_operation}),
    "acceptAdmin": _accept_admin,
    "offerVetoer": _offer_vetoer,
    "withdrawVetoerOffer": _withdraw_offer,
    "acceptVetoer": _accept_vetoer,
    "push": _push,
    "accuse": _accuse,
    "executeKick": _execute,
    "retryKick": _retry,
    "clear": _clear,
}
