"""Checks and prices calls that have a nonce once more, signs them and stores the signed bytes.

No nonce is signed above an unsigned one.
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
    WRONG_SIGNATURE,
    AttemptReason,
    Intent,
    IntentState,
    NonceSlot,
    NonceState,
    PauseKind,
    SignedCall,
)
from oracle.txmgr.admission import AdmissionCheck, defer_or_end_call, preflight_calls
from oracle.txmgr.budget import l1_cost
from oracle.txmgr.call_registry import CallStage
from oracle.txmgr.context import StepResult, TxContext, counted
from oracle.txmgr.deferral import wait

# A nonce slot and the call that it is assigned to.
_Work = tuple[NonceSlot, Intent]
_REFUSED = "the signer refused"


def sign_as_payer(context: TxContext, transaction: TransactionRequest) -> SignedBytes:
    """Return the signed transaction. Call it outside of a database transaction.

    Raises:
        TransientError: the key cannot be reached, refused, or returned a wrong signature; the
            account is paused then, and nothing was stored.
    """
    rest = context.publisher.payer_backoff
    try:
        signed = context.publisher.payer.sign_transaction(transaction)
    except (SignerRefusedError, WrongSignatureError) as error:
        rest.begin(None)
        is_wrong = isinstance(error, WrongSignatureError)
        reason = f"{WRONG_SIGNATURE if is_wrong else _REFUSED}: {error}"
        with context.writing() as uow:
            # The first reason is kept, because an operator has to review it.
            if uow.outbox.accounts.paused_because(context.account) is None:
                uow.outbox.accounts.pause(context.account, PauseKind.SIGNER, reason, context.stamp)
        raise TransientError(f"{context.account.address} rests: {reason}") from error
    rest.end()
    return signed


def may_sign(context: TxContext) -> bool:
    """Return whether the key may be used: it is not backing off and not paused for an operator."""
    if context.publisher.payer_backoff.left() > 0:
        return False
    with context.store.reading() as uow:
        pause = uow.outbox.accounts.paused_because(context.account)
    return pause is None or pause.kind not in {PauseKind.SIGNER, PauseKind.FOREIGN}


def backoff_reason(context: TxContext) -> str | None:
    """Return why an account is paused until an operator acts, or None if it is not.

    Pauses that end automatically, and those that an operator requested, are left out.
    """
    with context.store.reading() as uow:
        pause = uow.outbox.accounts.paused_because(context.account)
    if pause is None or pause.kind is PauseKind.OPERATOR or pause.is_temporary:
        return None
    return f"{context.account.address} sends nothing ({pause.kind.value}): {pause.reason}"


def resume_refused(context: TxContext) -> StepResult | None:
    """End the pause of a key that refused, once its backoff is over."""
    with context.store.reading() as uow:
        pause = uow.outbox.accounts.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not pause.is_temporary:
        return None
    if context.publisher.payer_backoff.left() > 0:
        return None
    with context.writing() as uow:
        uow.outbox.accounts.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"the signer of {context.account.address} is asked again")


def sign_assigned(context: TxContext, heads: Heads) -> StepResult | None:
    """Sign the lowest unsigned nonces, up to the first that must not be signed."""
    with context.store.reading() as uow:
        work = _unsigned(uow, context)
        vacant = uow.outbox.slots.vacant(context.account) if work else None
    if not work or not may_sign(context):
        return None
    if vacant is not None and vacant.nonce < work[0][0].nonce:
        return _give_back(context, work, heads)
    work = work[: context.batch_size]
    looks = preflight_calls(context, [intent for _, intent in work], heads, CallStage.SIGN)
    if not looks[0].is_good:
        return defer_or_end_call(context, looks[0], heads)
    good = [one for one, _ in takewhile(_is_within_limits, zip(work, looks, strict=True))]
    fees = context.fees(min(_most_per_gas(context, one) for _, one in good)) if good else None
    if fees is None:
        too_dear = ("fee_above_reserve", "gas or fees rose above the reserved cost")
        return wait(context, work[0][1], heads, too_dear)
    signed = [(slot, signed_call(context, intent, slot.nonce, fees)) for slot, intent in good]
    with context.writing() as uow:
        for slot, call in signed:
            uow.outbox.slots.sign(slot, call, AttemptReason.FIRST, context.stamp)
    return _step(good, signed[0][1])


def _step(good: Sequence[_Work], first: SignedCall) -> StepResult:
    intent = good[0][1]
    if len(good) == 1:
        return StepResult(f"{intent.request.kind} signed", intent.id, first.tx_hash)
    return StepResult("signed", intent.id, counted([one.request.kind for _, one in good]))


def _is_within_limits(pair: tuple[_Work, AdmissionCheck]) -> bool:
    (_, intent), look = pair
    return look.is_good and look.gas <= (intent.gas_limit or 0)


def _most_per_gas(context: TxContext, intent: Intent) -> int:
    """Return the reserved fee per gas, without the rollup's charge for data."""
    limit = intent.gas_limit or 1
    return ((intent.max_cost_wei or 0) - l1_cost(context, intent.request.calldata, limit)) // limit


def _unsigned(uow: UnitOfWork, context: TxContext) -> list[_Work]:
    """Return the nonces without signed bytes and their calls, the lowest nonce first."""
    assigned = uow.outbox.intents.in_states(context.account, [IntentState.ASSIGNED])
    by_nonce = {intent.nonce: intent for intent in assigned}
    slots = uow.outbox.slots.watched(context.account) if assigned else []
    return [
        (slot, by_nonce[slot.nonce])
        for slot in slots
        if slot.state is NonceState.OPEN
        and slot.nonce in by_nonce
        and not uow.outbox.slots.attempts(slot)
    ]


def _give_back(context: TxContext, work: Sequence[_Work], heads: Heads) -> StepResult:
    """Release the nonces above a vacant one; their calls get the lowest nonces again."""
    why = ("lower_nonce", "a lower nonce became free")
    stamp = context.stamp
    with context.writing() as uow:
        for _, intent in work:
            uow.outbox.intents.postpone(intent, heads.latest.time, why, stamp)
    return StepResult("gave back", work[0][1].id, counted([one.request.kind for _, one in work]))


def signed_call(
    context: TxContext, intent: Intent, nonce: int, fees: Fees, limit: int = 0
) -> SignedCall:
    """Sign the call of an intent at this nonce; the caller stores the bytes at once.

    `gas_limit` 0 means the intent's own limit. Call it outside of a database transaction.

    Raises:
        TransientError: the key returned no signature; see `sign_as_payer`.
    """
    request, limit = intent.request, limit or intent.gas_limit or 0
    context.publisher.lines.check_chain(request.account.chain_id)
    signed = sign_as_payer(
        context,
        TransactionRequest(
            request.account.chain_id, nonce, request.contract, request.calldata, limit, fees
        ),
    )
    return SignedCall(signed.hash, signed.raw, fees.max_fee, fees.tip, limit)
