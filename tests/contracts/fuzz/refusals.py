"""Why the oracle must refuse a step: every reason that holds, whichever it comes upon first.

No reason: it must be accepted. Written from what the contract promises, guard by guard. What it
asks of a report's data: tests/contracts/fuzz/data_refusals.py.
"""

from collections.abc import Callable

from eth_utils.crypto import keccak

from tests.contracts.fuzz.data_refusals import Reasons, in_data
from tests.contracts.fuzz.limits import DAY, HOUR, KickLimits, Limits
from tests.contracts.fuzz.quorums import list_addresses
from tests.contracts.fuzz.signing import BYTES, Signatures
from tests.contracts.fuzz.state import EXPELLED, PENDING, Place, State
from tests.contracts.fuzz.step import OF_THE_NETWORK, Step


def refusals(place: Place, state: State, step: Step) -> set[str]:
    """Return the names of all errors that fit, for a state whose time has come."""
    if step.name in OF_THE_NETWORK:
        return set()
    caller = place.network if step.is_forwarded else step.caller
    if step.name in _OF_THE_ADMIN and caller != state.admin:
        return {"NotAllowed"}
    if step.name in _OF_THE_PAUSER and caller != state.pauser:
        return {"NotAllowed"}
    return {name for name, holds in _RULES[step.name](place, state, step, caller) if holds}


# --- rounds ---


def _push(place: Place, state: State, step: Step, _: int) -> Reasons:
    round_, config, as_of, as_of_hash, deadline = step.words
    newest = state.number + place.ahead
    yield "NotDirect", step.is_forwarded
    yield "Paused", state.time < state.paused_until
    yield "WrongRound", round_ != state.round + 1
    yield "WrongConfig", config != state.config
    yield "TooSoon", state.time < state.pushed_at + state.limits.min_interval
    yield from _deadline(state, deadline)
    yield "StaleAsOf", not state.as_of < as_of < newest
    yield "AsOfTooOld", newest - as_of > state.limits.anchor_window
    block_hash = place.hash_of(as_of, newest)
    yield "Reorged", block_hash == 0 or block_hash != as_of_hash
    yield from _signatures(state, push_digest(place, state, step), step.signatures)
    yield from in_data(state, step.data)


def push_digest(place: Place, state: State, step: Step) -> bytes:
    """What a quorum must have signed for this push to be good now."""
    round_, _config, *block = step.words
    data_hash = int.from_bytes(keccak(step.data))
    chained = (state.config_digest(place), round_, state.last_report)
    return place.domain.of_report((*chained, *block, data_hash))


def kick_digest(place: Place, state: State, words: tuple[int, ...]) -> bytes:
    """What a quorum must have signed for this proposal to be good now."""
    _round, *fields_after_round = words
    return place.domain.of_kick((state.config_digest(place), *fields_after_round))


def _deadline(state: State, deadline: int) -> Reasons:
    yield "Expired", state.time > deadline
    yield "DeadlineTooFar", deadline > state.time + HOUR


def _signatures(state: State, digest: bytes, signatures: Signatures) -> Reasons:
    is_long_enough = len(signatures) == BYTES * state.quorum
    yield "BadSignatureLength", not is_long_enough
    if not is_long_enough:
        return
    who = [state.signers.count(address) for address in list_addresses(signatures)]
    is_good = all(signature.is_good_for(digest) for signature in signatures.given)
    are_different = len(set(list_addresses(signatures))) == len(signatures.given)
    yield "BadSignature", not (all(who) and is_good and are_different)


# --- kickouts ---


def _rest(state: State) -> Reasons:
    yield "Paused", state.time < state.paused_until
    yield "KicksRest", state.kicks_paused


def _low(state: State, node: int) -> Reasons:
    yield "NotRegistered", state.slot(node).index_plus_one == 0
    yield "NotBelowThreshold", not state.is_low(node)


def _propose(place: Place, state: State, step: Step, _: int) -> Reasons:
    round_, report, node, evidence, deadline = step.words
    counted, proposals = state.counted
    yield from _rest(state)
    yield "WrongRound", not state.is_recent(round_)
    yield "WrongReport", state.is_recent(round_) and state.reports[round_] != report
    yield from _deadline(state, deadline)
    yield "NoEvidence", evidence == 0
    yield from _low(state, node)
    yield "AlreadyExpelled", state.is_expelled(node)
    yield "KickLive", state.is_pending(node)
    yield "AlreadyProposed", round_ <= state.slot(node).round
    yield "KickLimit", (proposals if counted == state.round else 0) >= state.limits.max_kicks
    yield from _signatures(state, kick_digest(place, state, step.words), step.signatures)


