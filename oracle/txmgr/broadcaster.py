"""Broadcasts stored transactions and acts on the endpoints' responses.

See docs/reference/rpc-requirements.md#send-errors.
"""

from collections.abc import Sequence

from oracle.chain.heads import Heads
from oracle.errors import FatalError, TransientError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Attempt, NonceSlot, PauseKind
from oracle.telemetry.tracing import start_span
from oracle.txmgr.client.send_raw import SendOutcome, SendResult, send_raw_transactions
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.unconfirmed import is_nonce_mined

# An error with one of these outcomes pauses the account until its cause is resolved.
_PAUSE_KIND_BY_OUTCOME = {
    SendOutcome.FUNDS: PauseKind.FUNDS,
    SendOutcome.CAP: PauseKind.CONFIG,
    SendOutcome.CHAIN: PauseKind.CHAIN,
    SendOutcome.MALFORMED: PauseKind.MALFORMED,
}


def broadcast_unsent_attempts(context: AccountContext, heads: Heads) -> StepResult | None:
    """Send the stored transactions that were never sent.

    Return None if there are none.
    """
    with context.store.read_transaction() as uow:
        unsent_attempts = [
            (slot, attempt)
            for slot, attempts in uow.outbox.slots.list_unfinished_slots_with_attempts(
                context.account
            )
            for attempt in attempts
            if attempt.sends == 0
        ]
    if unsent_attempts:
        return send_attempts(context, unsent_attempts[: context.batch_size], heads)
    return None


def send_attempts(
    context: AccountContext, unsent_attempts: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> StepResult:
    """Send stored transactions once to each endpoint, and record the results.

    If the process crashes before the results are recorded, the next process sends the same bytes
    again, which is harmless because nonces and hashes stay the same.

    Raises:
        FatalError: the endpoints do not serve the chain of the transactions.
    """
    send_results = _send_and_record_attempts(context, unsent_attempts, heads)
    return StepResult(
        "sent",
        unsent_attempts[0][1].intent_id,
        _describe_send_results(unsent_attempts, send_results),
    )


def send_newest_attempt(
    context: AccountContext, slot: NonceSlot, heads: Heads
) -> StepResult | None:
    """Send the newest attempt of a nonce, or return None if it was sent already."""
    with context.store.read_transaction() as uow:
        attempts = uow.outbox.slots.list_attempts(slot)
    if not attempts or attempts[-1].sends:
        return None
    return send_attempts(context, [(slot, attempts[-1])], heads)


def rebroadcast_attempt(
    context: AccountContext, slot: NonceSlot, attempt: Attempt, heads: Heads
) -> tuple[SendOutcome, StepResult | None]:
    """Send an unmined transaction again.

    If the result equals the previous one, the wait before the next broadcast is doubled. The
    second value is the step to log, or None if the result equals the previous one. A transaction
    may be sent again for hours, for example while its fees are below the market, and the log
    should contain a line for each change instead of each broadcast.

    Raises:
        FatalError: the endpoints do not serve the chain of the transaction.
    """
    (send_result,) = _send_and_record_attempts(context, [(slot, attempt)], heads)
    error_class = None if send_result.is_accepted else send_result.outcome.value
    if error_class == attempt.last_error_class:
        # The wait is not doubled if funds are lacking. Ether may arrive with any block, and these
        # bytes must be sent again before a fee bump is due.
        if send_result.outcome is not SendOutcome.FUNDS:
            context.rebroadcast_backoff.double_wait(attempt.id)
        return send_result.outcome, None
    context.rebroadcast_backoff.reset_wait(attempt.id)
    result_text = _describe_send_results([(slot, attempt)], [send_result])
    return send_result.outcome, StepResult("sent", attempt.intent_id, result_text)


def _send_and_record_attempts(
    context: AccountContext, slots_and_attempts: Sequence[tuple[NonceSlot, Attempt]], heads: Heads
) -> list[SendResult]:
    context.check_can_send()
    attempts = [attempt for _, attempt in slots_and_attempts]
    with start_span("send", **build_trace_attributes(attempts)) as span:
        send_results = send_raw_transactions(
            context.sender_account.pool, [attempt.signed.raw for attempt in attempts]
        )
        send_results = [
            _correct_lack_of_funds(context, pair, result)
            for pair, result in zip(slots_and_attempts, send_results, strict=True)
        ]
        span.attributes["answers"] = " ".join(result.outcome for result in send_results)
    with context.write_transaction() as uow:
        for pair, result in zip(slots_and_attempts, send_results, strict=True):
            _record_result(uow, context, pair, result, heads)
    for result in send_results:
        _raise_on_wrong_chain(result)
    return send_results


def _correct_lack_of_funds(
    context: AccountContext, slot_and_attempt: tuple[NonceSlot, Attempt], result: SendResult
) -> SendResult:
    """Change a reported lack of funds to a used nonce, if the chain shows its use.

    An endpoint without the newest block checks an old balance, and another endpoint may report at
    the same time that the nonce is too low. A used nonce costs nothing more, so the account is not
    paused for it. If no endpoint answers, the result stays as it is. An error here would lose the
    results of all transactions that were sent with this one, and the pause ends by itself once the
    balance suffices.
    """
    slot, attempt = slot_and_attempt
    if result.outcome is not SendOutcome.FUNDS:
        return result
    try:
        is_nonce_used = is_nonce_mined(context, slot, [attempt])
    except TransientError:
        return result
    return SendResult(SendOutcome.NONCE_TOO_LOW, result.text) if is_nonce_used else result


def build_trace_attributes(attempts: Sequence[Attempt]) -> dict[str, object]:
    """Build the attributes of attempts for a trace, which leave out the signed bytes."""
    return {
        "intents": " ".join(str(attempt.intent_id) for attempt in attempts),
        "nonces": " ".join(str(attempt.nonce) for attempt in attempts),
        "transactions": " ".join(attempt.signed.tx_hash for attempt in attempts),
    }


def _describe_send_results(
    attempts: Sequence[tuple[NonceSlot, Attempt]], results: Sequence[SendResult]
) -> str:
    if len(attempts) == 1:
        attempt = attempts[0][1]
        result = results[0]
        return f"{attempt.signed.tx_hash} {result.outcome} {result.text}".rstrip()
    refusal_texts = [result.text for result in results if not result.is_accepted]
    refusal_note = f", {len(refusal_texts)} refused: {refusal_texts[0]}" if refusal_texts else ""
    return f"{len(attempts)} calls{refusal_note}"


def _record_result(
    uow: UnitOfWork,
    context: AccountContext,
    slot_and_attempt: tuple[NonceSlot, Attempt],
    result: SendResult,
    heads: Heads,
) -> None:
    slot, attempt = slot_and_attempt
    error_text = None if result.is_accepted else f"{result.outcome.value}: {result.text}"
    uow.outbox.slots.record_send(slot, attempt, heads.latest.number, error_text, context.stamp)
    kind = _PAUSE_KIND_BY_OUTCOME.get(result.outcome)
    accounts = uow.outbox.accounts
    # An earlier pause is kept, because an operator has to review its reason.
    if kind is not None and accounts.find_pause(context.account) is None:
        accounts.pause(context.account, kind, f"{result.outcome}: {result.text}", context.stamp)


def _raise_on_wrong_chain(result: SendResult) -> None:
    if result.outcome is SendOutcome.CHAIN:
        raise FatalError(
            f"an endpoint rejected the transaction as belonging to another chain: {result.text}; "
            "check [chain] endpoints, then run `qos-oracle outbox release` for the account"
        )
