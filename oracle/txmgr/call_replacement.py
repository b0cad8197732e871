"""Replaces a stuck call at its nonce by another call: at most one of the two lands.

A call that its kind gives up is replaced by the next call of its kind. A call that an operator
cancels is replaced by a no-op.
"""

from dataclasses import replace

from oracle.chain.heads import Heads
from oracle.errors import FatalError, InputError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    NOOP,
    AttemptReason,
    CallRequest,
    Intent,
    IntentState,
    NonceState,
    SignedCall,
)
from oracle.telemetry.txmgr_metrics import FEE_CAPPED
from oracle.txmgr.budget import gas_of_block, limit_for, nonce_budget
from oracle.txmgr.client.fee_quote import PLAIN_GAS, gas_limit
from oracle.txmgr.client.preflight import PreflightOutcome, count, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import follow, refused, why_late
from oracle.txmgr.fee_bump import send_newest
from oracle.txmgr.replacement_offer import Replacement, offer
from oracle.txmgr.signing_queue import signed_call
from oracle.txmgr.unconfirmed import (
    UnconfirmedNonce,
    is_mined,
    refuse_mined,
    stuck_beside,
)

_WITHOUT_NONCE = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.HELD})


def replace_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Give a ready call the nonce of a stuck call that its kind gives up.

    Return None if none is.
    """
    with context.store.reading() as uow:
        if uow.outbox.accounts.paused_because(context.account) is not None:
            return None
        fresh = _ready_call(uow, context)
        waiting = None if fresh is None else stuck_beside(uow, context, fresh)
    if fresh is None or waiting is None:
        return None
    is_given_up = context.registry.kind_of(fresh).may_take_over(waiting.intent, fresh)
    with context.store.reading() as uow:
        late = why_late(context, uow, fresh, heads)
    if late is not None:
        return follow(context, fresh, late)
    if not is_given_up or is_mined(context, waiting):
        return None
    return _replace_call(context, waiting, fresh, heads)


def cancel(context: TxContext, heads: Heads, intent_id: int) -> StepResult:
    """Cancel a call by hand, with a no-op at its nonce if it has one.

    The call or the no-op may land; the outbox shows which did. The no-op is priced within the same
    caps.

    Raises:
        InputError: there is no such intent, or see `prepare_noop`.
        TransientError: no endpoint answers.
    """
    with context.store.reading() as uow:
        intent = _named(uow, intent_id)
    if intent.nonce is not None or intent.state not in _WITHOUT_NONCE:
        return replace_with_noop(context, prepared_no_op(context, intent_id), heads)
    with context.writing() as uow:
        uow.outbox.intents.cancel(intent, "cancelled by an operator", context.stamp)
    return StepResult(f"{intent.request.kind} cancelled", intent.id)


def prepared_no_op(context: TxContext, intent_id: int) -> Replacement:
    """Return the no-op that may take the nonce of a sent call, without writing anything.

    Raises:
        InputError: there is no such intent, it is mined or over, it was not sent yet, or a cap, a
            budget or the balance forbids the no-op.
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
    to_ourselves = SimulatedCall(account.address, account.address, "0x")
    verdict = preflight(context.publisher.lines, to_ourselves, context.registry.refusal_of)
    # Some rollups charge for transaction data in gas.
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


def _replace_call(
    context: TxContext, waiting: UnconfirmedNonce, fresh: Intent, heads: Heads
) -> StepResult | None:
    request, slot = fresh.request, waiting.slot
    verdict = context.preflight(request.calldata, request.contract)
    count(request.kind, verdict)
    if verdict.outcome is not PreflightOutcome.OK:
        return refused(context, fresh, verdict, heads)
    limit = limit_for(verdict.gas, request.calldata, gas_of_block(context))
    found = None if limit is None else offer(context, waiting, limit, request.calldata)
    if limit is None or found is None or found.fees is None:
        FEE_CAPPED.labels(context.role).set(1)
        return None
    bumped = Replacement(waiting, limit, found.fees, found.beside)
    signed = signed_call(context, fresh, slot.nonce, found.fees, limit)
    with context.writing() as uow:
        # Checked again in the commit that reserves the cost and assigns the nonce.
        is_same = _ready_call(uow, context) == fresh
        is_same = is_same and stuck_beside(uow, context, fresh) == waiting
        if not is_same or bumped.cost > nonce_budget(uow, context, slot):
            return None
        uow.outbox.intents.reserve(fresh, bumped.cost)
        _take_over(uow, context, waiting, (fresh, signed, AttemptReason.REPLACEMENT), heads)
    FEE_CAPPED.labels(context.role).set(0)
    said = f"nonce {slot.nonce} of intent {waiting.intent.id}"
    return StepResult(f"{request.kind} replaced", fresh.id, said)


def replace_with_noop(context: TxContext, no_op: Replacement, heads: Heads) -> StepResult:
    """Sign and send a prepared no-op; the call or the no-op lands.

    Raises:
        InputError: the budgets were used up in the meantime.
    """
    account, waiting, limit, fees = context.account, no_op.waiting, no_op.gas_limit, no_op.fees
    slot = waiting.slot
    request = CallRequest(
        account=account,
        # A transfer of zero wei to the account itself.
        contract=account.address,
        kind=NOOP,
        dedup_key=f"noop:nonce={slot.nonce}:after={len(waiting.attempts)}",
        calldata="0x",
        priority=0,
    )
    planned = _planned(request)
    signed = signed_call(context, planned, slot.nonce, fees, limit)
    with context.writing() as uow:
        intents = uow.outbox.intents
        if no_op.cost > nonce_budget(uow, context, slot):
            raise InputError(f"the budgets of [limits] do not allow a no-op at nonce {slot.nonce}")
        noop = intents.named(intents.add(request, context.stamp) or 0)
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
    """Assign the nonce to another intent and store its signed bytes in the same commit."""
    intent, signed, reason = new
    slots = uow.outbox.slots
    slots.replace_call(waiting.slot, intent, heads.latest.number, context.stamp)
    slots.sign(replace(waiting.slot, intent_id=intent.id), signed, reason, context.stamp)
    # If the replaced call lands after all, indexing will show it.
    context.registry.kind_of(waiting.intent).on_closed(
        uow, waiting.intent, f"{reason} of nonce {waiting.slot.nonce}", replaced_by=intent
    )


def _ready_call(uow: UnitOfWork, context: TxContext) -> Intent | None:
    """Return the most urgent ready call that may take the nonce of another of its kind, or None."""
    ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
    return next((one for one in ready if context.registry.kind_of(one).takes_over), None)


def _planned(request: CallRequest) -> Intent:
    """Return the intent that a request will become, so that it can be signed before the commit."""
    return Intent(
        id=0,
        request=request,
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
