"""What an accepted step changes in the model, and what the oracle must say of it."""

from collections.abc import Callable

from eth_utils.crypto import keccak

from tests.contracts.fuzz.evm import Said
from tests.contracts.fuzz.refusals import addresses, push_digest
from tests.contracts.fuzz.state import Bucket, Kick, Limits, Place, State, records_in
from tests.contracts.fuzz.step import Step


def accept(place: Place, state: State, step: Step) -> list[Said]:
    """Change the state as the step does; return the events of oracle and network, in order."""
    caller = place.network if step.is_forwarded else step.caller
    return _EFFECTS[step.name](place, state, step, caller)


def _ascii(text: str) -> int:
    return int.from_bytes(text.encode().ljust(32, b"\0"))


def _push(place: Place, state: State, step: Step, caller: int) -> list[Said]:
    round_, rules, as_of, as_of_hash, _ = step.words
    digest = int.from_bytes(push_digest(place, state, step))
    signed_by = sum(1 << state.signers.index(who) for who in addresses(step.signatures))
    state.round, state.as_of, state.pushed_at = round_, as_of, state.time
    state.reports += (digest,)
    state.words |= dict(records_in(step.records))
    data_hash = int.from_bytes(keccak(step.records))
    told = (round_, as_of, as_of_hash, data_hash, digest, rules, signed_by, caller)
    return [Said("RoundAccepted", told)]


def _propose(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    _round, _report, index, evidence, _deadline = step.words
    said = _ended(state, index, caller, _ascii("too late")) if state.kick(index).is_live else []
    counted, proposals = state.counted
    state.counted = (state.round, (proposals if counted == state.round else 0) + 1)
    ready_at = state.time + state.limits.veto_delay
    dies_at = ready_at + state.limits.kick_window
    state.kicks[index] = Kick(ready_at, dies_at, state.round, is_live=True, evidence=evidence)
    told = (index, state.nodes[index], state.round, state.lane(index), evidence, ready_at)
    return [*said, Said("KickProposed", told)]


def _execute(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (index,) = step.words
    kick, node = state.kick(index), state.nodes[index]
    state.kicks[index] = kick._replace(is_live=False)
    now = state.bucket.at(state.time)
    state.bucket = now._replace(left=now.left - 1)
    state.members.remove(node)
    state.active -= 1
    executed = Said("KickExecuted", (index, node, state.round, kick.evidence))
    return [executed, Said("KickedOut", (node, kick.evidence))]


def _cancel(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    index, why = step.words
    return _ended(state, index, caller, why)


def _ended(state: State, index: int, by: int, why: int) -> list[Said]:
    state.kicks[index] = state.kick(index)._replace(is_live=False)
    return [Said("KickCancelled", (index, by, why))]


def _join(place: Place, state: State, step: Step, _: int) -> list[Said]:
    (node,) = step.words
    state.members.add(node)
    state.active += 1
    return _register(place, state, step, place.network)


def _register(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    (node,), said = step.words, list[Said]()
    old = state.index_of.get(node)
    if old is not None:
        if state.lane(old) == 0:
            return said
        if state.kick(old).is_live:
            said += _ended(state, old, caller, _ascii("rejoined"))
        said.append(Said("NodeIndexRetired", (old, node)))
    index = len(state.nodes)
    state.index_of[node] = index
    state.nodes.append(node)
    return [*said, Said("NodeRegistered", (index, node))]


def _quit(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.members.remove(step.words[0])
    state.active -= 1
    return []


def _refuse(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.refuses = bool(step.words[0])
    return []


def _set_signers(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.signers, (state.quorum,) = step.signers, step.words
    return [Said("SignersSet", (64, state.quorum, len(step.signers), *step.signers))]


def _set_limits(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.limits = Limits(*step.words)
    return [Said("LimitsSet", step.words)]


def _set_rules(_: Place, state: State, step: Step, __: int) -> list[Said]:
    state.rules, state.rules_hash = step.words
    return [Said("RulesSet", step.words)]


def _set_bucket(_: Place, state: State, step: Step, __: int) -> list[Said]:
    most, per_frame, frame = step.words
    left = min(state.bucket.at(state.time).left, most)
    state.bucket = Bucket(most, left, per_frame, frame, state.time)
    return [Said("BucketSet", step.words)]


def _transfer_admin(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.pending_admin,) = step.words
    return [Said("AdminOffered", step.words)]


def _accept_admin(_: Place, state: State, __: Step, caller: int) -> list[Said]:
    state.admin, state.pending_admin = caller, 0
    return [Said("RoleSet", (_ascii("admin"), caller))]


def _set_pauser(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.pauser,) = step.words
    return [Said("RoleSet", (_ascii("pauser"), state.pauser))]


def _set_vetoer(_: Place, state: State, step: Step, __: int) -> list[Said]:
    (state.vetoer,) = step.words
    return [Said("RoleSet", (_ascii("vetoer"), state.vetoer))]


def _pause_for(_: Place, state: State, step: Step, caller: int) -> list[Said]:
    state.paused_until = state.time + step.words[0]
    return [Said("PausedUntil", (state.paused_until, caller))]


def _resume(_: Place, state: State, __: Step, caller: int) -> list[Said]:
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
    "cancelKick": _cancel,
    "register": _register,
    "join": _join,
    "quit": _quit,
    "setRefuses": _refuse,
    "setSigners": _set_signers,
    "setLimits": _set_limits,
    "setRules": _set_rules,
    "setBucket": _set_bucket,
    "transferAdmin": _transfer_admin,
    "acceptAdmin": _accept_admin,
    "setPauser": _set_pauser,
    "setVetoer": _set_vetoer,
    "pauseFor": _pause_for,
    "resume": _resume,
    "pauseKicks": _pause_kicks,
    "resumeKicks": _resume_kicks,
}
