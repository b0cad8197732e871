"""Checks and prices calls once more after they got a nonce, then signs and stores them.

Calls are signed in the order of their nonces.
"""

from collections.abc import Sequence
from itertools import takewhile

from oracle.chain.heads import Heads
from oracle.errors import TransientError
from oracle.signing.signer import (
    Fees,
    SignedBytes,
    SignerRefusedError,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    WRONG_SIGNATURE_PREFIX,
    AttemptReason,
    Intent,
    IntentState,
    NonceSlot,
    NonceState,
    PauseKind,
    SignedCall,
)
from oracle.txmgr.admission import AdmissionCheck, defer_or_end_call, preflight_calls
from oracle.txmgr.budget import Budget, fetch_l1_cost
from oracle.txmgr.call_registry import CallStage
from oracle.txmgr.context import AccountContext, StepResult, format_name_counts
from oracle.txmgr.deferral import defer_call

_AssignedCall = tuple[NonceSlot, Intent]
_SIGNER_REFUSED = "the signer refused"


def sign_transaction_as_payer(
    context: AccountContext, transaction: TransactionRequest
) -> SignedBytes:
    """Sign a transaction with the account's key, while no database transaction is open.

    Raises:
        TransientError: the key cannot be reached, refused, or returned a wrong signature. In the
            last two cases the account is now paused.
    """
    backoff = context.sender_account.payer_backoff
    try:
        signed_transaction = context.sender_account.payer.sign_transaction(transaction)
    except (SignerRefusedError, WrongSignatureError) as error:
        backoff.start(None)
        is_signature_wrong = isinstance(error, WrongSignatureError)
        pause_reason = (
            f"{WRONG_SIGNATURE_PREFIX if is_signature_wrong else _SIGNER_REFUSED}: {error}"
        )
        with context.write_transaction() as uow:
            # An earlier pause is kept, because an operator has to review its reason.
            if uow.outbox.accounts.find_pause(context.account) is None:
                uow.outbox.accounts.pause(
                    context.account, PauseKind.SIGNER, pause_reason, context.stamp
                )
        raise TransientError(f"{context.account.address} is paused: {pause_reason}") from error
    backoff.reset()
    return signed_transaction


def can_use_account_key(context: AccountContext) -> bool:
    """Return whether the account's key may be used now.

    The key may not be used during its backoff, or while the account is paused for any reason. A
    call may have had its nonce for hours if the signer could not be reached.
    """
    if context.sender_account.payer_backoff.get_remaining_seconds() > 0:
        return False
    with context.store.read_transaction() as uow:
        return uow.outbox.accounts.find_pause(context.account) is None


def find_blocking_pause_reason(context: AccountContext) -> str | None:
    """Return why an account is paused until an operator acts, or None if it is not.

    Pauses that end automatically and pauses that an operator requested are disregarded.
    """
    with context.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(context.account)
    if pause is None or pause.kind is PauseKind.OPERATOR or pause.is_temporary:
        return None
    return f"{context.account.address} sends nothing ({pause.kind.value}): {pause.reason}"


def resume_account_after_refusal(context: AccountContext) -> StepResult | None:
    """Resume an account when its key may be used again after it refused to sign."""
    with context.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(context.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not pause.is_temporary:
        return None
    if context.sender_account.payer_backoff.get_remaining_seconds() > 0:
        return None
    with context.write_transaction() as uow:
        uow.outbox.accounts.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"the key of {context.account.address} is used again")


def sign_assigned_calls(context: AccountContext, heads: Heads) -> StepResult | None:
    """Sign calls in the order of their nonces.

    Signing stops at the first call that must not be signed.
    """
    with context.store.read_transaction() as uow:
        assigned_calls = _load_unsigned_calls(uow, context)
        vacant_slot = (
            uow.outbox.slots.find_vacant_slot(context.account) if assigned_calls else None
        )
        # The reserved cost exceeds a budget if the operator has lowered it since the assignment.
        is_within_budget = (
            not assigned_calls or Budget.from_outbox(uow, context, balance=0).remaining >= 0
        )
    if not assigned_calls or not can_use_account_key(context):
        return None
    if vacant_slot is not None and vacant_slot.nonce < assigned_calls[0][0].nonce:
        return _release_nonces(context, assigned_calls, heads)
    assigned_calls = assigned_calls[: context.batch_size]
    admission_checks = preflight_calls(
        context, [intent for _, intent in assigned_calls], heads, CallStage.SIGN
    )
    if not admission_checks[0].is_call_admissible:
        return defer_or_end_call(context, admission_checks[0], heads)
    signable_calls = [
        assigned_call
        for assigned_call, _ in takewhile(
            _is_call_within_limits, zip(assigned_calls, admission_checks, strict=True)
        )
    ]
    fees = (
        context.quote_fees(
            min(
                _compute_max_fee_per_gas(context, assigned_call)
                for _, assigned_call in signable_calls
            )
        )
        if signable_calls and is_within_budget
        else None
    )
    if fees is None:
        reason = (
            "fee_above_reserve",
            "gas or fees rose above the reserved cost, or [limits] were lowered below it",
        )
        return defer_call(context, assigned_calls[0][1], heads, reason)
    slots_with_calls = [
        (slot, sign_call(context, intent, slot.nonce, fees)) for slot, intent in signable_calls
    ]
    with context.write_transaction() as uow:
        for slot, call in slots_with_calls:
            uow.outbox.slots.store_attempt(slot, call, AttemptReason.FIRST, context.stamp)
    return _build_signed_result(signable_calls, slots_with_calls[0][1])


