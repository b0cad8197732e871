"""What an accepted step changes in the model, and what the oracle must say of it."""

from collections.abc import Callable

from eth_utils.crypto import keccak

from tests.contracts.fuzz.data_refusals import give, release
from tests.contracts.fuzz.evm import Said
from tests.contracts.fuzz.limits import FOR_EVER, KickLimits, Limits
from tests.contracts.fuzz.quorums import list_addresses
from tests.contracts.fuzz.refusals import push_digest
from tests.contracts.fuzz.state import EXPELLED, NONE, PENDING, REFUSED, Place, State, taken_apart
from tests.contracts.fuzz.step import Step


def accept(place: Place, state: State, step: Step) -> list[Said]:
    """Change the state as the step does; return the events of oracle and network, in order."""
    caller = place.network if step.is_forwarded else step.caller
    return _EFFECTS[step.name](place, state, step, caller)


def ascii_word(text: str) -> int:
    return int.from_bytes(text.encode().ljust(32, b"\0"))


# What a plain network reverts with, and an oracle that is its own target.
REFUSAL = int.from_bytes(keccak(b"Refused()")[:4] + bytes(28))


# --- rounds ---


def _push(place: Place, state: State, step: Step, caller: int) -> list[Said]:
    round_, _config, as_of, as_of_hash, _deadline = step.words
    digest = int.from_bytes(push_digest(place, state, step))
    signed_by = sum(1 << state.signers.index(who) for who in list_addresses(step.signatures))
    events = _registered(state, step.data)
    state.round, state.as_of, state.pushed_at, state.held = round_, as_of, state.time, 0
    state.reports += (digest,)
    data_hash, config = int.from_bytes(keccak(step.data)), state.config_digest(place)
    event_words = (round_, as_of, as_of_hash, data_hash, digest, config, signed_by, caller)
    return [*events, Said("RoundAccepted", event_words)]


def _registered(state: State, raw: bytes) -> list[Said]:
    data, events = taken_apart(raw), list[Said]()
    assert data is not None
    for fresh, old in data.reused:
        index = state.slot(old).index_plus_one - 1
        release(state, old)
        give(state, fresh, index)
        events += [Said("NodeReleased", (index, old)), Said("NodeRegistered", (index, fresh))]
    for fresh in data.fresh:
        events.append(Said("NodeRegistered", (len(state.holders), fresh)))
        give(state, fresh, len(state.holders))
    state.words |= dict(data.words)
    return events


# --- kickouts ---


