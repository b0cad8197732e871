"""The call of an intent as bytes: its gas, its cost, its signature."""

from collections.abc import Sequence

from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, number_of, understood
from oracle.signing.signer import (
    Fees,
    SignedBytes,
    SignerRefusedError,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.store.outbox.records import (
    WRONG_SIGNATURE,
    Attempt,
    Intent,
    PauseKind,
    SignedCall,
)
from oracle.txmgr.client.fee_quote import gas_limit, least_gas
from oracle.txmgr.client.l1_fees import l1_fee
from oracle.txmgr.context import StepResult, TxContext

_REFUSED = "the signer refused"


def signed_by_payer(context: TxContext, transaction: TransactionRequest) -> SignedBytes:
    """Return the signed transaction. Ask for it outside of a transaction of the database.

    Raises:
        TransientError: the key cannot be reached, refused, or answered wrongly: its account
            rests then, and nothing was stored.
    """
    rest = context.publisher.payer_rest
    try:
        signed = context.publisher.payer.sign_transaction(transaction)
    except (SignerRefusedError, WrongSignatureError) as error:
        rest.begin(None)
        is_wrong = isinstance(error, WrongSignatureError)
        reason = f"{WRONG_SIGNATURE if is_wrong else _REFUSED}: {error}"
        with context.writing() as uow:
            # The first reason stands: a human has to look at it.
            if uow.outbox.senders.paused_because(context.account) is None:
                uow.outbox.senders.pause(context.account, PauseKind.SIGNER, reason, context.stamp)
        raise TransientError(f"{context.account.address} rests: {reason}") from error
    rest.end()
    return signed


def may_sign(context: TxContext) -> bool:
    """Tell whether the key may be asked: it neither rests nor waits for a human, and is ours."""
    if context.publisher.payer_rest.left() > 0:
        return False
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    return pause is None or pause.kind not in {PauseKind.SIGNER, PauseKind.FOREIGN}


def why_resting(context: TxContext) -> str | None:
    """Return why an account sends nothing that a person has to end; None: nothing of that kind.

    What ends by itself is not told, and neither is what an operator wished for.
    """
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    if pause is None or pause.kind is PauseKind.OPERATOR or pause.ends_by_itself:
        return None
    return f"{context.account.address} sends nothing ({pause.kind.value}): {pause.reason}"


def resume_refused(context: TxContext) -> StepResult | None:
    """End the pause of a key that refused once its rest is over: it is asked again."""
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not pause.ends_by_itself:
        return None
    if context.publisher.payer_rest.left() > 0:
        return None
    with context.writing() as uow:
        uow.outbox.senders.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"the signer of {context.account.address} is asked again")


def signed_call(
    context: TxContext, intent: Intent, nonce: int, fees: Fees, limit: int = 0
) -> SignedCall:
    """Sign the call of an intent that has this nonce; the caller stores the bytes at once.

    `limit` in gas; 0: the intent's own. Ask for it outside of a transaction.

    Raises:
        TransientError: the key gave no signature; see `signing`.
    """
    wish, limit = intent.wish, limit or intent.gas_limit or 0
    context.publisher.lines.check_chain(wish.account.chain_id)
    signed = signed_by_payer(
        context,
        TransactionRequest(
            wish.account.chain_id, nonce, wish.contract, wish.calldata, limit, fees
        ),
    )
    return SignedCall(signed.hash, signed.raw, fees.max_fee, fees.tip, limit)


def limit_for(gas: int, calldata: str, most: int) -> int | None:
    """Return the limit to set for an estimate; None: a block has only `most` gas, and less."""
    least = max(gas, least_gas(calldata))
    return min(max(gas_limit(gas), least), most) if least <= most else None


def gas_of_block(context: TxContext) -> int:
    """Return how much gas the newest block may hold, by the endpoint that tells the most.

    One that tells nonsense keeps no call waiting; too much is refused by a pool.

    Raises:
        TransientError: no endpoint answers.
    """

    def read(endpoint: EndpointCaller) -> int:
        block = endpoint.ask("eth_getBlockByNumber", "latest", False)
        with understood("the newest block"):
            return number_of(block["gasLimit"])

    return max(gas for _, gas in context.publisher.lines.each(read))


def l1_cost(context: TxContext, calldata: str, gas: int) -> int:
    """Return what a rollup takes for a call of `gas` beside it, in wei; elsewhere 0."""
    return l1_fee(context.publisher.lines, context.sending.l1_fee, calldata, gas)


def dearest(attempts: Sequence[Attempt]) -> Fees:
    """Return what a twin has to beat: the highest of each fee that was signed for the nonce."""
    return Fees(
        max(one.signed.max_fee_wei for one in attempts),
        max(one.signed.tip_wei for one in attempts),
    )