def _build_signed_result(
    signed_calls: Sequence[_AssignedCall], first_signed_call: SignedCall
) -> StepResult:
    intent = signed_calls[0][1]
    if len(signed_calls) == 1:
        return StepResult(f"{intent.request.kind} signed", intent.id, first_signed_call.tx_hash)
    return StepResult(
        "signed",
        intent.id,
        format_name_counts([assigned_intent.request.kind for _, assigned_intent in signed_calls]),
    )


def _is_call_within_limits(call_and_check: tuple[_AssignedCall, AdmissionCheck]) -> bool:
    (_, intent), check = call_and_check
    return check.is_call_admissible and check.gas_estimate <= (intent.gas_limit or 0)


def _compute_max_fee_per_gas(context: AccountContext, intent: Intent) -> int:
    """Compute the reserved fee in wei per gas, without a rollup's data fee.

    The operator may have lowered the limit of a transaction's cost since the call got its nonce.
    """
    gas_limit = intent.gas_limit or 1
    max_cost = min(intent.max_cost_wei or 0, context.sender_account.caps.cost_per_transaction)
    return (max_cost - fetch_l1_cost(context, intent.request.calldata, gas_limit)) // gas_limit


def _load_unsigned_calls(uow: UnitOfWork, context: AccountContext) -> list[_AssignedCall]:
    """Load the calls with a nonce but without signed bytes, the lowest nonce first."""
    assigned_intents = uow.outbox.intents.list_in_states(context.account, [IntentState.ASSIGNED])
    intent_by_nonce = {intent.nonce: intent for intent in assigned_intents}
    slots = uow.outbox.slots.list_unfinished(context.account) if assigned_intents else []
    return [
        (slot, intent_by_nonce[slot.nonce])
        for slot in slots
        if slot.state is NonceState.OPEN
        and slot.nonce in intent_by_nonce
        and not uow.outbox.slots.list_attempts(slot)
    ]


def _release_nonces(
    context: AccountContext, assigned_calls: Sequence[_AssignedCall], heads: Heads
) -> StepResult:
    """Release the nonces above an unused one, so that their calls get the lowest nonces."""
    reason = ("lower_nonce", "a lower nonce became free")
    stamp = context.stamp
    with context.write_transaction() as uow:
        for _, intent in assigned_calls:
            uow.outbox.intents.postpone_intent(intent, heads.latest.time, reason, stamp)
    return StepResult(
        "gave back",
        assigned_calls[0][1].id,
        format_name_counts(
            [assigned_intent.request.kind for _, assigned_intent in assigned_calls]
        ),
    )


def sign_call(
    context: AccountContext, intent: Intent, nonce: int, fees: Fees, gas_limit: int = 0
) -> SignedCall:
    """Sign an intent's call with this nonce.

    The caller must store the bytes at once. If `gas_limit` is 0, the intent's own limit is used.
    Do not call this function inside a database transaction.

    Raises:
        TransientError: the key returned no signature; see `sign_transaction_as_payer`.
    """
    request = intent.request
    gas_limit = gas_limit or intent.gas_limit or 0
    context.sender_account.pool_view.check_chain(request.account.chain_id)
    signed_transaction = sign_transaction_as_payer(
        context,
        TransactionRequest(
            request.account.chain_id, nonce, request.contract, request.calldata, gas_limit, fees
        ),
    )
    return SignedCall(
        signed_transaction.hash, signed_transaction.raw, fees.max_fee, fees.tip, gas_limit
    )
