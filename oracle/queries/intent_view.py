"""Shows a call in the outbox: its state, the event that it waits for, and advice.

`outbox list --json` and `/v1/outbox` print the same model.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.queries.text.human_numbers import format_gwei
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Account,
    Attempt,
    Intent,
    IntentState,
    JournalEntry,
    NonceSlot,
    Pause,
    PauseKind,
)
from oracle.txmgr.attribution import NO_RECEIPT
from oracle.txmgr.unconfirmed import UNDERPRICED

# Advice for each class of wait reason that an operator can end.
_ACTION_BY_REASON = {
    "funds": "send ether to {sender}",
    "fee_cap": "gas is expensive: wait, or raise limits.max_fee_per_gas_wei",
    "cost_cap": "raise limits.max_cost_per_transaction_wei",
    "hour_cap": "wait, or raise limits.max_cost_per_hour_wei",
    "day_cap": "wait, or raise limits.max_cost_per_day_wei",
    "behind": "wait until the index has caught up: `qos-oracle status`",
    "stalled": "check the chain and its endpoints: `qos-oracle endpoint probe`",
    "report held": "check it with `qos-oracle report show`, then `report release PERIOD`",
    "Paused": "the contract is paused: `qos-oracle contract show`",
}
_NOTHING = "nothing"
_ENDED_TEXT_BY_STATE = {
    IntentState.FINAL: "it is final",
    IntentState.REVERTED: "it reverted; the next call includes what is still needed",
    IntentState.SUPERSEDED: "another call replaced it",
    IntentState.CANCELLED: "it was cancelled",
    IntentState.EXPIRED: "it expired; the next call includes what is still needed",
    IntentState.REJECTED: "the contract would never accept it",
}


class SentState(NamedTuple):
    """The nonce slot and attempts of a call, and the pause of its sender, where present."""

    slot: NonceSlot | None
    attempts: Sequence[Attempt]
    pause: Pause | None


class Advice(NamedTuple):
    """The event that a call waits for, and what an operator should do.

    `waits_for` is None if the call is over.
    """

    waits_for: str | None
    what_to_do: str


def recommend_intent_action(intent: Intent, sent_state: SentState) -> Advice:
    """Recommend an action for a call, based on stored rows only."""
    ended_text = _ENDED_TEXT_BY_STATE.get(intent.state)
    if ended_text is not None:
        return Advice(None, f"{_NOTHING}: {ended_text}")
    builder_by_state = {
        IntentState.HELD: _advise_on_held_intent,
        IntentState.MINED: _advise_on_mined_intent,
        IntentState.LIVE: _advise_on_live_intent,
    }
    return builder_by_state.get(intent.state, _advise_on_waiting_intent)(intent, sent_state)


def _advise_on_missing_receipt(intent: Intent) -> Advice:
    action = (
        "`qos-oracle endpoint probe`, or add an endpoint that serves eth_getTransactionReceipt"
    )
    return Advice(f"a receipt: {intent.error_text}", action)


def _advise_on_mined_intent(intent: Intent, sent_state: SentState) -> Advice:
    if intent.error_class == NO_RECEIPT:
        return _advise_on_missing_receipt(intent)
    block_number = None if sent_state.slot is None else sent_state.slot.block_number
    return Advice(
        f"block {block_number} to be final",
        f"{_NOTHING}: after a reorg it is sent again automatically",
    )


def _advise_on_live_intent(intent: Intent, sent_state: SentState) -> Advice:
    if intent.error_class == NO_RECEIPT:
        return _advise_on_missing_receipt(intent)
    slot = sent_state.slot
    if slot is not None and slot.intent_id != intent.id:
        return Advice(
            f"a block that includes it, or intent {slot.intent_id}, which uses its nonce",
            f"{_NOTHING}: one of the two lands, and the other one ends",
        )
    newest_attempt = sent_state.attempts[-1] if sent_state.attempts else None
    endpoint_error = (
        newest_attempt.last_error_text or newest_attempt.last_error_class
        if newest_attempt is not None
        else None
    )
    waiting_text = (
        "a block"
        if endpoint_error is None
        else f"a block; last error of the endpoints: {endpoint_error}"
    )
    advised_action = (
        f"{_NOTHING}: its fee is bumped automatically; `outbox bump {intent.id}` bumps it now"
    )
    if newest_attempt is not None and newest_attempt.last_error_class in UNDERPRICED:
        fee_text = f"{format_gwei(newest_attempt.signed.max_fee_wei)} gwei per gas"
        waiting_text = f"{waiting_text} (it pays {fee_text})"
        advised_action = (
            "gas is expensive: wait, it is bumped automatically as far as [limits] allow, or "
            f"raise limits.max_fee_per_gas_wei; `outbox bump {intent.id}` names the limit"
        )
    if sent_state.pause is not None:
        return Advice(
            f"{waiting_text}; and for {_format_pause_reason(sent_state.pause)}",
            "it is sent again unchanged, and not bumped: "
            f"{format_resume_action(intent.request.account, sent_state.pause)}",
        )
    return Advice(
        waiting_text, f"{advised_action}, `outbox cancel {intent.id} --yes` replaces it by a no-op"
    )


def _advise_on_held_intent(intent: Intent, _sent_state: SentState) -> Advice:
    return Advice("an operator", _format_release_action(intent))


def _format_release_action(intent: Intent) -> str:
    release_text = (
        f"`outbox release {intent.id}` plans it again, `outbox cancel {intent.id} --yes` ends it"
    )
    cancel_text = f"`outbox cancel {intent.id} --yes` closes it"
    if intent.error_class == PauseKind.FOREIGN:
        return (
            "another program signed with the key: if it is yours, `outbox rebuild "
            "--from-chain --yes`; if not, use a new transmitter key; "
            f"then `outbox release {intent.request.account.address}`; {cancel_text}"
        )
    if intent.nonce is not None:
        return f"it was mined without the intended effect: find out why, then {cancel_text}"
    if intent.error_class == PauseKind.OPERATOR:
        return release_text
    return f"fix what the reason names, then {release_text}"


def _format_pause_reason(pause: Pause) -> str:
    return f"its sender, which is paused ({pause.kind.value}): {pause.reason}"


def format_resume_action(account: Account, pause: Pause) -> str:
    """Return the action by which an operator resumes a paused sender."""
    sender_address = account.address
    if pause.kind is PauseKind.FUNDS:
        return f"send ether to {sender_address}; it resumes automatically"
    if pause.is_temporary:
        return f"let the signer sign for {sender_address}; signing is retried automatically"
    if pause.kind is PauseKind.FOREIGN:
        return (
            f"find out who used the key of {sender_address}; then stop the daemon, `outbox "
            f"rebuild --from-chain --yes`, `outbox release {sender_address}`; or rotate the key"
        )
    return f"fix what the reason names, then `outbox release {sender_address}`"


def _advise_on_waiting_intent(intent: Intent, sent_state: SentState) -> Advice:
    if sent_state.pause is not None:
        return Advice(
            _format_pause_reason(sent_state.pause),
            format_resume_action(intent.request.account, sent_state.pause),
        )
    wait_reason = intent.error_text or intent.error_class
    if wait_reason is None:
        next_step = {
            IntentState.PLANNED: "simulation on the newest block",
            IntentState.READY: "a nonce: a push waits for the push before it, and all wait while "
            "limits.max_in_flight calls are not final (which takes two endpoints that agree: "
            "`qos-oracle endpoint probe`)",
            IntentState.ASSIGNED: "its signature and first broadcast",
        }[intent.state]
        return Advice(next_step, f"{_NOTHING}, as long as the daemon runs with --publish")
    not_before = intent.request.not_before
    waiting_text = (
        wait_reason
        if not_before is None
        else f"{wait_reason}; retried from chain time {not_before}"
    )
    action = _ACTION_BY_REASON.get(intent.error_class or "")
    if action is None:
        return Advice(waiting_text, f"{_NOTHING}: it is retried automatically")
    return Advice(waiting_text, action.format(sender=intent.request.account.address))


_TASK_PREFIX, _GROUP_PREFIX = "task=", "group="


class AttemptView(ApiModel):
    """A transaction that was signed for a call."""

    hash: HashText
    intent: int
    why: str
    won: bool = Field(
        description="Whether this transaction is the one that was mined with its nonce."
    )
    max_fee_wei: Integer
    tip_wei: Integer
    gas_limit: int
    sends: int
    first_sent_block: int | None
    last_sent_block: int | None
    last_error: str | None
    last_error_text: str | None


class IntentView(ApiModel):
    """A requested on-chain call; times are in unix seconds."""

    id: int
    kind: str
    state: str
    about: str
    task: str | None
    period: int | None
    round: int | None
    as_of_block: int | None
    as_of_hash: HashText | None
    digest: HashText | None
    sender: AddressText
    nonce: int | None
    opened_block: int | None
    mined_block: int | None
    gas_limit: int | None
    max_cost_wei: Integer | None
    not_before: int | None
    deadline: int | None
    reason: str | None
    replaces: int | None
    superseded_by: int | None
    age_seconds: int
    waits_for: str | None
    what_to_do: str
    created_at: int
    updated_at: int
    attempts: list[AttemptView]


class JournalLine(ApiModel):
    """A line of the outbox journal about a call."""

    at: int
    event: str
    detail: str
    epoch: int | None
    actor: str | None


class IntentDetail(IntentView):
    """A call with its journal, and the node that was drawn for its task."""

    node: AddressText | None = Field(
        description=(
            "Node for which the call starts a task; null if the call starts no task, or if "
            "there is no draw."
        )
    )
    journal: list[JournalLine]


def build_intent_view(intent: Intent, sent_state: SentState, now: int) -> IntentView:
    """Build the view of a call at the unix time `now`."""
    request = intent.request
    call_advice = recommend_intent_action(intent, sent_state)
    slot = sent_state.slot
    return IntentView(
        id=intent.id,
        kind=request.kind,
        state=intent.state.value,
        about=request.subject or request.dedup_key,
        task=parse_task_key(intent),
        period=request.period,
        round=request.round,
        as_of_block=request.as_of_block,
        as_of_hash=request.as_of_hash,
        digest=request.digest,
        sender=request.account.address,
        nonce=intent.nonce,
        opened_block=None if slot is None else slot.opened_block,
        mined_block=None if slot is None else slot.block_number,
        gas_limit=intent.gas_limit,
        max_cost_wei=intent.max_cost_wei,
        not_before=request.not_before,
        deadline=request.deadline,
        reason=find_wait_or_failure_reason(intent),
        replaces=intent.replaces,
        superseded_by=intent.superseded_by,
        age_seconds=max(0, now - intent.created_at),
        waits_for=call_advice.waits_for,
        what_to_do=call_advice.what_to_do,
        created_at=intent.created_at,
        updated_at=intent.updated_at,
        attempts=[_build_attempt_view(attempt, slot) for attempt in sent_state.attempts],
    )


def build_intent_detail(
    view: IntentView, node: str | None, journal: Iterable[JournalEntry]
) -> IntentDetail:
    """Build the view of a call with its journal and the node drawn for its task."""
    journal_lines = [JournalLine.model_validate(entry) for entry in journal]
    return IntentDetail(**view.model_dump(), node=node, journal=journal_lines)


def load_sent_state(uow: UnitOfWork, intent: Intent) -> SentState:
    """Load a call's nonce slot with all attempts, and the pause of its sender."""
    account = intent.request.account
    pause = uow.outbox.accounts.find_pause(account)
    slot = None if intent.nonce is None else uow.outbox.slots.find_slot(account, intent.nonce)
    return SentState(slot, [] if slot is None else uow.outbox.slots.list_attempts(slot), pause)


