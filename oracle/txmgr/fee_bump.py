"""Bumps the fee of the transaction that blocks all later transactions.

A fee bump is another transaction for the lowest nonce without a receipt, with the same call and
higher fees. Earlier attempts are still watched, because any one of them may be mined. See
docs/explanation/transactions.md#fees.
"""

from typing import NamedTuple

from oracle.chain.heads import Heads
from oracle.errors import InputError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import AttemptReason, NonceState, PauseKind
from oracle.telemetry.txmgr_metrics import ATTEMPTS_EXHAUSTED, FEE_CAPPED
from oracle.txmgr.broadcaster import send_newest_attempt
from oracle.txmgr.budget import compute_gas_limit, compute_nonce_budget, fetch_block_gas_limit
from oracle.txmgr.call_replacement import replace_expired_call
from oracle.txmgr.client.preflight import PreflightOutcome
from oracle.txmgr.client.send_raw import SendOutcome
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.deferral import find_deadline_obstacle
from oracle.txmgr.signing_queue import sign_call
from oracle.txmgr.unconfirmed import (
    UNDERPRICED,
    Replacement,
    UnconfirmedNonce,
    check_nonce_not_mined,
    is_nonce_mined,
    load_requested_intent,
    price_replacement,
)

# Number of blocks after which an urgent call is bumped
# (docs/explanation/reports.md#when-to-publish).
_URGENT_BLOCKS = 2
# Number of blocks after which gas is estimated again, because the state has changed since.
_REESTIMATE_BLOCKS = 10
# Errors by which the pools refused the newest attempt because of its fee or gas limit. Waiting
# does not help in these cases.
_REFUSED = UNDERPRICED | {SendOutcome.INTRINSIC.value}


class _BumpGas(NamedTuple):
    """The gas limit of a fee bump.

    The limit is None, with a `reason`, if the call would fail. `is_malformed` is whether no block
    can include the call, whatever its fee.
    """

    limit: int | None
    reason: str = ""
    is_malformed: bool = False


def bump_lowest_nonce(context: AccountContext, heads: Heads) -> StepResult | None:
    """Sign a fee bump for the lowest unconfirmed nonce, or return None if none is due."""
    with context.store.read_transaction() as uow:
        is_paused = uow.outbox.accounts.find_pause(context.account) is not None
        unconfirmed_nonce = None if is_paused else find_lowest_unconfirmed(uow, context)
        has_attempts_left = unconfirmed_nonce is not None and _has_attempts_left(
            context, unconfirmed_nonce
        )
        is_urgent = unconfirmed_nonce is not None and _is_bump_urgent(
            uow, context, unconfirmed_nonce
        )
    if unconfirmed_nonce is None or not has_attempts_left:
        FEE_CAPPED.labels(context.role).set(0)
        if unconfirmed_nonce is None and not is_paused:
            ATTEMPTS_EXHAUSTED.labels(context.role).set(0)
        return None
    if not _is_bump_due(context, unconfirmed_nonce, heads, is_urgent=is_urgent) or is_nonce_mined(
        context, unconfirmed_nonce.slot, unconfirmed_nonce.attempts
    ):
        return None
    deadline = unconfirmed_nonce.intent.request.deadline
    with context.store.read_transaction() as uow:
        late_reason = find_deadline_obstacle(context, uow, deadline, heads.latest.time)
        cursor = uow.cursor.get()
    # A call past its deadline is bumped only if higher nonces wait for it. They cannot be mined
    # before this nonce is used.
    if late_reason is not None and not _is_blocking_later_nonces(context, unconfirmed_nonce):
        return None
    # The heads come from a single endpoint, which may report a later time.
    if (
        deadline is not None
        and cursor is not None
        and deadline < min(cursor.time, heads.final.time)
    ):
        return replace_expired_call(context, unconfirmed_nonce, heads)
    gas = _compute_bump_gas(context, unconfirmed_nonce, heads)
    if gas.is_malformed:
        _pause_account(context, gas.reason)
    return (
        None
        if gas.limit is None
        else _bump_fee_within_limits(context, unconfirmed_nonce, gas.limit)
    )


def send_fee_bump(context: AccountContext, replacement: Replacement, heads: Heads) -> StepResult:
    """Sign and send a prepared fee bump.

    Raises:
        InputError: the budgets were used up in the meantime.
    """
    step_result = _sign_and_store_bump(context, replacement)
    if step_result is None:
        raise InputError(
            f"cannot bump intent {replacement.unconfirmed.intent.id}: "
            "the budgets of [limits] were used up"
        )
    return send_newest_attempt(context, replacement.unconfirmed.slot, heads) or step_result


