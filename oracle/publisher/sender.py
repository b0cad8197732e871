"""Sends stored bytes to every endpoint, and tells what their answers mean (publishing.md 3.7).

It has no key: only bytes that are in the outbox can leave.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from oracle.errors import TransientError
from oracle.publisher.line import Line, Lines, RefusedError


class Answer(StrEnum):
    """What an endpoint made of the bytes. Whatever it says, the hash is watched."""

    SENT = "sent"
    ALREADY = "already"  # known to the pool: as good as sent
    NONCE_TOO_LOW = "nonce_too_low"  # one of our hashes, or a foreign one, has been mined
    NONCE_TOO_HIGH = "nonce_too_high"
    UNDERPRICED_REPLACEMENT = "underpriced_replacement"
    UNDERPRICED = "underpriced"
    FUNDS = "funds"
    CAP = "cap"  # the endpoint's own cap on fees
    INTRINSIC = "intrinsic"
    POOL = "pool"
    CHAIN = "chain"
    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # no answer: it may well be in the pool
    UNKNOWN = "unknown"


# Lower-cased parts of what clients say, the particular ones first. Codes differ, words less so.
_WORDS: tuple[tuple[Answer, tuple[str, ...]], ...] = (
    (
        Answer.ALREADY,
        ("already known", "known transaction", "already imported", "already_exists",
         "already exists", "ownnoncealreadyused"),
    ),
    (Answer.NONCE_TOO_LOW, ("nonce too low", "oldnonce", "invalid nonce; got less")),
    (Answer.NONCE_TOO_HIGH, ("nonce too high", "noncegap", "gapped", "nonce gap")),
    (
        Answer.UNDERPRICED_REPLACEMENT,
        ("replacement transaction underpriced", "feetoolowtocompete", "replacement fee too low"),
    ),
    (
        Answer.UNDERPRICED,
        ("underpriced", "tip too low", "less than block base fee", "fee too low", "feetoolow"),
    ),
    (Answer.FUNDS, ("insufficient funds", "enough funds", "insufficient balance")),
    (Answer.CAP, ("exceeds the configured cap",)),
    (
        Answer.INTRINSIC,
        ("intrinsic gas", "exceeds block gas limit", "floor data gas", "gas floor"),
    ),
    (Answer.POOL, ("txpool is full", "l2full", "account limit exceeded", "pool is full")),
    (Answer.CHAIN, ("invalid chain id", "wrong sender", "invalid sender")),
    (
        Answer.MALFORMED,
        ("invalid signature", "oversized data", "type not supported", "rlp:"),
    ),
    (Answer.AMBIGUOUS, ("timeout", "timed out", "too many requests", "rate limit")),
)  # fmt: skip

_ACCEPTED = frozenset({Answer.SENT, Answer.ALREADY})


@dataclass(frozen=True, slots=True)
class Sent:
    """The best of the endpoints' answers; `text`: what a refusing one said."""

    answer: Answer
    text: str = ""

    @property
    def is_accepted(self) -> bool:
        """At least one pool has it."""
        return self.answer in _ACCEPTED


def send(lines: Lines, raw: bytes) -> Sent:
    """Send the same bytes to every endpoint, once each; never raises."""
    return _best([_send(line, raw) for line in lines.all])


def send_all(lines: Lines, raws: Sequence[bytes]) -> list[Sent]:
    """Send several bytes in their order, as `send` does each, by one batch for each endpoint."""
    by_line = [_send_all(line, raws) for line in lines.all]
    return [_best([sent[place] for sent in by_line]) for place in range(len(raws))]


def answer_of(message: str) -> Answer:
    """Classify what an endpoint said."""
    said = message.lower()
    for answer, parts in _WORDS:
        if any(part in said for part in parts):
            return answer
    return Answer.UNKNOWN


def _send(line: Line, raw: bytes) -> Sent:
    try:
        line.ask("eth_sendRawTransaction", "0x" + raw.hex())
    except RefusedError as error:
        return Sent(answer_of(error.message), error.message)
    except TransientError as error:
        return Sent(Answer.AMBIGUOUS, str(error))
    return Sent(Answer.SENT)


def _send_all(line: Line, raws: Sequence[bytes]) -> list[Sent]:
    asked = [("eth_sendRawTransaction", ("0x" + raw.hex(),)) for raw in raws]
    try:
        answers = line.ask_each(asked)
    except TransientError as error:
        return [Sent(Answer.AMBIGUOUS, str(error))] * len(raws)
    return [
        Sent(answer_of(answer.message), answer.message)
        if isinstance(answer, RefusedError)
        else Sent(Answer.SENT)
        for answer in answers
    ]


def _best(answers: Iterable[Sent]) -> Sent:
    """An accepting pool counts; else what says most; silence last."""
    order = [*Answer]
    worst = (Answer.UNKNOWN, Answer.AMBIGUOUS)
    ranked = sorted(answers, key=lambda sent: (sent.answer in worst, order.index(sent.answer)))
    return ranked[0] if ranked else Sent(Answer.AMBIGUOUS, "no endpoint is configured")
