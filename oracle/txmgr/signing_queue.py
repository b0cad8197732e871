"""The call of an intent as bytes: its gas, its cost, its signature."""

from collections.abc import Sequence

from oracle.errors import TransientError
from oracle.rpc.understanding import number_of, understood
from oracle.signing.signer import TransactionRequest
from oracle.store.outbox.records import Attempt, Intent, SignedCall
from oracle.txmgr.client.fee_quote import Fees, gas_limit, least_gas
from oracle.txmgr.client.l1_fees import l1_fee
from oracle.txmgr.context import TxContext
from oracle.txmgr.signing import signed_by_payer


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
    told: list[int] = []
    silence = TransientError("no endpoint is configured")
    for line in context.publisher.lines.all:
        try:
            block = line.ask("eth_getBlockByNumber", "latest", False)
            with understood("the newest block"):
                told.append(number_of(block["gasLimit"]))
        except TransientError as error:
            silence = error
    if not told:
        raise silence
    return max(told)


def l1_cost(context: TxContext, calldata: str, gas: int) -> int:
    """Return what a rollup takes for a call of `gas` beside it, in wei; elsewhere 0."""
    return l1_fee(context.publisher.lines, context.sending.l1_fee, calldata, gas)


def dearest(attempts: Sequence[Attempt]) -> Fees:
    """Return what a twin has to beat: the highest of each fee that was signed for the nonce."""
    return Fees(
        max(one.signed.max_fee_wei for one in attempts),
        max(one.signed.tip_wei for one in attempts),
    )
