"""Sends stored bytes and acts on what the endpoints say (publishing.md 3.7)."""

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


def send_attempt(desk: TxContext, slot: NonceSlot, attempt: Attempt, heads: Heads) -> StepResult:
    """Send stored bytes, first or again, and note how it went.

    Whoever dies before the note sends the same bytes once more: same nonce, same hash.

    Raises:
        FatalError: the endpoints are of another chain than the bytes.
    """
    desk.before_sending()
    sent = send(desk.publisher.lines, attempt.signed.raw)
    with desk.writing() as unit:
        _note(unit, desk, (slot, attempt), sent, heads)
    _stop_at(sent)
    told = f"{attempt.signed.tx_hash} {sent.answer} {sent.text}".rstrip()
    return StepResult("sent", attempt.intent_id, told)


def send_attempts(
    desk: TxContext, unsent: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> Sequence[SendResult]:
    """Send several as `send_attempt` does each, by one batch for each endpoint.

    Raises:
        FatalError: see there.
    """
    desk.before_sending()
    answers = send_all(desk.publisher.lines, [attempt.signed.raw for _, attempt in unsent])
    with desk.writing() as unit:
        for pair, sent in zip(unsent, answers, strict=True):
            _note(unit, desk, pair, sent, heads)
    for sent in answers:
        _stop_at(sent)
    return answers


def _note(
    unit: UnitOfWork,
    desk: TxContext,
    sent_now: tuple[NonceSlot, Attempt],
    sent: SendResult,
    heads: Heads,
) -> None:
    slot, attempt = sent_now
    error = None if sent.is_accepted else f"{sent.answer.value}: {sent.text}"
    unit.outbox.slots.sent(slot, attempt, heads.latest.number, error, desk.stamp)
    kind, senders = _PAUSES.get(sent.answer), unit.outbox.senders
    # The first reason stands: a human has to look at it.
    if kind is not None and senders.paused_because(desk.account) is None:
        senders.pause(desk.account, kind, f"{sent.answer}: {sent.text}", desk.stamp)


def _stop_at(sent: SendResult) -> None:
    if sent.answer is SendOutcome.CHAIN:
        raise FatalError(
            f"an endpoint says that a transaction of ours is not of its chain: {sent.text}; "
            "check chain.endpoints, then `qos-oracle outbox release` the account"
        )
