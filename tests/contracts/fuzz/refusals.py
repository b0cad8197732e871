"""Why the oracle must refuse a step: every reason that holds, whichever it comes upon first.

No reason: it must be accepted. Written from what the contract promises, guard by guard.
"""

from collections.abc import Callable, Iterator

from eth_utils.crypto import keccak

from tests.contracts.fuzz.signing import BYTES, Signatures, ring
from tests.contracts.fuzz.state import (
    BEST_LANE,
    LANES,
    RECORD,
    ZERO_QOS,
    Kick,
    Limits,
    Place,
    State,
    lanes_of,
    records_in,
)
from tests.contracts.fuzz.step import OF_THE_NETWORK, Step

WEEK = 7 * 24 * 3600
Reasons = Iterator[tuple[str, bool]]


def refusals(place: Place, state: State, step: Step) -> set[str]:
    """Return the names of all errors that fit, for a state whose time has come."""
    if step.name in OF_THE_NETWORK:
        return set()
    caller = place.network if step.is_forwarded else step.caller
    if step.name in _OF_THE_ADMIN and caller != state.admin:
        return {"NotAllowed"}
    return {name for name, holds in _RULES[step.name](place, state, step, caller) if holds}


# --- rounds ---


def _push(place: Place, state: State, step: Step, _: int) -> Reasons:
    round_, rules, as_of, as_of_hash, deadline = step.words
    newest = state.number + place.ahead
    yield "NotDirect", step.is_forwarded
    yield "Paused", state.time < state.paused_until
    yield "WrongRound", round_ != state.round + 1
    yield "WrongRules", rules != state.rules
    yield "TooSoon", state.time < state.pushed_at + state.limits.min_interval
    yield "Expired", state.time > deadline
    yield "StaleAsOf", not state.as_of < as_of < newest
    yield "AsOfTooOld", newest - as_of > state.limits.anchor_window
    found = place.hash_of(as_of, newest)
    yield "Reorged", found == 0 or found != as_of_hash
    yield from _signatures(state, push_digest(place, state, step), step.signatures)
    yield from _records(state, step.records)


def push_digest(place: Place, state: State, step: Step) -> bytes:
    """What a quorum must have signed for this push to be good now."""
    round_, rules, as_of, as_of_hash, deadline = step.words
    chained = (state.rules_hash, state.last_report, as_of, as_of_hash, deadline)
    data_hash = int.from_bytes(keccak(step.records))
    return place.domain.of_report((round_, rules, *chained, data_hash))


def _signatures(state: State, digest: bytes, signatures: Signatures) -> Reasons:
    is_long_enough = len(signatures) == BYTES * state.quorum
    yield "BadSignatureLength", not is_long_enough
    if not is_long_enough:
        return
    who = [state.signers.count(address) for address in addresses(signatures)]
    is_good = all(one.is_good_for(digest) for one in signatures.given)
    are_different = len(set(addresses(signatures))) == len(signatures.given)
    yield "BadSignature", not (all(who) and is_good and are_different)


def addresses(signatures: Signatures) -> list[int]:
    return [ring()[one.key].address for one in signatures.given]


def _records(state: State, records: bytes) -> Reasons:
    count, rest = divmod(len(records), RECORD)
    is_whole = count != 0 and rest == 0 and count <= state.limits.max_words
    yield "BadLength", not is_whole
    if not is_whole:
        return
    last = -1
    for at, word in records_in(records):
        yield "NotAscending", at <= last
        last = at
        yield from _word(state, at, word)


def _word(state: State, at: int, word: int) -> Reasons:
    yield "UnknownNode", LANES * at >= len(state.nodes)
    before = lanes_of(state.words.get(at, 0))
    for place, (old, new) in enumerate(zip(before, lanes_of(word), strict=True)):
        yield "UnknownNode", new != 0 and LANES * at + place >= len(state.nodes)
        yield "ScoreTooHigh", new > BEST_LANE
        yield "ScoreErased", old != 0 and new == 0
        is_step = min(old, new) >= ZERO_QOS
        yield "StepTooLarge", is_step and abs(old - new) > state.limits.max_step


# --- kickouts ---


def _rest(state: State) -> Reasons:
    yield "Paused", state.time < state.paused_until
    yield "KicksRest", state.kicks_paused


def _target(state: State, index: int) -> Reasons:
    yield "NotMember", not state.is_member(index)
    yield "NotBelowThreshold", not state.is_low(index)


