"""A call of the outbox; `outbox list --json` and `/v1/outbox` print the same model."""

from collections.abc import Iterable

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.queries.outbox_advice import SentState, build_advice
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, Intent, IntentState, JournalEntry, NonceSlot

_TASK_PREFIX, _GROUP_PREFIX = "task=", "group="


class AttemptView(ApiModel):
    """A transaction that was signed for a call."""

    hash: HashText
    intent: int
    why: str
    won: bool = Field(description="Whether it is the one that was mined for its nonce.")
    max_fee_wei: Integer
    tip_wei: Integer
    gas_limit: int
    sends: int
    first_sent_block: int | None
    last_sent_block: int | None
    last_error: str | None
    last_error_text: str | None


class IntentView(ApiModel):
    """A call that was requested on chain; times in unix seconds."""

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
    """A line of the journal of a call."""

    at: int
    event: str
    detail: str
    epoch: int | None
    actor: str | None


class IntentDetail(IntentView):
    """A call with the node that was drawn for its task, and its journal."""

    node: AddressText | None = Field(description="null: it starts no task, or there is no draw.")
    journal: list[JournalLine]


def build_intent_view(intent: Intent, sent_state: SentState, now: int) -> IntentView:
    """Return the answer for a call; `now` in unix seconds."""
    request, call_advice, slot = intent.request, build_advice(intent, sent_state), sent_state.slot
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
        reason=find_reason(intent),
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
    """Return the answer for a call with its drawn node and its journal."""
    lines = [
        JournalLine(
            at=entry.at,
            event=entry.event,
            detail=entry.detail,
            epoch=entry.epoch,
            actor=entry.actor,
        )
        for entry in journal
    ]
    return IntentDetail(**view.model_dump(), node=node, journal=lines)


def load_sent_state(uow: UnitOfWork, intent: Intent) -> SentState:
    """Return a call's nonce slot, all attempts on this nonce, and the pause of its sender."""
    account = intent.request.account
    pause = uow.outbox.accounts.get_pause(account)
    slot = None if intent.nonce is None else uow.outbox.slots.get_slot(account, intent.nonce)
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
    """Return the key of the task that a dispatcher's call is about, or None if there is none."""
    subject_part = intent.request.subject.partition(":")[0]
    return (
        subject_part.removeprefix(_TASK_PREFIX) if subject_part.startswith(_TASK_PREFIX) else None
    )


def parse_group_key(intent: Intent) -> str | None:
    """Return the key of the group that a dispatcher's call starts, or None if there is none."""
    subject_part = intent.request.subject.partition(":")[0]
    return (
        subject_part.removeprefix(_GROUP_PREFIX)
        if subject_part.startswith(_GROUP_PREFIX)
        else None
    )


def find_reason(intent: Intent) -> str | None:
    """Return why a call waits or failed, or None if it is mined or has no error."""
    if intent.state in {IntentState.MINED, IntentState.FINAL}:
        return None
    return intent.error_text or intent.error_class
