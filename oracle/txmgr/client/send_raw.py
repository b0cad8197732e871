"""Sends stored bytes to every endpoint, and tells what their answers mean.

It has no key: only bytes that are in the outbox can leave.
See docs/reference/rpc-requirements.md#send-errors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.rpc.broadcast import BroadcastAnswer
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.telemetry.txmgr_metrics import BROADCASTS
from oracle.txmgr.client.send_errors import SendOutcome, answer_of

__all__ = [
    "SendOutcome",
    "SendResult",
    "answer_of",
    "send",
    "send_all",
    "show_zeros",
]

_ACCEPTED = frozenset({SendOutcome.SENT, SendOutcome.ALREADY})
# It may be in the pool, and it may be taken at the next try.
_OPEN = frozenset({SendOutcome.UNKNOWN, SendOutcome.AMBIGUOUS})
# What a person has to put right; one gateway that takes no sends says it of everything.
_STOPPING = frozenset({SendOutcome.CAP, SendOutcome.CHAIN, SendOutcome.MALFORMED})


@dataclass(frozen=True, slots=True)
class SendResult:
    """The best of the endpoints' answers; `text`: what a refusing one said."""

    answer: SendOutcome
    text: str = ""

    @property
    def is_accepted(self) -> bool:
        """At least one pool has it."""
        return self.answer in _ACCEPTED


def send(pool: EndpointPool, raw: bytes) -> SendResult:
    """Send the same bytes to every endpoint, once each; never raises."""
    return send_all(pool, [raw])[0]


def send_all(pool: EndpointPool, raws: Sequence[bytes]) -> list[SendResult]:
    """Send several bytes in their order, as `send` does each, by one batch for each endpoint."""
    return [_best(map(_result, answers)) for answers in pool.broadcast(raws)]


def _result(answer: BroadcastAnswer) -> SendResult:
    error = answer.error
    if error is None:
        sent = SendResult(SendOutcome.SENT)
    elif isinstance(error, CallRefusedError):
        sent = _refused(error)
    else:
        sent = SendResult(SendOutcome.AMBIGUOUS, str(error))
    BROADCASTS.labels(answer.endpoint, sent.answer.value).inc()
    return sent


def _refused(error: CallRefusedError) -> SendResult:
    return SendResult(answer_of(error.message, error.code), error.message)


def show_zeros(pool: EndpointPool) -> None:
    """Let alerts see a zero of each endpoint before the first answer that nobody knows."""
    for endpoint in pool:
        BROADCASTS.labels(endpoint.name, SendOutcome.UNKNOWN.value)


def _best(answers: Iterable[SendResult]) -> SendResult:
    """An accepting pool counts; else what says most, before silence.

    What stops the sender counts where all say so: who is silent now may take the bytes.
    """
    order = [*SendOutcome]
    ranked = sorted(answers, key=lambda sent: (_rank(sent.answer), order.index(sent.answer)))
    best, worst = ranked[0], ranked[-1]
    if best.answer in _OPEN and worst.answer in _STOPPING:
        return SendResult(best.answer, f"{best.text}; another endpoint says {worst.text}")
    return best


def _rank(answer: SendOutcome) -> int:
    return 2 if answer in _STOPPING else int(answer in _OPEN)
