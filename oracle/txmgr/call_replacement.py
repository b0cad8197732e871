"""Gives the nonce of a stuck call to another call, so that at most one is mined.

If the call's kind permits it, the next ready call of the same kind replaces a stuck call. If an
operator cancels a call, a no-op replaces it.
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
from oracle.txmgr.admission import defer_or_end_call, preflight_calls
from oracle.txmgr.broadcaster import send_newest_attempt
from oracle.txmgr.budget import compute_gas_limit, compute_nonce_budget, fetch_block_gas_limit
from oracle.txmgr.call_registry import CallStage
from oracle.txmgr.client.fee_quote import PLAIN_GAS, add_gas_margin
from oracle.txmgr.client.preflight import PreflightOutcome, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.deferral import apply_decision, decide_on_deadline
from oracle.txmgr.signing_queue import sign_call
from oracle.txmgr.unconfirmed import (
    Replacement,
    UnconfirmedNonce,
    check_nonce_not_mined,
    find_takeover_target,
    is_nonce_mined,
    load_requested_intent,
    price_replacement,
)


def replace_stuck_call(context: AccountContext, heads: Heads) -> StepResult | None:
    """Give the nonce of a stuck call to a ready call of the same kind.

    This happens only if the kind permits it. Return None if no call was replaced and the ready
    call was neither ended nor deferred.
    """
    with context.store.read_transaction() as uow:
        if uow.outbox.accounts.find_pause(context.account) is not None:
            return None
        ready_intent = _find_call_ready_to_take_over(uow, context)
        unconfirmed_nonce = (
            None if ready_intent is None else find_takeover_target(uow, context, ready_intent)
        )
    if ready_intent is None or unconfirmed_nonce is None:
        return None
    can_take_over_nonce = context.registry.get_kind(ready_intent).can_take_over(
        unconfirmed_nonce.intent, ready_intent
    )
    with context.store.read_transaction() as uow:
        late_decision = decide_on_deadline(context, uow, ready_intent, heads)
    if late_decision is not None:
        return apply_decision(context, ready_intent, late_decision)
    if not can_take_over_nonce or is_nonce_mined(
        context, unconfirmed_nonce.slot, unconfirmed_nonce.attempts
    ):
        return None
    return _replace_call(context, unconfirmed_nonce, ready_intent, heads)


def prepare_noop_replacement(context: AccountContext, intent_id: int) -> Replacement:
    """Prepare a no-op that takes the nonce of a sent call, without writing anything.

    Raises:
        InputError: there is no such intent, the call is mined, has ended or was not sent yet, or a
            cap, a budget or the balance forbids the no-op.
        TransientError: no endpoint answers.
    """
    account = context.account
    context.sender_account.pool_view.check_chain(account.chain_id)
    with context.store.read_transaction() as uow:
        intent = load_requested_intent(uow, intent_id)
        slot = None if intent.nonce is None else uow.outbox.slots.find_slot(account, intent.nonce)
        attempts = [] if slot is None else uow.outbox.slots.list_attempts(slot)
    if slot is None or slot.state is not NonceState.LIVE or intent.id != slot.intent_id:
        raise InputError(
            f"cannot cancel intent {intent_id}: it is {intent.state} and has no pending "
            "transaction"
        )
    if not attempts or not attempts[-1].sends:
        raise InputError(
            f"cannot cancel intent {intent_id}: its transaction is not sent yet; try again once "
            "it has been sent"
        )
    unconfirmed_nonce = UnconfirmedNonce(slot, intent, attempts)
    check_nonce_not_mined(context, unconfirmed_nonce)
    replacement, cap_reason = _price_noop(context, unconfirmed_nonce)
    if replacement is None:
        raise InputError(
            f"cannot cancel the call with nonce {slot.nonce}, because a no-op in its place would "
            f"not be mined: {cap_reason}"
        )
    return replacement


def replace_expired_call(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, heads: Heads
) -> StepResult | None:
    """Give the nonce of an expired call to a no-op, or return None if a limit forbids it.

    The call would revert, which costs more gas than a no-op. Later nonces wait for this one.

    Raises:
        TransientError: no endpoint answers.
    """
    # A no-op below the market's fee would only use up one of the attempts.
    replacement, _ = _price_noop(context, unconfirmed_nonce, must_land=True)
    step_result = None if replacement is None else _send_noop(context, replacement, heads)
    FEE_CAPPED.labels(context.role).set(int(step_result is None))
    return step_result


def _price_noop(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, *, must_land: bool = False
) -> tuple[Replacement | None, str]:
    """Price a no-op that takes over a nonce; see `price_replacement`.

    Without a successful simulation, its gas limit is unknown, and it is not signed.
    """
    address = context.account.address
    self_call = SimulatedCall(address, address, "0x")
    preflight_result = preflight(
        context.sender_account.pool_view, self_call, context.registry.decode_refusal
    )
    if preflight_result.outcome is not PreflightOutcome.OK:
        return None, f"its simulation did not succeed ({preflight_result.reason})"
    # On some rollups, data is charged in gas. A plain transfer then costs more than 21,000 gas.
    gas_limit = (
        PLAIN_GAS if preflight_result.gas <= PLAIN_GAS else add_gas_margin(preflight_result.gas)
    )
    return price_replacement(context, unconfirmed_nonce, gas_limit, "0x", must_land=must_land)


def _replace_call(
    context: AccountContext,
    unconfirmed_nonce: UnconfirmedNonce,
    ready_intent: Intent,
    heads: Heads,
) -> StepResult | None:
    request, slot = ready_intent.request, unconfirmed_nonce.slot
    (check,) = preflight_calls(context, [ready_intent], heads, CallStage.SIGN)
    if not check.is_call_admissible:
        return defer_or_end_call(context, check, heads)
    gas_limit = compute_gas_limit(
        check.gas_estimate, request.calldata, fetch_block_gas_limit(context)
    )
    replacement = (
        None
        if gas_limit is None
        else price_replacement(context, unconfirmed_nonce, gas_limit, request.calldata)[0]
    )
    if replacement is None:
        FEE_CAPPED.labels(context.role).set(1)
        return None
    signed_call = sign_call(
        context, ready_intent, slot.nonce, replacement.fees, replacement.gas_limit
    )
    with context.write_transaction() as uow:
        # Check all conditions again in the transaction that reserves the cost and assigns the
        # nonce, because the database may have changed during the requests.
        if _find_call_ready_to_take_over(uow, context) != ready_intent:
            return None
        if find_takeover_target(uow, context, ready_intent) != unconfirmed_nonce:
            return None
        if replacement.max_cost > compute_nonce_budget(uow, context, slot):
            return None
        uow.outbox.intents.raise_reserved_cost(ready_intent, replacement.max_cost)
        _reassign_nonce(
            uow,
            context,
            unconfirmed_nonce,
            (ready_intent, signed_call, AttemptReason.REPLACEMENT),
            heads,
        )
    FEE_CAPPED.labels(context.role).set(0)
    detail = f"nonce {slot.nonce} of intent {unconfirmed_nonce.intent.id}"
    return StepResult(f"{request.kind} replaced", ready_intent.id, detail)


def replace_with_noop(
    context: AccountContext, noop_replacement: Replacement, heads: Heads
) -> StepResult:
    """Sign and send a prepared no-op.

    Either the call or the no-op is mined.

    Raises:
        InputError: the budgets were used up in the meantime.
    """
    step_result = _send_noop(context, noop_replacement, heads)
    if step_result is None:
        raise InputError(
            f"cannot cancel the call with nonce {noop_replacement.unconfirmed.slot.nonce}: the "
            "budgets of [limits] do not allow a no-op"
        )
    return step_result


def _send_noop(
    context: AccountContext, noop_replacement: Replacement, heads: Heads
) -> StepResult | None:
    """Sign, store and send a no-op, or return None if the budget is used up."""
    account = context.account
    unconfirmed_nonce = noop_replacement.unconfirmed
    gas_limit = noop_replacement.gas_limit
    fees = noop_replacement.fees
    slot = unconfirmed_nonce.slot
    request = CallRequest(
        account=account,
        # The no-op is a transfer of 0 wei to the account itself.
        contract=account.address,
        kind=NOOP,
        dedup_key=f"noop:nonce={slot.nonce}:after={len(unconfirmed_nonce.attempts)}",
        calldata="0x",
        priority=0,
    )
    planned_intent = _build_planned_intent(request)
    signed_call = sign_call(context, planned_intent, slot.nonce, fees, gas_limit)
    with context.write_transaction() as uow:
        intents = uow.outbox.intents
        if noop_replacement.max_cost > compute_nonce_budget(uow, context, slot):
            return None
        noop_intent = intents.get(intents.add(request, context.stamp) or 0)
        if noop_intent is None:
            raise FatalError(f"nonce {slot.nonce}: the outbox already has this no-op")
        intents.mark_ready(noop_intent, gas_limit, noop_replacement.max_cost, context.stamp)
        ready_noop = replace(noop_intent, state=IntentState.READY)
        _reassign_nonce(
            uow, context, unconfirmed_nonce, (ready_noop, signed_call, AttemptReason.NOOP), heads
        )
    return send_newest_attempt(context, slot, heads) or StepResult(
        "no-op signed", noop_intent.id, signed_call.tx_hash
    )


def _reassign_nonce(
    uow: UnitOfWork,
    context: AccountContext,
    unconfirmed_nonce: UnconfirmedNonce,
    successor: tuple[Intent, SignedCall, AttemptReason],
    heads: Heads,
) -> None:
    """Assign the nonce to another intent and store its signed bytes, in one commit."""
    intent, signed_call, reason = successor
    slots = uow.outbox.slots
    slots.replace_call(unconfirmed_nonce.slot, intent, heads.latest.number, context.stamp)
    slots.store_attempt(
        replace(unconfirmed_nonce.slot, intent_id=intent.id), signed_call, reason, context.stamp
    )
    # The replaced call counts as ended. If it is mined nevertheless, the indexer finds its events.
    context.registry.get_kind(unconfirmed_nonce.intent).on_closed(
        uow,
        unconfirmed_nonce.intent,
        f"{reason} of nonce {unconfirmed_nonce.slot.nonce}",
        replaced_by=intent,
    )


def _find_call_ready_to_take_over(uow: UnitOfWork, context: AccountContext) -> Intent | None:
    """Return the most urgent ready call that may take over a nonce, if there is one."""
    ready_intents = uow.outbox.intents.list_in_states(context.account, [IntentState.READY])
    return next(
        (intent for intent in ready_intents if context.registry.get_kind(intent).takes_over), None
    )


def _build_planned_intent(request: CallRequest) -> Intent:
    """Build the intent of a request that is not stored yet.

    The call can then be signed first.
    """
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
