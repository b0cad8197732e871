"""The advice for a call in the outbox: the event that it waits for, and the action to take."""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.store.outbox.records import (
    Account,
    Attempt,
    Intent,
    IntentState,
    NonceSlot,
    Pause,
    PauseKind,
)
from oracle.txmgr.attribution import NO_RECEIPT
from oracle.txmgr.replacement_offer import TOO_LITTLE

# The action that ends a wait, by class of reason, for waits that a person can end.
_CHANGES = {
    "funds": "send ether to {sender}",
    "fee_cap": "gas is dear: wait, or raise limits.max_fee_per_gas_wei",
    "cost_cap": "raise limits.max_cost_per_transaction_wei",
    "hour_cap": "wait, or raise limits.max_cost_per_hour_wei",
    "day_cap": "wait, or raise limits.max_cost_per_day_wei",
    "behind": "wait until the index has caught up: `qos-oracle status`",
    "stalled": "look at the chain and its endpoints: `qos-oracle endpoint probe`",
    "report held": "`qos-oracle report show` what would change, then `report release PERIOD`",
    "Paused": "the contract is paused: `qos-oracle contract show`",
}
_NOTHING = "nothing"
_GWEI = 10**9
_OF_STATE = {
    IntentState.FINAL: "it is done",
    IntentState.REVERTED: "it is over; the next one carries what is still wanted",
    IntentState.SUPERSEDED: "it is over: another one took its place",
    IntentState.CANCELLED: "it is over: it was cancelled",
    IntentState.EXPIRED: "it is over; the next one carries what is still wanted",
    IntentState.REJECTED: "it is over: the contract would never take it",
}


class SentState(NamedTuple):
    """The nonce slot and attempts of a call with a nonce, and its sender's pause, if any."""

    slot: NonceSlot | None
    attempts: Sequence[Attempt]
    pause: Pause | None


class Advice(NamedTuple):
    """The event that a call waits for, and the action to take.

    `waits_for` is None if the call is over.
    """

    waits_for: str | None
    what_to_do: str


def advice(intent: Intent, sent: SentState) -> Advice:
    """Return the advice for a call, from its stored row alone."""
    over = _OF_STATE.get(intent.state)
    if over is not None:
        return Advice(None, f"{_NOTHING}: {over}")
    by_state = {
        IntentState.HELD: _of_held,
        IntentState.MINED: _of_mined,
        IntentState.LIVE: _of_live,
    }
    return by_state.get(intent.state, _of_waiting)(intent, sent)


def _of_hidden(intent: Intent) -> Advice:
    act = "`qos-oracle endpoint probe`, or name an endpoint that serves eth_getTransactionReceipt"
    return Advice(f"a receipt: {intent.error_text}", act)


def _of_mined(intent: Intent, sent: SentState) -> Advice:
    if intent.error_class == NO_RECEIPT:
        return _of_hidden(intent)
    block = None if sent.slot is None else sent.slot.block_number
    return Advice(f"block {block} to be final", f"{_NOTHING}: a reorg puts it back by itself")


def _of_live(intent: Intent, sent: SentState) -> Advice:
    if intent.error_class == NO_RECEIPT:
        return _of_hidden(intent)
    slot = sent.slot
    if slot is not None and slot.intent_id != intent.id:
        return Advice(
            f"a block that takes it, or intent {slot.intent_id}, which was put on its nonce",
            f"{_NOTHING}: one of the two lands, and the other is over",
        )
    newest = sent.attempts[-1] if sent.attempts else None
    said = newest.last_error_text or newest.last_error_class if newest is not None else None
    waits = "a block" if said is None else f"a block; the endpoints said last: {said}"
    act = f"{_NOTHING}: it is bumped by itself; `outbox bump {intent.id}` pays more at once"
    if newest is not None and newest.last_error_class in TOO_LITTLE:
        most = f"{newest.signed.max_fee_wei / _GWEI:g} gwei for each gas"
        waits = f"{waits} (it pays {most})"
        act = (
            "gas is dear: wait, it is bumped by itself as far as [limits] allow, or raise "
            f"limits.max_fee_per_gas_wei; `outbox bump {intent.id}` says which limit is in the way"
        )
    if sent.pause is not None:
        return Advice(
            f"{waits}; and for {_of_pause(sent.pause)}",
            "it is offered as it is, and not bumped: "
            f"{after_pause(intent.request.account, sent.pause)}",
        )
    return Advice(waits, f"{act}, `outbox cancel {intent.id} --yes` puts a no-op on its nonce")


def _of_held(intent: Intent, _sent: SentState) -> Advice:
    return Advice("a human", _after_hold(intent))


def _after_hold(intent: Intent) -> str:
    release = (
        f"`outbox release {intent.id}` plans it again, `outbox cancel {intent.id} --yes` ends it"
    )
    close = f"`outbox cancel {intent.id} --yes` closes it"
    if intent.error_class == PauseKind.FOREIGN:
        return (
            "another program signed with the key: where it is yours, `outbox rebuild "
            "--from-chain --yes`; where it is not, a new transmitter key; "
            f"then `outbox release {intent.request.account.address}`; {close}"
        )
    if intent.nonce is not None:
        return f"it is mined and did not do what it was sent for: find out why, then {close}"
    if intent.error_class == PauseKind.OPERATOR:
        return release
    return f"put right what the reason names, then {release}"


def _of_pause(pause: Pause) -> str:
    return f"its sender, which is paused ({pause.kind.value}): {pause.reason}"


def after_pause(account: Account, pause: Pause) -> str:
    """Return the action that lets a paused sender continue."""
    sender = account.address
    if pause.kind is PauseKind.FUNDS:
        return f"send ether to {sender}; it goes on by itself"
    if pause.is_temporary:
        return f"let the signer sign for {sender}; it is asked again by itself"
    if pause.kind is PauseKind.FOREIGN:
        return (
            f"find out who used the key of {sender}; then stop the daemon, `outbox rebuild "
            f"--from-chain --yes`, `outbox release {sender}`; or rotate the key"
        )
    return f"put right what the reason names, then `outbox release {sender}`"


def _of_waiting(intent: Intent, sent: SentState) -> Advice:
    if sent.pause is not None:
        return Advice(_of_pause(sent.pause), after_pause(intent.request.account, sent.pause))
    reason = intent.error_text or intent.error_class
    if reason is None:
        following = {
            IntentState.PLANNED: "its trial on the newest block",
            IntentState.READY: "a nonce: a push waits for the push before it, and all wait while "
            "limits.max_in_flight are not final (no end without two endpoints that agree: "
            "`qos-oracle endpoint probe`)",
            IntentState.ASSIGNED: "its signature, and the first sending",
        }[intent.state]
        return Advice(following, f"{_NOTHING}, as long as the daemon runs with --publish")
    until = intent.request.not_before
    waits = reason if until is None else f"{reason}; tried again from chain time {until}"
    change = _CHANGES.get(intent.error_class or "")
    if change is None:
        return Advice(waits, f"{_NOTHING}: it is tried again by itself")
    return Advice(waits, change.format(sender=intent.request.account.address))
