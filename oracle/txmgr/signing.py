"""Asks the key that pays for a signature; one that says no, or answers wrongly, gets a rest.

Its account rests meanwhile (class `signer`): nobody is asked every second for what a person has to
put right. Whoever refused is asked again by itself, after 1, 2, 4 … seconds, at most a minute.
Whoever answered with something else than was asked for is not trusted before a human says so.
"""

from oracle.errors import TransientError
from oracle.signing.signer import (
    SignedBytes,
    SignerRefusedError,
    TransactionRequest,
    WrongSignatureError,
)
from oracle.store.outbox.records import Pause, PauseKind
from oracle.txmgr.context import StepResult, TxContext

# How the reason of a pause begins that a human has to end.
_WRONG = "wrong answer of the signer"
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
        reason = f"{_WRONG if is_wrong else _REFUSED}: {error}"
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
    if pause is None or pause.kind is PauseKind.OPERATOR or ends_by_itself(pause):
        return None
    return f"{context.account.address} sends nothing ({pause.kind.value}): {pause.reason}"


def ends_by_itself(pause: Pause) -> bool:
    """Tell whether a pause is over without a human: for ether, or for a key that refused."""
    refused = pause.kind is PauseKind.SIGNER and not pause.reason.startswith(_WRONG)
    return refused or pause.kind is PauseKind.FUNDS


def resume_refused(context: TxContext) -> StepResult | None:
    """End the pause of a key that refused once its rest is over: it is asked again."""
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not ends_by_itself(pause):
        return None
    if context.publisher.payer_rest.left() > 0:
        return None
    with context.writing() as uow:
        uow.outbox.senders.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"the signer of {context.account.address} is asked again")
