"""Broadcasts stored transactions and acts on the endpoints' responses.

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

# Send errors that pause the account until the cause is repaired.
_PAUSES = {
    SendOutcome.FUNDS: PauseKind.FUNDS,
    SendOutcome.CAP: PauseKind.CONFIG,
    SendOutcome.CHAIN: PauseKind.CHAIN,
    SendOutcome.MALFORMED: PauseKind.MALFORMED,
}


def broadcast_unsent(context: TxContext, heads: Heads) -> StepResult | None:
    """Send stored transactions for the first time and record the results.

    Return None if none wait.
    """
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
    """Send stored transactions once to each endpoint and record the results.

    After a crash before the results are recorded, the same bytes are sent again, with the same
    nonces and hashes.

    Raises:
        FatalError: the endpoints serve another chain than the transactions.
    """
    answers = _send_and_note(context, unsent, heads)
    return StepResult("sent", unsent[0][1].intent_id, _answers_text(unsent, answers))


class Rebroadcast(NamedTuple):
    """The result of a rebroadcast; `step` is None if the result equals the previous one."""

    answer: SendResult
    step: StepResult | None


def rebroadcast(
    context: TxContext, slot: NonceSlot, attempt: Attempt, heads: Heads
) -> Rebroadcast:
    """Send an unmined transaction again; each repeated result doubles the wait before the next.

    A transaction may wait for hours, for example below the market. Only a changed result is a
    step, so that the log has a line for each change and not for each broadcast.

    Raises:
        FatalError: the endpoints serve another chain than the transaction.
    """
    (answer,) = _send_and_note(context, [(slot, attempt)], heads)
    error_class = None if answer.is_accepted else answer.answer.value
    if error_class == attempt.last_error_class:
        # Ether may arrive at any block, and the same bytes must be sent before a fee bump is due.
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
    """Return the trace attributes of these attempts.

    Of the signed bytes only the hash is included.
    """
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
    # The first reason is kept, because an operator has to review it.
    if kind is not None and senders.paused_because(context.account) is None:
        senders.pause(context.account, kind, f"{sent.answer}: {sent.text}", context.stamp)


def _stop_at(sent: SendResult) -> None:
    if sent.answer is SendOutcome.CHAIN:
        raise FatalError(
            f"an endpoint says that a transaction of ours is not of its chain: {sent.text}; "
            "check chain.endpoints, then `qos-oracle outbox release` the account"
        )
