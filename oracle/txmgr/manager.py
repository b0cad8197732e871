"""A planned call gets checked, a nonce, a signature, and is sent (publishing.md 3.3).

Each step is one commit, and each commit stands before what it makes possible: whoever dies
between two of them goes on with the same nonce and the same bytes.
"""

from oracle.chain.heads import Heads
from oracle.reporting.retrying import retry_next
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
from oracle.txmgr.budget import why_not, why_poor
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import wait
from oracle.txmgr.replacement.call_replacement import retarget_next
from oracle.txmgr.replacement.fee_bump import bump_next
from oracle.txmgr.replenishing import resume_funded
from oracle.txmgr.signing import may_sign, resume_refused
from oracle.txmgr.signing_queue import l1_cost, signed_call


def publish_next(desk: TxContext, heads: Heads) -> StepResult | None:
    """Take the most urgent step towards the chain; None: nothing to take now.

    What has a nonce goes first, so that no higher nonce ever waits for a lower one.
    """
    if desk.is_stopped():
        return None
    return (
        resume_funded(desk)
        or resume_refused(desk)
        or _send_next(desk, heads)
        or _sign_next(desk, heads)
        or retarget_next(desk, heads)
        or bump_next(desk, heads)
        or _assign_next(desk, heads)
        or ready_next(desk, heads)
        or retry_next(desk, heads)
    )


def _assign_next(desk: TxContext, heads: Heads) -> StepResult | None:
    account = desk.account
    with desk.store.reading() as unit:
        if _first_free(unit, desk) is None or not may_sign(desk):
            return None
    balance = desk.balance()
    with desk.writing() as unit:
        outbox = unit.outbox
        # Looked at once more, in the commit that gives the nonce.
        intent = _first_free(unit, desk)
        if intent is None:
            return None
        cost = intent.max_cost_wei or 0
        worthless = why_not_worth(desk, unit, intent, heads.latest.time)
        why = why_not(unit, desk, cost) or why_poor(unit, desk, balance, cost) or worthless
        if why is not None:
            outbox.intents.postpone(intent, heads.latest.time + 1, why, desk.stamp)
            return StepResult(f"{intent.wish.kind} waits", intent.id, ": ".join(why))
        vacant = outbox.slots.vacant(account)
        nonce = outbox.senders.take_nonce(account) if vacant is None else vacant.nonce
        outbox.slots.open(intent, nonce, heads.latest.number, desk.stamp)
    return StepResult(f"{intent.wish.kind} assigned", intent.id, f"nonce {nonce}")


def _first_free(unit: UnitOfWork, desk: TxContext) -> Intent | None:
    """Return the first that may go now: a push waits for a push that is on its way."""
    ready = unit.outbox.intents.in_states(desk.account, [IntentState.READY])
    if not ready or unit.outbox.senders.paused_because(desk.account) is not None:
        return None
    if len(unit.outbox.slots.watched(desk.account)) >= desk.sending.max_in_flight:
        return None
    under_way = unit.outbox.intents.in_states(
        desk.account, [IntentState.ASSIGNED, IntentState.LIVE]
    )
    is_pushing = any(one.wish.kind is IntentKind.PUSH for one in under_way)
    return next(
        (one for one in ready if not (is_pushing and one.wish.kind is IntentKind.PUSH)), None
    )


def _sign_next(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        work = _unsigned(unit, desk)
    if work is None or not may_sign(desk):
        return None
    slot, intent = work
    verdict, step = look_around(desk, intent, heads)
    if verdict is None:
        return step
    limit = intent.gas_limit or 0
    beside = l1_cost(desk, intent.wish.calldata, limit)
    fees = desk.fees(((intent.max_cost_wei or 0) - beside) // limit)
    if fees is None or verdict.gas > limit:
        return wait(desk, intent, heads, ("dearer", "gas or fees rose above the reserved cost"))
    signed = signed_call(desk, intent, slot.nonce, fees)
    with desk.writing() as unit:
        unit.outbox.slots.sign(slot, signed, AttemptReason.FIRST, desk.stamp)
    return StepResult(f"{intent.wish.kind} signed", intent.id, signed.tx_hash)


def _unsigned(unit: UnitOfWork, desk: TxContext) -> tuple[NonceSlot, Intent] | None:
    """Return the lowest nonce that waits for a signature."""
    for slot in unit.outbox.slots.watched(desk.account):
        if slot.state is not NonceState.OPEN:
            continue
        intent = unit.outbox.intents.named(slot.intent_id)
        if (
            intent is not None
            and intent.state is IntentState.ASSIGNED
            and not unit.outbox.slots.attempts(slot)
        ):
            return slot, intent
    return None


def _send_next(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        unsent = [
            (slot, attempt)
            for slot, attempts in unit.outbox.slots.watched_with_attempts(desk.account)
            for attempt in attempts
            if attempt.sends == 0
        ]
    return send_attempt(desk, *unsent[0], heads) if unsent else None
