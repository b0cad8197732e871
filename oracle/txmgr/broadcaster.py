"""Sends stored bytes and acts on what the endpoints say.

See docs/reference/rpc-requirements.md#send-errors.
"""

from collections.abc import Sequence

from oracle.chain.heads import Heads
from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, NonceSlot, PauseKind
from oracle.txmgr.client.send_raw import SendOutcome, SendResult, send, send_all
from oracle.txmgr.context import StepResult, TxContext

# Nothing more of this account is worth a try until this is put right.
_PAUSES = {
    SendOutcome.FUNDS: PauseKind.FUNDS,
    SendOutcome.CAP: PauseKind.CONFIG,
    SendOutcome.CHAIN: PauseKind.CHAIN,
    SendOutcome.MALFORMED: PauseKind.MALFORMED,
}


def send_attempt(
    context: TxContext, slot: NonceSlot, attempt: Attempt, heads: Heads
) -> StepResult:
    """Send stored bytes, first or again, and note how it went.

    Whoever dies before the note sends the same bytes once more: same nonce, same hash.

    Raises:
        FatalError: the endpoints are of another chain than the bytes.
    """
    context.before_sending()
    sent = send(context.publisher.lines, attempt.signed.raw)
    with context.writing() as uow:
        _note(uow, context, (slot, attempt), sent, heads)
    _stop_at(sent)
    told = f"{attempt.signed.tx_hash} {sent.answer} {sent.text}".rstrip()
    return StepResult("sent", attempt.intent_id, told)


def send_attempts(
    context: TxContext, unsent: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> Sequence[SendResult]:
    """Send several as `send_attempt` does each, by one batch for each endpoint.

    Raises:
        FatalError: see there.
    """
    context.before_sending()
    answers = send_all(context.publisher.lines, [attempt.signed.raw for _, attempt in unsent])
    with context.writing() as uow:
        for pair, sent in zip(unsent, answers, strict=True):
            _note(uow, context, pair, sent, heads)
    for sent in answers:
        _stop_at(sent)
    return answers


def _note(
    uow: UnitOfWork,
    context: TxContext,
    sent_now: tuple[NonceSlot, Attempt],
    sent: SendResult,
    heads: Heads,
) -> None:
    slot, attempt = sent_now
    error = None if sent.is_accepted else f"{sent.answer.value}: {sent.text}"
    uow.outbox.slots.sent(slot, attempt, heads.latest.number, error, context.stamp)
    kind, senders = _PAUSES.get(sent.answer), uow.outbox.senders
    # The first reason stands: a human has to look at it.
    if kind is not None and senders.paused_because(context.account) is None:
        senders.pause(context.account, kind, f"{sent.answer}: {sent.text}", context.stamp)


def _stop_at(sent: SendResult) -> None:
    if sent.answer is SendOutcome.CHAIN:
        raise FatalError(
            f"an endpoint says that a transaction of ours is not of its chain: {sent.text}; "
            "check chain.endpoints, then `qos-oracle outbox release` the account"
        )
