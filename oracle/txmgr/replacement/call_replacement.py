"""Puts another call on a nonce that waits: at most one of the two lands.

A push whose statement can no longer land makes room for the next one, and one whose signatures
count no more for the same statement with others. A no-op, which does nothing, takes the nonce of
a call that an operator cancels.
See docs/explanation/transactions.md#one-at-a-time.
"""

from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.errors import FatalError, InputError
from oracle.quorum.resigning import refused, statement_behind
from oracle.quorum.statements import why_dead
from oracle.reporting.push_call import is_renewed_by
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    AttemptReason,
    CallRequest,
    Intent,
    IntentKind,
    IntentState,
    NonceState,
    SignedCall,
)
from oracle.telemetry.txmgr_metrics import FEE_CAPPED
from oracle.txmgr.budget import role, room
from oracle.txmgr.client.fee_quote import PLAIN_GAS, gas_limit
from oracle.txmgr.client.preflight import PreflightOutcome, count, preflight
from oracle.txmgr.confirmation.unconfirmed import UnconfirmedNonce, is_mined, refuse_mined
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import close_report, end
from oracle.txmgr.inclusion_time import why_too_late
from oracle.txmgr.replacement.fee_bump import send_newest
from oracle.txmgr.replacement.replacement_offer import Replacement, offer
from oracle.txmgr.signing_queue import gas_of_block, limit_for, signed_call

_WITHOUT_NONCE = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.HELD})


