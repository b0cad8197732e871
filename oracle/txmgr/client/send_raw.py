"""Sends stored bytes to every endpoint, and tells what their answers mean.

It has no key: only bytes that are in the outbox can leave.
See docs/reference/rpc-requirements.md#send-errors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.errors import TransientError
from oracle.rpc.reverts import CallRefusedError
from oracle.rpc.views.fanout import JsonRpcClient, PoolView
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

_METHOD = "eth_sendRawTransaction"
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


def send(lines: PoolView, raw: bytes) -> SendResult:
    """Send the same bytes to every endpoint, once each; never raises.

    One that asked us to wait is not asked; the bytes come again after two blocks.
    """
    return _best([_send(line, raw) for line in lines.all])


def send_all(lines: PoolView, raws: Sequence[bytes]) -> list[SendResult]:
    """Send several bytes in their order, as `send` does each, by one batch for each endpoint."""
    by_line = [_send_all(line, raws) for line in lines.all]
    return [_best([sent[place] for sent in by_line]) for place in range(len(raws))]


def _send(line: JsonRpcClient, raw: bytes) -> SendResult:
    try:
        line.ask(_METHOD, "0x" + raw.hex())
    except CallRefusedError as error:
        return _noted(line, _refused(error))
    except TransientError as error:
        return _noted(line, SendResult(SendOutcome.AMBIGUOUS, str(error)))
    return _noted(line, SendResult(SendOutcome.SENT))


def _send_all(line: JsonRpcClient, raws: Sequence[bytes]) -> list[SendResult]:
    asked = [(_METHOD, ("0x" + raw.hex(),)) for raw in raws]
    try:
        answers = line.ask_each(asked)
    except TransientError as error:
        return [_noted(line, SendResult(SendOutcome.AMBIGUOUS, str(error))) for _ in raws]
    return [
        _noted(
            line,
            _refused(answer)
            if isinstance(answer, CallRefusedError)
            else SendResult(SendOutcome.SENT),
        )
        for answer in answers
    ]


def _refused(error: CallRefusedError) -> SendResult:
    return SendResult(answer_of(error.message, error.code), error.message)


def show_zeros(lines: PoolView) -> None:
    """Let alerts see a zero of each endpoint before the first answer that nobody knows."""
    for line in lines.all:
        BROADCASTS.labels(line.name, SendOutcome.UNKNOWN.value)


def _noted(line: JsonRpcClient, sent: SendResult) -> SendResult:
    BROADCASTS.labels(line.name, sent.answer.value).inc()
    return sent


def _best(answers: Iterable[SendResult]) -> SendResult:
    """An accepting pool counts; else what says most, before silence.

    What stops the sender counts where all say so: who is silent now may take the bytes.
    """
    order = [*SendOutcome]
    ranked = sorted(answers, key=lambda sent: (_rank(sent.answer), order.index(sent.answer)))
    if not ranked:
        return SendResult(SendOutcome.AMBIGUOUS, "no endpoint is configured")
    best, worst = ranked[0], ranked[-1]
    if best.answer in _OPEN and worst.answer in _STOPPING:
        return SendResult(best.answer, f"{best.text}; another endpoint says {worst.text}")
    return best


def _rank(answer: SendOutcome) -> int:
    return 2 if answer in _STOPPING else int(answer in _OPEN)