def _propose(place: Place, state: State, step: Step, _: int) -> Reasons:
    round_, report, index, evidence, deadline = step.words
    kick = state.kick(index)
    counted, proposals = state.counted
    yield from _rest(state)
    yield "WrongRound", not state.is_recent(round_)
    yield "WrongReport", state.is_recent(round_) and state.reports[round_] != report
    yield "Expired", state.time > deadline
    yield "NoEvidence", evidence == 0
    yield from _target(state, index)
    yield "AlreadyProposed", round_ <= kick.round
    yield "KickLive", kick.is_live and state.time <= kick.dies_at
    yield "KickLimit", (proposals if counted == state.round else 0) >= state.limits.max_kicks
    yield from _signatures(state, place.domain.of_kick(step.words), step.signatures)


def _execute(_: Place, state: State, step: Step, __: int) -> Reasons:
    (index,) = step.words
    kick = state.kick(index)
    yield from _rest(state)
    yield "NoKick", not kick.is_live
    is_early = state.time < kick.ready_at or state.round < kick.round + state.limits.kick_rounds
    yield "KickNotReady", is_early
    yield "KickDead", state.time > kick.dies_at
    yield "StaleScores", not state.is_fresh
    yield from _target(state, index)
    yield "TooFewMembers", state.active <= state.limits.min_active
    yield "BucketEmpty", state.bucket.at(state.time).left == 0
    yield "Refused", state.refuses


def _cancel(_: Place, state: State, step: Step, caller: int) -> Reasons:
    index, _why = step.words
    kick = state.kick(index)
    yield "NoKick", not kick.is_live
    yield "NotAllowed", caller != state.vetoer and not is_moot(state, index, kick)


def is_moot(state: State, index: int, kick: Kick) -> bool:
    """Anybody may cancel: it is too late, the node has left, or its lane is not low any more."""
    return state.time > kick.dies_at or not state.is_member(index) or not state.is_low(index)


# --- nodes and roles ---


def _register(place: Place, _: State, step: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != place.network
    yield "ZeroAddress", step.words == (0,)


def _accept_admin(_: Place, state: State, __: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != state.pending_admin


def _set_signers(_: Place, __: State, step: Step, ___: int) -> Reasons:
    (needed,), count = step.words, len(step.signers)
    yield "BadSigners", not count / 2 < needed <= count <= 255
    yield "BadSigners", 0 in step.signers or len(set(step.signers)) < count


def _set_limits(place: Place, _: State, step: Step, __: int) -> Reasons:
    wanted = Limits(*step.words)
    yield "BadLimits", not 1 <= wanted.max_step <= 10_000
    yield "BadLimits", not 2 <= wanted.anchor_window <= place.farthest
    yield "BadLimits", wanted.kick_below > 10_000
    yield "BadLimits", 0 in (wanted.max_words, wanted.max_age, wanted.kick_window)


def _set_rules(_: Place, state: State, step: Step, __: int) -> Reasons:
    counter, rules_hash = step.words
    yield "BadRules", counter <= state.rules or rules_hash == 0


def _set_bucket(_: Place, __: State, step: Step, ___: int) -> Reasons:
    yield "BadLimits", step.words[2] == 0


def _pause_for(_: Place, state: State, step: Step, caller: int) -> Reasons:
    (seconds,), last = step.words, state.paused_until
    yield "NotAllowed", caller != state.pauser
    yield "PauseTooLong", not 1 <= seconds <= WEEK
    yield "PauseCoolDown", last != 0 and state.time < last + WEEK


def _pause_kicks(_: Place, state: State, __: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != state.pauser


def _resume(_: Place, state: State, __: Step, ___: int) -> Reasons:
    yield "NotPaused", state.time >= state.paused_until


def _nothing(_: Place, __: State, ___: Step, ____: int) -> Reasons:
    yield from ()


_OF_THE_ADMIN = {
    "transferAdmin": _nothing,
    "setPauser": _nothing,
    "setVetoer": _nothing,
    "resume": _resume,
    "resumeKicks": _nothing,
    "setSigners": _set_signers,
    "setLimits": _set_limits,
    "setRules": _set_rules,
    "setBucket": _set_bucket,
}
_RULES: dict[str, Callable[[Place, State, Step, int], Reasons]] = _OF_THE_ADMIN | {
    "push": _push,
    "proposeKick": _propose,
    "executeKick": _execute,
    "cancelKick": _cancel,
    "register": _register,
    "acceptAdmin": _accept_admin,
    "pauseFor": _pause_for,
    "pauseKicks": _pause_kicks,
}
