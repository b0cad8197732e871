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


def signed_by_payer(desk: TxContext, transaction: TransactionRequest) -> SignedBytes:
    """Return the signed transaction. Ask for it outside of a transaction of the database.

    Raises:
        TransientError: the key cannot be reached, refused, or answered wrongly: its account
            rests then, and nothing was stored.
    """
    rest = desk.publisher.payer_rest
    try:
        signed = desk.publisher.payer.sign_transaction(transaction)
    except (SignerRefusedError, WrongSignatureError) as error:
        rest.begin(None)
        is_wrong = isinstance(error, WrongSignatureError)
        reason = f"{_WRONG if is_wrong else _REFUSED}: {error}"
        with desk.writing() as unit:
            # The first reason stands: a human has to look at it.
            if unit.outbox.senders.paused_because(desk.account) is None:
                unit.outbox.senders.pause(desk.account, PauseKind.SIGNER, reason, desk.stamp)
        raise TransientError(f"{desk.account.address} rests: {reason}") from error
    rest.end()
    return signed


def may_sign(desk: TxContext) -> bool:
    """Tell whether the key may be asked: it neither rests nor waits for a human, and is ours."""
    if desk.publisher.payer_rest.left() > 0:
        return False
    with desk.store.reading() as unit:
        pause = unit.outbox.senders.paused_because(desk.account)
    return pause is None or pause.kind not in {PauseKind.SIGNER, PauseKind.FOREIGN}


def why_resting(desk: TxContext) -> str | None:
    """Return why an account sends nothing that a person has to end; None: nothing of that kind.

    What ends by itself is not told, and neither is what an operator wished for.
    """
    with desk.store.reading() as unit:
        pause = unit.outbox.senders.paused_because(desk.account)
    if pause is None or pause.kind is PauseKind.OPERATOR or ends_by_itself(pause):
        return None
    return f"{desk.account.address} sends nothing ({pause.kind.value}): {pause.reason}"


def ends_by_itself(pause: Pause) -> bool:
    """Tell whether a pause is over without a human: for ether, or for a key that refused."""
    refused = pause.kind is PauseKind.SIGNER and not pause.reason.startswith(_WRONG)
    return refused or pause.kind is PauseKind.FUNDS


def resume_refused(desk: TxContext) -> StepResult | None:
    """End the pause of a key that refused once its rest is over: it is asked again."""
    with desk.store.reading() as unit:
        pause = unit.outbox.senders.paused_because(desk.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not ends_by_itself(pause):
        return None
    if desk.publisher.payer_rest.left() > 0:
        return None
    with desk.writing() as unit:
        unit.outbox.senders.resume(desk.account, desk.stamp)
    return StepResult("resumed", None, f"the signer of {desk.account.address} is asked again")