def retarget_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Put the push that is ready on the nonce of one that can no longer land; None: none is."""
    with context.store.reading() as uow:
        if uow.outbox.senders.paused_because(context.account) is not None:
            return None
        fresh = _ready_push(uow, context)
        waiting = None if fresh is None else stuck_push(uow, context)
    if fresh is None or waiting is None:
        return None
    standing = context.standing()
    with context.store.reading() as uow:
        reason = why_hopeless(uow, waiting.intent, standing)
        late = why_too_late(context, uow, fresh.wish.deadline, heads.latest.time)
    if late is not None:
        return end(context, fresh, IntentState.EXPIRED, late)
    may_land = reason is None and not is_renewed_by(waiting.intent, fresh)
    if may_land or is_mined(context, waiting):
        return None
    return _retarget(context, waiting, fresh, heads)


def stuck_push(uow: UnitOfWork, context: TxContext) -> UnconfirmedNonce | None:
    """Return the push that waits for a receipt; None: none does."""
    for slot in uow.outbox.slots.watched(context.account):
        if slot.state is not NonceState.LIVE:
            continue
        intent = uow.outbox.intents.named(slot.intent_id)
        attempts = uow.outbox.slots.attempts(slot)
        is_sent = bool(attempts) and attempts[-1].sends > 0
        if intent is not None and intent.wish.kind is IntentKind.PUSH and is_sent:
            return UnconfirmedNonce(slot, intent, attempts)
    return None


def why_hopeless(uow: UnitOfWork, push: Intent, standing: ContractStatus) -> str | None:
    """Tell why a push that was sent can no longer land; None: it may, or it has landed."""
    wish = push.wish
    accepted = uow.rounds.accepted_round(wish.round or 0)
    ours = (wish.digest, wish.account.address)
    if accepted is not None and (accepted.digest, accepted.transmitter) == ours:
        return None
    return why_dead(uow, statement_behind(uow, push, standing), standing)


def cancel(context: TxContext, heads: Heads, intent_id: int) -> StepResult:
    """Give a call up, because an operator says so: by a no-op on its nonce where it has one.

    Either may still land; which did shows in the outbox. The no-op pays within the same caps.

    Raises:
        InputError: there is no such intent, or see `prepared_no_op`.
        TransientError: no endpoint answers.
    """
    with context.store.reading() as uow:
        intent = _named(uow, intent_id)
    if intent.nonce is not None or intent.state not in _WITHOUT_NONCE:
        return displace(context, prepared_no_op(context, intent_id), heads)
    with context.writing() as uow:
        uow.outbox.intents.cancel(intent, "cancelled by an operator", context.stamp)
    return StepResult(f"{intent.wish.kind} cancelled", intent.id)


def prepared_no_op(context: TxContext, intent_id: int) -> Replacement:
    """Return the no-op that may take the nonce of a call that was sent; writes nothing.

    Raises:
        InputError: there is no such intent, it is mined or over, it was not sent yet, or a cap,
            a budget or our ether forbids the no-op.
        TransientError: no endpoint answers.
    """
    account = context.account
    context.publisher.lines.check_chain(account.chain_id)
    with context.store.reading() as uow:
        intent = _named(uow, intent_id)
        slot = None if intent.nonce is None else uow.outbox.slots.at(account, intent.nonce)
        attempts = [] if slot is None else uow.outbox.slots.attempts(slot)
    if slot is None or slot.state is not NonceState.LIVE or intent.id != slot.intent_id:
        raise InputError(f"intent {intent_id} is {intent.state}: there is nothing to cancel")
    if not attempts or not attempts[-1].sends:
        raise InputError(f"intent {intent_id} is about to be sent: try again once it was")
    waiting = UnconfirmedNonce(slot, intent, attempts)
    refuse_mined(context, waiting)
    verdict = preflight(context.publisher.lines, account.address, account.address, "0x")
    # Some rollups count their data as gas.
    limit = PLAIN_GAS if verdict.gas <= PLAIN_GAS else gas_limit(verdict.gas)
    found = offer(context, waiting, limit, "0x")
    if found.fees is None:
        raise InputError(f"no no-op at nonce {slot.nonce}: {found.why_none}")
    return Replacement(waiting, limit, found.fees, found.beside)


def _named(uow: UnitOfWork, intent_id: int) -> Intent:
    intent = uow.outbox.intents.named(intent_id)
    if intent is None:
        raise InputError(f"there is no intent {intent_id}; `qos-oracle outbox list` shows them")
    return intent


def _retarget(
    context: TxContext, waiting: UnconfirmedNonce, fresh: Intent, heads: Heads
) -> StepResult | None:
    wish, slot = fresh.wish, waiting.slot
    verdict = preflight(context.lines(), wish.account.address, wish.contract, wish.calldata)
    count(wish.kind, verdict)
    if verdict.outcome is not PreflightOutcome.OK:
        return refused(context, fresh, verdict, heads)
    limit = limit_for(verdict.gas, wish.calldata, gas_of_block(context))
    found = None if limit is None else offer(context, waiting, limit, wish.calldata)
    if limit is None or found is None or found.fees is None:
        FEE_CAPPED.labels(role(context)).set(1)
        return None
    twin = Replacement(waiting, limit, found.fees, found.beside)
    signed = signed_call(context, fresh, slot.nonce, found.fees, limit)
    with context.writing() as uow:
        # Looked at once more, in the commit that reserves and gives the nonce.
        is_same = _ready_push(uow, context) == fresh and stuck_push(uow, context) == waiting
        if not is_same or twin.cost > room(uow, context, slot):
            return None
        uow.outbox.intents.reserve(fresh, twin.cost)
        _take_over(uow, context, waiting, (fresh, signed, AttemptReason.RETARGET), heads)
    FEE_CAPPED.labels(role(context)).set(0)
    said = f"nonce {slot.nonce} of intent {waiting.intent.id}"
    return StepResult(f"{wish.kind} retargeted", fresh.id, said)


def displace(context: TxContext, no_op: Replacement, heads: Heads) -> StepResult:
    """Sign and send what `prepared_no_op` allows: one of the two lands.

    Raises:
        InputError: somebody has used up the budgets since.
    """
    account, waiting, limit, fees = context.account, no_op.waiting, no_op.gas_limit, no_op.fees
    slot = waiting.slot
    wish = CallRequest(
        account=account,
        # To ourselves, of nothing.
        contract=account.address,
        kind=IntentKind.NOOP,
        dedup_key=f"noop:nonce={slot.nonce}:after={len(waiting.attempts)}",
        calldata="0x",
        priority=0,
    )
    planned = _planned(wish)
    signed = signed_call(context, planned, slot.nonce, fees, limit)
    with context.writing() as uow:
        intents = uow.outbox.intents
        if no_op.cost > room(uow, context, slot):
            raise InputError(f"the budgets of [limits] do not allow a no-op at nonce {slot.nonce}")
        noop = intents.named(intents.add(wish, context.stamp) or 0)
        if noop is None:
            raise FatalError(f"a no-op at nonce {slot.nonce} is there already")
        intents.make_ready(noop, limit, no_op.cost, context.stamp)
        ready = replace(noop, state=IntentState.READY)
        _take_over(uow, context, waiting, (ready, signed, AttemptReason.NOOP), heads)
    return send_newest(context, slot, heads) or StepResult("no-op signed", noop.id, signed.tx_hash)


def _take_over(
    uow: UnitOfWork,
    context: TxContext,
    waiting: UnconfirmedNonce,
    new: tuple[Intent, SignedCall, AttemptReason],
    heads: Heads,
) -> None:
    """Give the nonce to another intent together with its bytes: it is never without any."""
    intent, signed, reason = new
    slots = uow.outbox.slots
    slots.retarget(waiting.slot, intent, heads.latest.number, context.stamp)
    slots.sign(replace(waiting.slot, intent_id=intent.id), signed, reason, context.stamp)
    if not is_renewed_by(waiting.intent, intent):
        # Should it land all the same, the fold will see it.
        close_report(uow, waiting.intent, f"{reason} of nonce {waiting.slot.nonce}")


def _ready_push(uow: UnitOfWork, context: TxContext) -> Intent | None:
    ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
    return next((one for one in ready if one.wish.kind is IntentKind.PUSH), None)


def _planned(wish: CallRequest) -> Intent:
    """Return the intent that a wish is about to become, to sign its bytes before the commit."""
    return Intent(
        id=0,
        wish=wish,
        state=IntentState.PLANNED,
        nonce=None,
        gas_limit=None,
        max_cost_wei=None,
        error_class=None,
        error_text=None,
        superseded_by=None,
        created_at=0,
        updated_at=0,
        replaces=None,
    )
