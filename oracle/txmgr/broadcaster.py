"""Sends stored bytes and acts on what the endpoints say.

See docs/reference/rpc-requirements.md#send-errors.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.chain.heads import Heads
from oracle.errors import FatalError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, NonceSlot, PauseKind
from oracle.telemetry.tracing import span
from oracle.txmgr.client.send_raw import SendOutcome, SendResult, send_all
from oracle.txmgr.context import StepResult, TxContext

# Nothing more of this account is worth a try until this is put right.
_PAUSES = {
    SendOutcome.FUNDS: PauseKind.FUNDS,
    SendOutcome.CAP: PauseKind.CONFIG,
    SendOutcome.CHAIN: PauseKind.CHAIN,
    SendOutcome.MALFORMED: PauseKind.MALFORMED,
}


def broadcast_unsent(context: TxContext, heads: Heads) -> StepResult | None:
    """Send stored bytes for the first time, and note how it went; None: there are none."""
    with context.store.reading() as uow:
        unsent = [
            (slot, attempt)
            for slot, attempts in uow.outbox.slots.watched_with_attempts(context.account)
            for attempt in attempts
            if attempt.sends == 0
        ]
    return send_attempts(context, unsent[: context.batch_size], heads) if unsent else None


def send_attempts(
    context: TxContext, unsent: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> StepResult:
    """Send stored bytes, and note how it went; each endpoint is asked once.

    Whoever dies before the note sends the same bytes once more: same nonces, same hashes.

    Raises:
        FatalError: the endpoints are of another chain than the bytes.
    """
    answers = _send_and_note(context, unsent, heads)
    return StepResult("sent", unsent[0][1].intent_id, _answers_text(unsent, answers))


class Rebroadcast(NamedTuple):
    """The endpoints' answer to bytes that were sent again; `step` None: as the last time."""

    answer: SendResult
    step: StepResult | None


def rebroadcast(
    context: TxContext, slot: NonceSlot, attempt: Attempt, heads: Heads
) -> Rebroadcast:
    """Send bytes again that no block has; each answer like the last doubles the next wait.

    A transaction may wait for hours, below the market for example: only a changed answer is a
    step, so that the log has a line for each change and not for each broadcast.

    Raises:
        FatalError: the endpoints are of another chain than the bytes.
    """
    (answer,) = _send_and_note(context, [(slot, attempt)], heads)
    error_class = None if answer.is_accepted else answer.answer.value
    if error_class == attempt.last_error_class:
        # Ether may come at any block, and the same bytes have to go out before a fee bump is due.
        if answer.answer is not SendOutcome.FUNDS:
            context.rebroadcasts.double_wait(attempt.id)
        return Rebroadcast(answer, None)
    context.rebroadcasts.reset_wait(attempt.id)
    detail = _answers_text([(slot, attempt)], [answer])
    return Rebroadcast(answer, StepResult("sent", attempt.intent_id, detail))


def _send_and_note(
    context: TxContext, pairs: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> list[SendResult]:
    context.before_sending()
    sent = [attempt for _, attempt in pairs]
    with span("send", **ids_of(sent)) as traced:
        answers = send_all(context.publisher.pool, [attempt.signed.raw for attempt in sent])
        traced.ids["answers"] = " ".join(answer.answer for answer in answers)
    with context.writing() as uow:
        for pair, answer in zip(pairs, answers, strict=True):
            _note(uow, context, pair, answer, heads)
    for answer in answers:
        _stop_at(answer)
    return answers


def ids_of(attempts: Sequence[Attempt]) -> dict[str, object]:
    """Return what a trace of these is searched by: nothing of what is signed but its hash."""
    return {
        "intents": " ".join(str(one.intent_id) for one in attempts),
        "nonces": " ".join(str(one.nonce) for one in attempts),
        "transactions": " ".join(one.signed.tx_hash for one in attempts),
    }


def _answers_text(
    unsent: Sequence[tuple[NonceSlot, Attempt]], answers: Sequence[SendResult]
) -> str:
    if len(unsent) == 1:
        attempt, sent = unsent[0][1], answers[0]
        return f"{attempt.signed.tx_hash} {sent.answer} {sent.text}".rstrip()
    refused = [sent.text for sent in answers if not sent.is_accepted]
    said = f", {len(refused)} not taken: {refused[0]}" if refused else ""
    return f"{len(unsent)} calls{said}"


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
    kind, senders = _PAUSES.get(sent.answer), uow.outbox.accounts
    # The first reason stands: a human has to look at it.
    if kind is not None and senders.paused_because(context.account) is None:
        senders.pause(context.account, kind, f"{sent.answer}: {sent.text}", context.stamp)


def _stop_at(sent: SendResult) -> None:
    if sent.answer is SendOutcome.CHAIN:
        raise FatalError(
            f"an endpoint says that a transaction of ours is not of its chain: {sent.text}; "
            "check chain.endpoints, then `qos-oracle outbox release` the account"
        )
