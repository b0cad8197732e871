"""A call of the outbox for programs: `outbox list --json` and `/v1/outbox` answer the same."""

from oracle.queries.outbox.outbox_advice import SentState, advice
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, Intent, IntentState, NonceSlot

_TASK, _GROUP = "task=", "group="


def intent_answer(intent: Intent, sent: SentState, now: int) -> dict[str, object]:
    """Write an intent for programs; amounts in wei as decimal text, times in unix seconds."""
    request, told, slot = intent.request, advice(intent, sent), sent.slot
    return {
        "id": intent.id,
        "kind": request.kind,
        "state": intent.state.value,
        "about": request.subject or request.dedup_key,
        "task": task_of(intent),
        "period": request.period,
        "round": request.round,
        "as_of_block": request.as_of_block,
        "as_of_hash": request.as_of_hash,
        "digest": request.digest,
        "sender": request.account.address,
        "nonce": intent.nonce,
        "opened_block": None if slot is None else slot.opened_block,
        "mined_block": None if slot is None else slot.block_number,
        "gas_limit": intent.gas_limit,
        "max_cost_wei": None if intent.max_cost_wei is None else str(intent.max_cost_wei),
        "not_before": request.not_before,
        "deadline": request.deadline,
        "reason": reason_of(intent),
        "replaces": intent.replaces,
        "superseded_by": intent.superseded_by,
        "age_seconds": max(0, now - intent.created_at),
        "waits_for": told.waits_for,
        "what_to_do": told.what_to_do,
        "created_at": intent.created_at,
        "updated_at": intent.updated_at,
        "attempts": [_attempt_answer(attempt, slot) for attempt in sent.attempts],
    }


def sent_of(uow: UnitOfWork, intent: Intent) -> SentState:
    """Return what was sent of a call, its rivals on the same nonce too."""
    account = intent.request.account
    pause = uow.outbox.accounts.paused_because(account)
    slot = None if intent.nonce is None else uow.outbox.slots.at(account, intent.nonce)
    return SentState(slot, [] if slot is None else uow.outbox.slots.attempts(slot), pause)


def _attempt_answer(attempt: Attempt, slot: NonceSlot | None) -> dict[str, object]:
    return {
        "hash": attempt.signed.tx_hash,
        "intent": attempt.intent_id,
        "why": attempt.reason.value,
        "won": slot is not None and slot.won_attempt == attempt.id,
        "max_fee_wei": str(attempt.signed.max_fee_wei),
        "tip_wei": str(attempt.signed.tip_wei),
        "gas_limit": attempt.signed.gas_limit,
        "sends": attempt.sends,
        "first_sent_block": attempt.first_sent_block,
        "last_sent_block": attempt.last_sent_block,
        "last_error": attempt.last_error_class,
        "last_error_text": attempt.last_error_text,
    }


def task_of(intent: Intent) -> str | None:
    """Return the key of the task that a call of the dispatcher is about; None: about none."""
    first = intent.request.subject.partition(":")[0]
    return first.removeprefix(_TASK) if first.startswith(_TASK) else None


def group_of(intent: Intent) -> str | None:
    """Return the key of the group that a call of the dispatcher starts; None: none."""
    first = intent.request.subject.partition(":")[0]
    return first.removeprefix(_GROUP) if first.startswith(_GROUP) else None


def reason_of(intent: Intent) -> str | None:
    """Return why a call waits or came to nothing; None: there is nothing to say."""
    if intent.state in {IntentState.MINED, IntentState.FINAL}:
        return None
    return intent.error_text or intent.error_class
