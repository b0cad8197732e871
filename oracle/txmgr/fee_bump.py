"""Bumps the fee of the transaction that blocks the others.

The lowest nonce without a receipt gets a fee bump: the same nonce and call with higher fees.
Earlier attempts are still watched; one of them lands. See docs/explanation/transactions.md#fees.
"""

from typing import NamedTuple

from oracle.chain.heads import Heads
from oracle.errors import InputError
from oracle.rpc.fanout import number_of, understood
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import AttemptReason, NonceSlot, NonceState, PauseKind
from oracle.telemetry.txmgr_metrics import ATTEMPTS_EXHAUSTED, FEE_CAPPED
from oracle.txmgr.broadcaster import send_attempts
from oracle.txmgr.budget import gas_of_block, limit_for, nonce_budget
from oracle.txmgr.client.preflight import PreflightOutcome
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.inclusion_time import why_too_late
from oracle.txmgr.replacement_offer import TOO_LITTLE, Replacement, offer
from oracle.txmgr.signing_queue import signed_call
from oracle.txmgr.unconfirmed import UnconfirmedNonce, is_mined, refuse_mined

# An urgent call is bumped after this many blocks (docs/explanation/reports.md#when-to-publish).
_URGENT_BLOCKS = 2
# Gas is estimated again after this many blocks, because the state has changed.
_OLD_BLOCKS = 10
# A pool refused the newest attempt for its fee or its gas, so waiting is useless.
_REFUSED = TOO_LITTLE | {SendOutcome.INTRINSIC.value}


class _Gas(NamedTuple):
    """The gas limit of a fee bump, or None with a `reason` if the call would fail.

    `is_malformed`: the call can never land as it is.
    """

    limit: int | None
    why: str = ""
    is_malformed: bool = False


