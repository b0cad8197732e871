"""The effect of an accepted step on the model, and the events that it must emit."""

from collections.abc import Callable
from typing import Any

from eth_utils.crypto import keccak

from tests.contracts.fuzz.evm import EmittedEvent
from tests.contracts.fuzz.limits import DAY, FOR_EVER, KickLimits
from tests.contracts.fuzz.quorums import list_addresses
from tests.contracts.fuzz.roots.limits import RootLimits
from tests.contracts.fuzz.roots.module_refusals import find_written, is_limited
from tests.contracts.fuzz.roots.state import (
    ACCUSED,
    EXPELLED,
    NONE,
    REFUSED,
    Place,
    State,
    count_open,
)
from tests.contracts.fuzz.roots.step import Step
from tests.contracts.fuzz.roots.trees import Leaf, read_leaf

OFFER_DELAY = 7 * DAY
Effect = Callable[[Place, State, Any, int], list[EmittedEvent]]


def accept(place: Place, state: State, step: Step) -> list[EmittedEvent]:
    """Apply the step to the state; return the events of all contracts, in order."""
    caller = place.network if step.is_forwarded else step.caller
    if step.name == "push":
        return _push(place, state, step)
    return _EFFECTS[step.name](place, state, step.arguments, caller)


def ascii_word(text: str) -> int:
    return int.from_bytes(text.encode().ljust(32, b"\0"))


# The revert data of a plain network that refuses.
REFUSAL = int.from_bytes(keccak(b"Refused()")[:4] + bytes(28))


# --- rounds ---


def _push(place: Place, state: State, step: Step) -> list[EmittedEvent]:
    report: Any = step.arguments[0]
    assert step.contents is not None
    round_, _config, as_of, as_of_hash, _deadline, root = report
    signed_by = sum(
        1 << state.signers.index(new_vetoer) for new_vetoer in list_addresses(step.signatures)
    )
    state.round, state.as_of, state.pushed_at, state.held = round_, as_of, state.time, 0
    state.round_config = state.config
    state.roots[round_], state.contents[round_] = root, step.contents
    config = state.config_digest(place)
    return [EmittedEvent("RoundAccepted", (round_, as_of, as_of_hash, root, config, signed_by))]