def _build_attempt_view(attempt: Attempt, slot: NonceSlot | None) -> AttemptView:
    return AttemptView(
        hash=attempt.signed.tx_hash,
        intent=attempt.intent_id,
        why=attempt.reason.value,
        won=slot is not None and slot.won_attempt == attempt.id,
        max_fee_wei=attempt.signed.max_fee_wei,
        tip_wei=attempt.signed.tip_wei,
        gas_limit=attempt.signed.gas_limit,
        sends=attempt.sends,
        first_sent_block=attempt.first_sent_block,
        last_sent_block=attempt.last_sent_block,
        last_error=attempt.last_error_class,
        last_error_text=attempt.last_error_text,
    )


def parse_task_key(intent: Intent) -> str | None:
    """Return the task key of a dispatcher's call, or None for any other call."""
    return _parse_subject(intent, _TASK_PREFIX)


def parse_group_key(intent: Intent) -> str | None:
    """Return the key of the group that a dispatcher's call starts, or None for any other call."""
    return _parse_subject(intent, _GROUP_PREFIX)


def _parse_subject(intent: Intent, prefix: str) -> str | None:
    subject_part = intent.request.subject.partition(":")[0]
    return subject_part.removeprefix(prefix) if subject_part.startswith(prefix) else None


def find_wait_or_failure_reason(intent: Intent) -> str | None:
    """Return why a call waits or failed.

    The result is None if the call is mined or has no error.
    """
    if intent.state in {IntentState.MINED, IntentState.FINAL}:
        return None
    return intent.error_text or intent.error_class