def prepare_fee_bump(context: AccountContext, heads: Heads, intent_id: int) -> Replacement:
    """Compute gas limit and fees of a fee bump for a call, without writing anything.

    Raises:
        InputError: there is no such intent, its call is not pending, waits for a lower nonce, is
            mined or would fail, or a cap, a budget or the balance forbids the bump.
        TransientError: no endpoint answers.
    """
    context.sender_account.pool_view.check_chain(context.account.chain_id)
    with context.store.read_transaction() as uow:
        unconfirmed_nonce = find_lowest_unconfirmed(uow, context)
        intent = load_requested_intent(uow, intent_id)
    if (
        unconfirmed_nonce is None
        or intent.nonce is None
        or intent.nonce < unconfirmed_nonce.slot.nonce
    ):
        raise InputError(
            f"cannot bump intent {intent_id}: it is {intent.state} and has no pending transaction"
        )
    if unconfirmed_nonce.intent.id != intent_id:
        raise InputError(
            f"cannot bump intent {intent_id}: it waits for nonce {unconfirmed_nonce.slot.nonce}; "
            f"bump intent {unconfirmed_nonce.intent.id} first"
        )
    check_nonce_not_mined(context, unconfirmed_nonce)
    gas = _compute_bump_gas(context, unconfirmed_nonce, heads)
    if gas.limit is None:
        raise InputError(f"cannot bump intent {intent_id}: {gas.reason}")
    replacement, cap_reason = price_replacement(
        context,
        unconfirmed_nonce,
        gas.limit,
        unconfirmed_nonce.intent.request.calldata,
        must_land=True,
    )
    if replacement is None:
        raise InputError(f"cannot bump intent {intent_id}: {cap_reason}")
    return replacement


def find_lowest_unconfirmed(uow: UnitOfWork, context: AccountContext) -> UnconfirmedNonce | None:
    """Return the lowest nonce without a receipt, or None if it was not sent yet.

    A nonce was sent when its newest attempt was.
    """
    for slot in uow.outbox.slots.list_unfinished(context.account):
        if slot.state is NonceState.MINED:
            continue
        intent = uow.outbox.intents.get(slot.intent_id)
        attempts = uow.outbox.slots.list_attempts(slot)
        if intent is None or slot.state is NonceState.OPEN or not attempts[-1].sends:
            return None
        return UnconfirmedNonce(slot, intent, attempts)
    return None


def _is_bump_urgent(
    uow: UnitOfWork, context: AccountContext, unconfirmed_nonce: UnconfirmedNonce
) -> bool:
    return context.registry.get_kind(unconfirmed_nonce.intent).is_urgent(
        uow, unconfirmed_nonce.intent
    )


def _has_attempts_left(context: AccountContext, unconfirmed_nonce: UnconfirmedNonce) -> bool:
    """Return whether another attempt may be signed for the nonce.

    After the maximum number of attempts, the signed ones are still sent again.
    """
    has_attempts = len(unconfirmed_nonce.attempts) < context.send_settings.max_attempts
    ATTEMPTS_EXHAUSTED.labels(context.role).set(int(not has_attempts))
    return has_attempts


def _is_bump_due(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, heads: Heads, *, is_urgent: bool
) -> bool:
    waited_blocks = heads.latest.number - unconfirmed_nonce.sent_block
    error_class = unconfirmed_nonce.newest_attempt.last_error_class
    if error_class == SendOutcome.NONCE_TOO_LOW.value:
        # A transaction with this nonce was mined. The confirmer will find and record it.
        return False
    if waited_blocks < 0:
        # The endpoint that reported the head at the broadcast invented it, or this endpoint is
        # behind.
        return _has_clock_interval_passed(context, unconfirmed_nonce)
    if error_class in _REFUSED:
        return waited_blocks >= 1
    if is_urgent and waited_blocks >= _URGENT_BLOCKS:
        return True
    return waited_blocks >= context.send_settings.bump_blocks and _has_bump_interval_passed(
        context, unconfirmed_nonce, heads
    )


def _has_bump_interval_passed(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, heads: Heads
) -> bool:
    """Return whether `bump_seconds` of chain time have passed since the last attempt.

    The time of the attempt is that of an indexed block, because an endpoint that has stalled lacks
    the newest blocks. While the index is behind the head, it lacks the block of the attempt, and
    an earlier block would make the attempt seem too old. The time of the next indexed block is
    used instead, or this machine's clock if there is none yet.
    """
    with context.store.read_transaction() as uow:
        is_pruned = uow.blocks.find_highest_up_to(unconfirmed_nonce.sent_block) is None
        block = uow.blocks.find_lowest_from(unconfirmed_nonce.sent_block)
    if is_pruned:
        # A block that was pruned is older than the final block.
        return True
    if block is None:
        return _has_clock_interval_passed(context, unconfirmed_nonce)
    return heads.latest.time - block.time >= context.send_settings.bump_seconds


def _has_clock_interval_passed(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce
) -> bool:
    """Return whether `bump_seconds` of this machine's time have passed since the last attempt."""
    sent_at = unconfirmed_nonce.newest_attempt.first_sent_at or 0
    return context.clock() - sent_at >= context.send_settings.bump_seconds