def _strike(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    (first,) = arguments
    state.roots |= dict.fromkeys(range(first, state.round + 1), 0)
    return [EmittedEvent("RoundsStruck", (first, state.round))]


# --- kickouts ---


def _accuse(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    leaf = read_leaf(arguments[0])
    kick = state.kick(leaf.node)
    events = list[EmittedEvent]()
    if kick.state == ACCUSED:
        events.append(EmittedEvent("KickCancelled", (leaf.node, 0, ascii_word("recovered"))))
    ready_at = state.time + state.limits.veto_delay
    state.kicks[leaf.node] = kick._replace(
        state=ACCUSED, due_since=leaf.due_since, ready_at=ready_at, round=state.round
    )
    event_words = (leaf.node, state.round, leaf.due_since, leaf.pool_hash, ready_at)
    return [*events, EmittedEvent("KickAccused", event_words)]


def _execute(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    leaf = read_leaf(arguments[0])
    left, since = state.in_bucket
    state.bucket = (left - 1, since)
    until = min(state.time + state.kick_limits.cool_down, FOR_EVER)
    kick = state.kick(leaf.node)
    state.kicks[leaf.node] = kick._replace(expelled_until=until, spared_until=kick.due_since)
    return _call_target(place, state, leaf)


def _retry(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    (node,) = arguments
    return _call_target(place, state, Leaf(node, *9 * (0,), b"", 0))


def _call_target(place: Place, state: State, leaf: Leaf) -> list[EmittedEvent]:
    """Expel the node and call the target, whose refusal only allows the next call earlier."""
    node, target = leaf.node, state.target
    evidence = leaf.forged_hash
    executed = EmittedEvent("KickExecuted", (node, evidence, target))
    is_plain = target == 0 or (target == place.network and not state.refuses)
    state.kicks[node] = state.kick(node)._replace(
        state=EXPELLED if is_plain else REFUSED, round=state.round
    )
    if not is_plain:
        reason = REFUSAL if target == place.network else 0
        if target not in place.contracts:
            reason = ascii_word("no code")
        return [executed, EmittedEvent("KickRefused", (node, target, reason))]
    if target == 0 or node not in state.members:
        return [executed]
    state.members.remove(node)
    return [executed, EmittedEvent("KickedOut", (node, evidence))]


def _clear(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    node = arguments[0][0]
    state.kicks[node] = state.kick(node)._replace(state=NONE)
    return [EmittedEvent("KickCancelled", (node, 0, ascii_word("recovered")))]


def _veto(_: Place, state: State, arguments: Any, caller: int) -> list[EmittedEvent]:
    node, why = arguments
    kick = state.kick(node)
    state.kicks[node] = kick._replace(state=NONE, spared_until=kick.due_since)
    return [EmittedEvent("KickCancelled", (node, caller, why))]


def _allow(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    node, due_since = arguments
    state.kicks[node] = state.kick(node)._replace(allowed=due_since)
    return [EmittedEvent("KickAllowed", (node, due_since))]


def _readmit(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    (node,) = arguments
    state.kicks[node] = state.kick(node)._replace(state=NONE, spared_until=state.time)
    return [EmittedEvent("NodeReadmitted", (node,))]


# --- the network and the timelock ---


def _join(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.members.add(arguments[0])
    return []


def _quit(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.members.remove(arguments[0])
    return []


def _refuse(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.refuses = bool(arguments[0])
    return []


def _schedule(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.scheduled.add(operation_id(arguments))
    return []


def operation_id(arguments: Any) -> int:
    """Return the timelock's id of a scheduled call of this salt without calldata."""
    target, value, calldata, predecessor, salt, _ = arguments
    assert calldata == b""
    words = (target, value, 160, predecessor, salt, 0)
    return int.from_bytes(keccak(b"".join(word.to_bytes(32) for word in words)))


def _cancel_operation(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.scheduled.remove(arguments[0])
    return []


# --- signers, rules, limits ---


def _renew_config(place: Place, state: State) -> EmittedEvent:
    state.config += 1
    return EmittedEvent("ConfigSet", (state.config, state.config_digest(place)))


def _set_signers(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    wanted, state.quorum = arguments
    state.signers = tuple(wanted)
    return [_signers_set(state), _renew_config(place, state)]


def _drop_signer(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    state.signers = tuple(new_vetoer for new_vetoer in state.signers if new_vetoer != arguments[0])
    return [_signers_set(state), _renew_config(place, state)]


def _signers_set(state: State) -> EmittedEvent:
    return EmittedEvent("SignersSet", (64, state.quorum, len(state.signers), *state.signers))


def _set_rules(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    (state.rules_hash,) = arguments
    return [EmittedEvent("RulesSet", arguments), _renew_config(place, state)]


def _set_limits(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    state.limits = RootLimits(*arguments[0])
    return [EmittedEvent("LimitsSet", arguments[0])]


def _set_kick_limits(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    limits = KickLimits(*arguments[0])
    state.bucket = (min(state.in_bucket[0], limits.most), state.time)
    state.kick_limits = limits
    return [EmittedEvent("KickLimitsSet", arguments[0])]


def _set_target(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    (state.target,) = arguments
    return [EmittedEvent("TargetSet", arguments)]


# --- roles ---


def _transfer_admin(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    (state.pending_admin,) = arguments
    return [EmittedEvent("AdminOffered", arguments)]


def _accept_admin(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    state.admin, state.pending_admin = caller, 0
    return [EmittedEvent("RoleSet", (ascii_word("admin"), caller))]


def _set_pauser(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    (state.pauser,) = arguments
    return [EmittedEvent("RoleSet", (ascii_word("pauser"), state.pauser))]


def _set_vetoer(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    return _replace_vetoer(state, arguments[0])


def _replace_vetoer(state: State, new_vetoer: int) -> list[EmittedEvent]:
    state.vetoer, state.pending_vetoer, state.offered_from = new_vetoer, 0, 0
    return [EmittedEvent("RoleSet", (ascii_word("vetoer"), new_vetoer))]


def _offer_vetoer(_: Place, state: State, arguments: Any, caller: int) -> list[EmittedEvent]:
    state.pending_vetoer, state.offered_from = arguments[0], state.time + OFFER_DELAY
    return [EmittedEvent("VetoerOffered", (state.pending_vetoer, state.offered_from, caller))]


def _withdraw_offer(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    state.pending_vetoer, state.offered_from = 0, 0
    return [EmittedEvent("VetoerOffered", (0, 0, caller))]


def _accept_vetoer(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    return _replace_vetoer(state, caller)


def _pause_for(_: Place, state: State, arguments: Any, caller: int) -> list[EmittedEvent]:
    (seconds,) = arguments
    state.pause, state.pause_holds = seconds, state.is_fresh
    state.held += seconds if state.pause_holds else 0
    state.paused_until = state.time + seconds
    return [EmittedEvent("PausedUntil", (state.paused_until, caller))]


def _resume(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    remaining_seconds = state.paused_until - state.time
    state.pause -= remaining_seconds
    state.held -= remaining_seconds if state.pause_holds else 0
    state.paused_until = state.time
    return [EmittedEvent("PausedUntil", (state.time, caller))]


def _pause_kicks(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    state.kicks_paused = True
    return [EmittedEvent("KicksPaused", (1, caller))]


def _resume_kicks(_: Place, state: State, __: Any, caller: int) -> list[EmittedEvent]:
    state.kicks_paused = False
    return [EmittedEvent("KicksPaused", (0, caller))]


# --- the modules ---


def _bring(place: Place, state: State, arguments: Any, _: int) -> list[EmittedEvent]:
    round_, first, words, _proof = arguments
    written = find_written(place, state, round_, first, words)
    counts, fallen = state.counts_today, 0
    for index, word, falls in written:
        fallen += falls if is_limited(place, state, round_) else 0
        opened = count_open(word) - count_open(state.word(index)[0])
        counts = counts._replace(open=counts.open + opened)
        state.words[index] = (word, round_)
    state.counts = counts._replace(falls=counts.falls + fallen)
    return [EmittedEvent("WordsBrought", (first, len(words), round_, len(written)))]


def _bind(_: Place, state: State, arguments: Any, __: int) -> list[EmittedEvent]:
    leaves = [read_leaf(abi) for abi in arguments[0]]
    state.seats |= {leaf.node: leaf.seat for leaf in leaves}
    return [EmittedEvent("NodeRegistered", (leaf.seat, leaf.node)) for leaf in leaves]


def _mark_wrong(reason: str) -> Effect:
    def mark(_: Place, state: State, arguments: Any, caller: int) -> list[EmittedEvent]:
        round_ = arguments[0]
        state.reasons[round_] = ascii_word(reason)
        return [EmittedEvent("RoundWrong", (round_, state.reasons[round_], caller))]

    return mark


_EFFECTS: dict[str, Effect] = {
    "strike": _strike,
    "accuse": _accuse,
    "executeKick": _execute,
    "retryKick": _retry,
    "clear": _clear,
    "veto": _veto,
    "allow": _allow,
    "readmit": _readmit,
    "join": _join,
    "quit": _quit,
    "setRefuses": _refuse,
    "schedule": _schedule,
    "cancelOperation": _cancel_operation,
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
    "offerVetoer": _offer_vetoer,
    "withdrawVetoerOffer": _withdraw_offer,
    "acceptVetoer": _accept_vetoer,
    "pauseFor": _pause_for,
    "resume": _resume,
    "pauseKicks": _pause_kicks,
    "resumeKicks": _resume_kicks,
    "bring": _bring,
    "bind": _bind,
    "twoLeaves": _mark_wrong("two leaves"),
    "wrongLane": _mark_wrong("lane"),
    "wrongPool": _mark_wrong("pool"),
}
