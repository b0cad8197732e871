"""A planned call gets checked, a nonce, a signature, and is sent.

Each step is one commit, and each commit stands before what it makes possible: whoever dies
between two of them goes on with the same nonce and the same bytes.
See docs/explanation/transactions.md#states.
"""

from oracle.chain.heads import Heads
from oracle.reporting.push_call import retry_next
from oracle.reporting.submission import why_not_worth
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    AttemptReason,
    Intent,
    IntentKind,
    IntentState,
    NonceSlot,
    NonceState,
)
from oracle.txmgr.admission import look_around, ready_next
from oracle.txmgr.broadcaster import send_attempt
from oracle.txmgr.budget import resume_funded, why_not, why_poor
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import wait
from oracle.txmgr.replacement.call_replacement import retarget_next
from oracle.txmgr.replacement.fee_bump import bump_next
from oracle.txmgr.signing_queue import l1_cost, may_sign, resume_refused, signed_call


def publish_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Take the most urgent step towards the chain; None: nothing to take now.

    What has a nonce goes first, so that no higher nonce ever waits for a lower one.
    """
    if context.is_stopped():
        return None
    return (
        resume_funded(context)
        or resume_refused(context)
        or _send_next(context, heads)
        or _sign_next(context, heads)
        or retarget_next(context, heads)
        or bump_next(context, heads)
        or _assign_next(context, heads)
        or ready_next(context, heads)
        or retry_next(context, heads)
    )


def _assign_next(context: TxContext, heads: Heads) -> StepResult | None:
    account = context.account
    with context.store.reading() as uow:
        if _first_free(uow, context) is None or not may_sign(context):
            return None
    balance = context.balance()
    with context.writing() as uow:
        outbox = uow.outbox
        # Looked at once more, in the commit that gives the nonce.
        intent = _first_free(uow, context)
        if intent is None:
            return None
        cost = intent.max_cost_wei or 0
        worthless = why_not_worth(context, uow, intent, heads.latest.time)
        why = why_not(uow, context, cost) or why_poor(uow, context, balance, cost) or worthless
        if why is not None:
            outbox.intents.postpone(intent, heads.latest.time + 1, why, context.stamp)
            return StepResult(f"{intent.wish.kind} waits", intent.id, ": ".join(why))
        vacant = outbox.slots.vacant(account)
        nonce = outbox.senders.take_nonce(account) if vacant is None else vacant.nonce
        outbox.slots.open(intent, nonce, heads.latest.number, context.stamp)
    return StepResult(f"{intent.wish.kind} assigned", intent.id, f"nonce {nonce}")


def _first_free(uow: UnitOfWork, context: TxContext) -> Intent | None:
    """Return the first that may go now: a push waits for a push that is on its way."""
    ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
    if not ready or uow.outbox.senders.paused_because(context.account) is not None:
        return None
    if len(uow.outbox.slots.watched(context.account)) >= context.sending.max_in_flight:
        return None
    under_way = uow.outbox.intents.in_states(
        context.account, [IntentState.ASSIGNED, IntentState.LIVE]
    )
    is_pushing = any(one.wish.kind is IntentKind.PUSH for one in under_way)
    return next(
        (one for one in ready if not (is_pushing and one.wish.kind is IntentKind.PUSH)), None
    )


def _sign_next(context: TxContext, heads: Heads) -> StepResult | None:
    with context.store.reading() as uow:
        work = _unsigned(uow, context)
    if work is None or not may_sign(context):
        return None
    slot, intent = work
    verdict, step = look_around(context, intent, heads)
    if verdict is None:
        return step
    limit = intent.gas_limit or 0
    beside = l1_cost(context, intent.wish.calldata, limit)
    fees = context.fees(((intent.max_cost_wei or 0) - beside) // limit)
    if fees is None or verdict.gas > limit:
        return wait(context, intent, heads, ("dearer", "gas or fees rose above the reserved cost"))
    signed = signed_call(context, intent, slot.nonce, fees)
    with context.writing() as uow:
        uow.outbox.slots.sign(slot, signed, AttemptReason.FIRST, context.stamp)
    return StepResult(f"{intent.wish.kind} signed", intent.id, signed.tx_hash)


def _unsigned(uow: UnitOfWork, context: TxContext) -> tuple[NonceSlot, Intent] | None:
    """Return the lowest nonce that waits for a signature."""
    for slot in uow.outbox.slots.watched(context.account):
        if slot.state is not NonceState.OPEN:
            continue
        intent = uow.outbox.intents.named(slot.intent_id)
        if (
            intent is not None
            and intent.state is IntentState.ASSIGNED
            and not uow.outbox.slots.attempts(slot)
        ):
            return slot, intent
    return None


def _send_next(context: TxContext, heads: Heads) -> StepResult | None:
    with context.store.reading() as uow:
        unsent = [
            (slot, attempt)
            for slot, attempts in uow.outbox.slots.watched_with_attempts(context.account)
            for attempt in attempts
            if attempt.sends == 0
        ]
    return send_attempt(context, *unsent[0], heads) if unsent else None