def _compute_bump_gas(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, heads: Heads
) -> _BumpGas:
    """Return the gas limit for a fee bump.

    The current limit is replaced if it is old or was refused.
    """
    current_limit = unconfirmed_nonce.newest_attempt.signed.gas_limit
    request = unconfirmed_nonce.intent.request
    was_gas_too_low = (
        unconfirmed_nonce.newest_attempt.last_error_class == SendOutcome.INTRINSIC.value
    )
    first_sent_block = unconfirmed_nonce.attempts[0].first_sent_block or 0
    preflight_result = context.preflight(request.calldata, request.contract)
    if preflight_result.outcome is PreflightOutcome.REFUSED and not _is_blocking_later_nonces(
        context, unconfirmed_nonce
    ):
        # The call would revert now, and a higher fee would only make it revert sooner. The nonce
        # can be used by another call, or by `outbox cancel`. A reorg may make the call valid
        # again.
        fail_reason = f"the call would fail ({preflight_result.reason})"
        return _BumpGas(None, f"{fail_reason}; `outbox cancel` frees its nonce")
    if not was_gas_too_low and heads.latest.number - first_sent_block < _REESTIMATE_BLOCKS:
        return _BumpGas(current_limit)
    if preflight_result.outcome is not PreflightOutcome.OK:
        unknown_reason = "a pool refused its gas limit, and no endpoint can estimate its gas"
        return _BumpGas(None, unknown_reason) if was_gas_too_low else _BumpGas(current_limit)
    block_gas_limit = fetch_block_gas_limit(context)
    new_limit = compute_gas_limit(preflight_result.gas, request.calldata, block_gas_limit)
    if not was_gas_too_low:
        return _BumpGas(max(new_limit or 0, current_limit))
    return _compute_raised_gas_limit(unconfirmed_nonce, new_limit, block_gas_limit)


def _compute_raised_gas_limit(
    unconfirmed_nonce: UnconfirmedNonce, new_limit: int | None, block_gas_limit: int
) -> _BumpGas:
    """Compute a new gas limit for a call whose gas limit a pool refused."""
    current_limit = unconfirmed_nonce.newest_attempt.signed.gas_limit
    if new_limit is not None and new_limit <= current_limit <= block_gas_limit:
        # The pools require more gas than their own endpoints estimate. Raise the limit by a
        # quarter.
        new_limit = min(current_limit + current_limit // 4, block_gas_limit)
    if new_limit is not None and new_limit != current_limit:
        return _BumpGas(new_limit)
    text = unconfirmed_nonce.newest_attempt.last_error_text or "refused for its gas"
    reason = f"intent {unconfirmed_nonce.intent.id}: {text}; `outbox cancel` frees its nonce"
    return _BumpGas(None, reason, is_malformed=True)


def _pause_account(context: AccountContext, reason: str) -> None:
    """Pause the account because no block accepts this call.

    All later calls depend on it.
    """
    with context.write_transaction() as uow:
        uow.outbox.accounts.pause(context.account, PauseKind.MALFORMED, reason, context.stamp)


def _is_blocking_later_nonces(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce
) -> bool:
    with context.store.read_transaction() as uow:
        unfinished_slots = uow.outbox.slots.list_unfinished(context.account)
    return any(slot.nonce > unconfirmed_nonce.slot.nonce for slot in unfinished_slots)


def _bump_fee_within_limits(
    context: AccountContext, unconfirmed_nonce: UnconfirmedNonce, gas_limit: int
) -> StepResult | None:
    """Sign a fee bump within all limits.

    Return None if a limit forbids the minimum raise.
    """
    replacement, _ = price_replacement(
        context, unconfirmed_nonce, gas_limit, unconfirmed_nonce.intent.request.calldata
    )
    step_result = None if replacement is None else _sign_and_store_bump(context, replacement)
    FEE_CAPPED.labels(context.role).set(int(step_result is None))
    return step_result


def _sign_and_store_bump(context: AccountContext, replacement: Replacement) -> StepResult | None:
    """Sign and store a fee bump, or return None if the budget is used up."""
    slot = replacement.unconfirmed.slot
    intent = replacement.unconfirmed.intent
    gas_limit = replacement.gas_limit
    fees = replacement.fees
    signed_call = sign_call(context, intent, slot.nonce, fees, gas_limit)
    with context.write_transaction() as uow:
        # Check the budget again in the transaction that reserves the cost.
        if replacement.max_cost > compute_nonce_budget(uow, context, slot):
            return None
        uow.outbox.intents.raise_reserved_cost(intent, replacement.max_cost)
        uow.outbox.slots.store_attempt(slot, signed_call, AttemptReason.BUMP, context.stamp)
    return StepResult(
        f"{intent.request.kind} bumped",
        intent.id,
        f"{signed_call.tx_hash}, {replacement.fee_text}",
    )