def bump_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Sign a fee bump for the lowest unconfirmed nonce if it is due; return None if it is not."""
    with context.store.reading() as uow:
        is_paused = uow.outbox.accounts.paused_because(context.account) is not None
        waiting = None if is_paused else lowest(uow, context)
        may_bump = waiting is not None and _has_attempts_left(context, waiting)
        is_urgent = waiting is not None and _is_urgent(uow, context, waiting)
    if waiting is None or not may_bump:
        FEE_CAPPED.labels(context.role).set(0)
        if waiting is None and not is_paused:
            ATTEMPTS_EXHAUSTED.labels(context.role).set(0)
        return None
    if not _is_due(context, waiting, heads, is_urgent=is_urgent) or is_mined(context, waiting):
        return None
    deadline = waiting.intent.request.deadline
    with context.store.reading() as uow:
        late = why_too_late(context, uow, deadline, heads.latest.time)
    # A more expensive attempt would be too late as well, but later nonces can land only after this
    # one is used.
    if late is not None and not _is_in_the_way(context, waiting):
        return None
    gas = _gas(context, waiting, heads)
    if gas.is_malformed:
        _rest(context, gas.why)
    return None if gas.limit is None else _bump(context, waiting, gas.limit)


def bump_now(context: TxContext, heads: Heads, intent_id: int) -> StepResult:
    """Sign and send a fee bump at once, on an operator's request; the caps apply.

    Raises:
        InputError: see `prepare_bump`.
    """
    return bump(context, prepared_bump(context, heads, intent_id), heads)


def bump(context: TxContext, bumped: Replacement, heads: Heads) -> StepResult:
    """Sign and send a prepared fee bump.

    Raises:
        InputError: the budgets were used up in the meantime.
    """
    step = _sign_and_store_bump(context, bumped)
    if step is None:
        raise InputError(
            f"intent {bumped.waiting.intent.id} is not bumped: "
            "the budgets of [limits] were used up"
        )
    return send_newest(context, bumped.waiting.slot, heads) or step


def prepared_bump(context: TxContext, heads: Heads, intent_id: int) -> Replacement:
    """Return the fee bump of a call, gas and fees included, without writing anything.

    Raises:
        InputError: there is no such intent, it waits for no receipt or for a lower nonce, it is
            mined, it would fail, or a cap, a budget or the balance forbids the bump.
        TransientError: no endpoint answers.
    """
    context.publisher.lines.check_chain(context.account.chain_id)
    with context.store.reading() as uow:
        waiting = lowest(uow, context)
        intent = uow.outbox.intents.named(intent_id)
    if intent is None:
        raise InputError(f"there is no intent {intent_id}; `qos-oracle outbox list` shows them")
    if waiting is None or intent.nonce is None or intent.nonce < waiting.slot.nonce:
        raise InputError(f"intent {intent_id} is {intent.state}: nothing of it waits for a block")
    if waiting.intent.id != intent_id:
        raise InputError(
            f"intent {intent_id} waits for nonce {waiting.slot.nonce}: bump intent "
            f"{waiting.intent.id} first"
        )
    refuse_mined(context, waiting)
    gas = _gas(context, waiting, heads)
    if gas.limit is None:
        raise InputError(f"intent {intent_id} is not bumped: {gas.why}")
    found = offer(context, waiting, gas.limit, waiting.intent.request.calldata, must_land=True)
    if found.fees is None:
        raise InputError(f"intent {intent_id} is not bumped: {found.why_none}")
    return Replacement(waiting, gas.limit, found.fees, found.beside)


def lowest(uow: UnitOfWork, context: TxContext) -> UnconfirmedNonce | None:
    """Return the lowest nonce without a receipt if its newest attempt was sent, else None."""
    for slot in uow.outbox.slots.watched(context.account):
        if slot.state is NonceState.MINED:
            continue
        intent = uow.outbox.intents.named(slot.intent_id)
        attempts = uow.outbox.slots.attempts(slot)
        if intent is None or slot.state is NonceState.OPEN or not attempts[-1].sends:
            return None
        return UnconfirmedNonce(slot, intent, attempts)
    return None


def send_newest(context: TxContext, slot: NonceSlot, heads: Heads) -> StepResult | None:
    """Send the newest attempt of a nonce if it was not sent yet."""
    with context.store.reading() as uow:
        attempts = uow.outbox.slots.attempts(slot)
    if not attempts or attempts[-1].sends:
        return None
    return send_attempts(context, [(slot, attempts[-1])], heads)


def _is_urgent(uow: UnitOfWork, context: TxContext, waiting: UnconfirmedNonce) -> bool:
    return context.registry.kind_of(waiting.intent).is_urgent(uow, waiting.intent)


def _has_attempts_left(context: TxContext, waiting: UnconfirmedNonce) -> bool:
    """Return whether another attempt may be signed.

    Else the best attempt is sent again and again.
    """
    is_left = len(waiting.attempts) < context.sending.max_attempts
    ATTEMPTS_EXHAUSTED.labels(context.role).set(int(not is_left))
    return is_left


def _is_due(
    context: TxContext, waiting: UnconfirmedNonce, heads: Heads, *, is_urgent: bool
) -> bool:
    waited, answer = heads.latest.number - waiting.sent_block, waiting.newest.last_error_class
    if answer == SendOutcome.NONCE_TOO_LOW.value:
        # One of our transactions or a foreign one has been mined; the confirmer will record it.
        return False
    if answer in _REFUSED:
        return waited >= 1
    if is_urgent and waited >= _URGENT_BLOCKS:
        return True
    return waited >= context.sending.bump_blocks and _has_waited_seconds(context, waiting, heads)


def _has_waited_seconds(context: TxContext, waiting: UnconfirmedNonce, heads: Heads) -> bool:
    """Return whether `bump_seconds` have passed in chain time; the local clock may jump."""
    block = context.publisher.lines.ask("eth_getBlockByNumber", hex(waiting.sent_block), False)
    if not isinstance(block, dict):
        return False
    with understood("a block"):
        return heads.latest.time - number_of(block["timestamp"]) >= context.sending.bump_seconds


def _gas(context: TxContext, waiting: UnconfirmedNonce, heads: Heads) -> _Gas:
    """Return the gas of the fee bump: unchanged, or estimated again if it is old or was refused."""
    now, request = waiting.newest.signed.gas_limit, waiting.intent.request
    is_refused = waiting.newest.last_error_class == SendOutcome.INTRINSIC.value
    first = waiting.attempts[0].first_sent_block or 0
    verdict = context.preflight(request.calldata, request.contract)
    if verdict.outcome is PreflightOutcome.REFUSED and not _is_in_the_way(context, waiting):
        # The call fails in the present state, and a higher fee makes it fail sooner. Another call
        # or `outbox cancel` takes its nonce; a reorg may make the call valid again.
        return _Gas(None, f"it would fail ({verdict.reason}); `outbox cancel` frees its nonce")
    if not is_refused and heads.latest.number - first < _OLD_BLOCKS:
        return _Gas(now)
    if verdict.outcome is not PreflightOutcome.OK:
        unknown = "it was refused for its gas, and nobody can tell how much it takes"
        return _Gas(None, unknown) if is_refused else _Gas(now)
    most = gas_of_block(context)
    limit = limit_for(verdict.gas, request.calldata, most)
    if not is_refused:
        return _Gas(max(limit or 0, now))
    return _more_gas(waiting, limit, most)


def _more_gas(waiting: UnconfirmedNonce, limit: int | None, most: int) -> _Gas:
    """Return a new gas limit for a call that was refused for its gas."""
    now = waiting.newest.signed.gas_limit
    if limit is not None and limit <= now <= most:
        # The estimates of the endpoints are too low for their own pools.
        limit = min(now + now // 4, most)
    if limit is not None and limit != now:
        return _Gas(limit)
    text = waiting.newest.last_error_text or "refused for its gas"
    reason = f"intent {waiting.intent.id}: {text}; `outbox cancel` frees its nonce"
    return _Gas(None, reason, is_malformed=True)


def _rest(context: TxContext, reason: str) -> None:
    """Pause the account: no block accepts this call, and all others wait behind it."""
    with context.writing() as uow:
        uow.outbox.accounts.pause(context.account, PauseKind.MALFORMED, reason, context.stamp)


def _is_in_the_way(context: TxContext, waiting: UnconfirmedNonce) -> bool:
    with context.store.reading() as uow:
        watched = uow.outbox.slots.watched(context.account)
    return any(one.nonce > waiting.slot.nonce for one in watched)


def _bump(context: TxContext, waiting: UnconfirmedNonce, limit: int) -> StepResult | None:
    """Sign the fee bump within every limit; return None if no limit allows the minimum raise."""
    found = offer(context, waiting, limit, waiting.intent.request.calldata)
    fees, beside = found.fees, found.beside
    step = (
        None
        if fees is None
        else _sign_and_store_bump(context, Replacement(waiting, limit, fees, beside))
    )
    FEE_CAPPED.labels(context.role).set(int(step is None))
    return step


def _sign_and_store_bump(context: TxContext, bumped: Replacement) -> StepResult | None:
    """Sign and store a fee bump; return None if the budget is used up."""
    slot, intent, limit, fees = (
        bumped.waiting.slot,
        bumped.waiting.intent,
        bumped.gas_limit,
        bumped.fees,
    )
    signed = signed_call(context, intent, slot.nonce, fees, limit)
    with context.writing() as uow:
        # Checked again in the commit that reserves the cost.
        if bumped.cost > nonce_budget(uow, context, slot):
            return None
        uow.outbox.intents.reserve(intent, bumped.cost)
        uow.outbox.slots.sign(slot, signed, AttemptReason.BUMP, context.stamp)
    return StepResult(
        f"{intent.request.kind} bumped", intent.id, f"{signed.tx_hash}, {bumped.text}"
    )