def _propose(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    _round, _report, node, evidence, _deadline = step.words
    slot, events = state.slot(node), list[Said]()
    if slot.kick == PENDING:
        events.append(Said("KickCancelled", (node, caller, ascii_word("died"))))
    counted, proposals = state.counted
    state.counted = (state.round, (proposals if counted == state.round else 0) + 1)
    ready_at = state.time + state.limits.veto_delay
    dies_at = ready_at + state.limits.kick_window
    state.slots[node] = slot._replace(
        kick=PENDING, ready_at=ready_at, dies_at=dies_at, round=state.round, config=state.config
    )
    state.evidence[node] = evidence
    event_words = (node, state.round, state.lane_of(node), evidence, ready_at, dies_at)
    return [*events, Said("KickProposed", event_words)]


def _execute(place: Place, state: State, step: Step, _: int) -> list[Said]:
    (node,) = step.words
    left, since = state.in_bucket
    state.bucket = (left - 1, since)
    until = min(state.time + state.kick_limits.cool_down, FOR_EVER)
    state.slots[node] = state.slot(node)._replace(expelled_until=until)
    return _told(place, state, node)


def _retry(place: Place, state: State, step: Step, _: int) -> list[Said]:
    return _told(place, state, step.words[0])


def _told(place: Place, state: State, node: int) -> list[Said]:
    """The target is told; what it does decides nothing but whether it may be told again."""
    evidence, target = state.evidence.get(node, 0), state.target
    executed = Said("KickExecuted", (node, evidence, target))
    refuses = target == place.oracle or (target == place.network and state.refuses)
    kick = REFUSED if refuses else EXPELLED
    state.slots[node] = state.slot(node)._replace(kick=kick, round=state.round)
    if refuses:
        reason = REFUSAL if target == place.network else 0
        return [executed, Said("KickRefused", (node, target, reason))]
    if target == 0 or node not in state.members:
        return [executed]
    state.members.remove(node)
    return [executed, Said("KickedOut", (node, evidence))]


def _cancel(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    node, reason = step.words
    _cleared(state, node)
    return [Said("KickCancelled", (node, caller, reason))]


def _readmit(_: Place, state: State, step: Step, __: int) -> list[Said]:
    _cleared(state, step.words[0])
    return [Said("NodeReadmitted", step.words)]


def _cleared(state: State, node: int) -> None:
    state.slots[node] = state.slot(node)._replace(kick=NONE, round=state.round)
    state.evidence[node] = 0


# --- the network ---


def _join(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.members.add(step.words[0])
    return []


def _quit(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.members.remove(step.words[0])
    return []


def _refuse(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.refuses = bool(step.words[0])
    return []


# --- signers, rules, limits ---


def _configured(place: Place, state: State) -> Said:
    state.config += 1
    return Said("ConfigSet", (state.config, state.config_digest(place)))


def _set_signers(place: Place, state: State, step: Step, _: int) -> list[Said]:
    state.signers, (state.quorum,) = step.signers, step.words
    return [_signers_set(state), _configured(place, state)]


def _drop_signer(place: Place, state: State, step: Step, _: int) -> list[Said]:
    state.signers = tuple(who for who in state.signers if who != step.words[0])
    return [_signers_set(state), _configured(place, state)]


def _signers_set(state: State) -> Said:
    return Said("SignersSet", (64, state.quorum, len(state.signers), *state.signers))


def _set_rules(place: Place, state: State, step: Step, _: int) -> list[Said]:
    (state.rules_hash,) = step.words
    return [Said("RulesSet", step.words), _configured(place, state)]


def _set_limits(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.limits = Limits(*step.words)
    return [Said("LimitsSet", step.words)]


def _set_kick_limits(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.bucket = (min(state.in_bucket[0], step.words[2]), state.time)
    state.kick_limits = KickLimits(*step.words)
    return [Said("KickLimitsSet", step.words)]


def _set_target(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.target,) = step.words
    return [Said("TargetSet", step.words)]


# --- roles ---


def _transfer_admin(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.pending_admin,) = step.words
    return [Said("AdminOffered", step.words)]


def _accept_admin(_: Place, state: State, __: Step, caller: int) -> list[Said]:
    state.admin, state.pending_admin = caller, 0
    return [Said("RoleSet", (ascii_word("admin"), caller))]


def _set_pauser(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.pauser,) = step.words
    return [Said("RoleSet", (ascii_word("pauser"), state.pauser))]


def _set_vetoer(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.vetoer,) = step.words
    return [Said("RoleSet", (ascii_word("vetoer"), state.vetoer))]


def _pause_for(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    (seconds,) = step.words
    state.pause, state.pause_holds = seconds, state.is_fresh
    state.held += seconds if state.pause_holds else 0
    state.paused_until = state.time + seconds
    return [Said("PausedUntil", (state.paused_until, caller))]


def _resume(_: Place, state: State, __: Step, caller: int) -> list[Said]:
    remaining_seconds = state.paused_until - state.time
    state.pause -= remaining_seconds
    state.held -= remaining_seconds if state.pause_holds else 0
    state.paused_until = state.time
    return [Said("PausedUntil", (state.time, caller))]


def _pause_kicks(_: Place, state: State, __: Step, caller: int) -> list[Said]:
    state.kicks_paused = True
    return [Said("KicksPaused", (1, caller))]


def _resume_kicks(_: Place, state: State, __: Step, caller: int) -> list[Said]:
    state.kicks_paused = False
    return [Said("KicksPaused", (0, caller))]


_EFFECTS: dict[str, Callable[[Place, State, Step, int], list[Said]]] = {
    "push": _push,
    "proposeKick": _propose,
    "executeKick": _execute,
    "retryKick": _retry,
    "cancelKick": _cancel,
    "readmit": _readmit,
    "join": _join,
    "quit": _quit,
    "setRefuses": _refuse,
    "setSigners": _set_signers,
    "dropSigner": _drop_signer,
    "setRules": _set_rules,
    "setLimits": _set_limits,
    "tightenLimits": _set_limits,
    "setKickLimits": _set_kick_limits,
    "setTarget": _set_target,
    "transferAdmin": _transfer_admin,
    "acceptAdmin": _accept_admin,
    "setPauser": _set_pauser,
    "setVetoer": _set_vetoer,
    "pauseFor": _pause_for,
    "resume": _resume,
    "pauseKicks": _pause_kicks,
    "resumeKicks": _resume_kicks,
}