def _execute(_: Place, state: State, step: Step, __: int) -> Reasons:
    (node,) = step.words
    slot = state.slot(node)
    yield from _rest(state)
    yield "NoKick", slot.kick != PENDING or slot.config != state.config
    is_early = state.time < slot.ready_at or state.round < slot.round + state.limits.kick_rounds
    yield "KickNotReady", is_early
    yield "KickDead", state.time > slot.dies_at
    yield "StaleScores", not state.is_fresh
    yield from _low(state, node)
    yield "TooFewOpen", state.open_count < state.limits.min_open
    yield "BucketEmpty", state.in_bucket[0] == 0


def _retry(_: Place, state: State, step: Step, __: int) -> Reasons:
    (node,) = step.words
    slot = state.slot(node)
    yield from _rest(state)
    yield "NotExpelled", not state.is_expelled(node)
    yield "NoTarget", state.target == 0
    is_early = state.round < slot.round + state.limits.kick_rounds
    yield "KickNotReady", slot.kick == EXPELLED and is_early


def _cancel(_: Place, state: State, step: Step, caller: int) -> Reasons:
    node, _reason = step.words
    yield "NoKick", state.slot(node).kick != PENDING
    # Anybody may, once it cannot be executed any more, or the lane is not low.
    lasts = state.is_pending(node) and state.is_low(node)
    yield "NotAllowed", lasts and caller != state.vetoer


def _readmit(_: Place, state: State, step: Step, __: int) -> Reasons:
    yield "NotExpelled", state.slot(step.words[0]).kick < EXPELLED


# --- roles ---


def _accept_admin(_: Place, state: State, __: Step, caller: int) -> Reasons:
    yield "NotAllowed", caller != state.pending_admin


def _set_signers(_: Place, __: State, step: Step, ___: int) -> Reasons:
    (needed,), count = step.words, len(step.signers)
    yield "BadSigners", not count / 2 < needed <= count <= 255
    yield "BadSigners", 0 in step.signers or len(set(step.signers)) < count


def _drop_signer(_: Place, state: State, step: Step, __: int) -> Reasons:
    yield "BadSigners", step.words[0] not in state.signers
    yield "BadSigners", len(state.signers) <= state.quorum


def _set_limits(place: Place, _: State, step: Step, __: int) -> Reasons:
    new_limits = Limits(*step.words)
    yield (
        "BadLimits",
        not (new_limits.can_work(place.farthest) and new_limits.is_within(place.floors)),
    )


def _tighten(place: Place, state: State, step: Step, __: int) -> Reasons:
    new_limits = Limits(*step.words)
    fits = new_limits.can_work(place.farthest) and new_limits.is_within(place.floors)
    yield "BadLimits", not (fits and new_limits.is_tightening(state.limits))


def _set_kick_limits(_: Place, __: State, step: Step, ___: int) -> Reasons:
    yield "BadLimits", not KickLimits(*step.words).can_work()


def _set_rules(_: Place, __: State, step: Step, ___: int) -> Reasons:
    yield "BadRules", step.words == (0,)


def _set_target(place: Place, _: State, step: Step, __: int) -> Reasons:
    yield "NoTarget", step.words[0] not in {0, place.network, place.oracle}


def _pause_for(_: Place, state: State, step: Step, __: int) -> Reasons:
    (seconds,) = step.words
    yield "PauseTooLong", not 1 <= seconds <= 7 * DAY
    yield "PauseCoolDown", state.time < state.paused_until + state.pause


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
    "setKickLimits": _set_kick_limits,
    "setRules": _set_rules,
    "setTarget": _set_target,
    "readmit": _readmit,
}
_OF_THE_PAUSER = {
    "pauseFor": _pause_for,
    "pauseKicks": _nothing,
    "dropSigner": _drop_signer,
    "tightenLimits": _tighten,
}
_RULES: dict[str, Callable[[Place, State, Step, int], Reasons]] = {
    **_OF_THE_ADMIN,
    **_OF_THE_PAUSER,
    "push": _push,
    "proposeKick": _propose,
    "executeKick": _execute,
    "retryKick": _retry,
    "cancelKick": _cancel,
    "acceptAdmin": _accept_admin,
}
