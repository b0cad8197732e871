"""Sends signed bytes to every endpoint, and classifies the responses.

This module has no access to keys, so that only bytes from the outbox can be sent. See
docs/reference/rpc-requirements.md#send-errors.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import CallRefusedError, RpcError
from oracle.telemetry.txmgr_metrics import BROADCASTS


class SendOutcome(StrEnum):
    """The classified response of an endpoint to a sent transaction.

    The transaction is watched in any case. If endpoints disagree, the first of these outcomes
    counts (`_choose_best_result`). Demands for more gas or a higher fee precede `nonce_too_low`,
    which prevents fee bumps: one endpoint may return it falsely, and before each bump the daemon
    checks whether the nonce is used. It also checks this before it pauses the account for lack of
    funds.
    """

    SENT = "sent"
    ALREADY = "already"  # already in the pool; counts as sent
    NONCE_TOO_HIGH = "nonce_too_high"
    UNDERPRICED_REPLACEMENT = "underpriced_replacement"  # the earlier attempt stays in the pool
    UNDERPRICED = "underpriced"
    FUNDS = "funds"
    CAP = "cap"  # the endpoint's own cap on fees
    INTRINSIC = "intrinsic"
    NONCE_TOO_LOW = "nonce_too_low"  # a transaction with this nonce was mined
    POOL = "pool"
    CHAIN = "chain"
    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # no response: the transaction may be in the pool
    UNKNOWN = "unknown"


# Error messages of the clients, in lower case. Specific patterns come first.
_MESSAGE_PATTERNS: tuple[tuple[SendOutcome, tuple[str, ...]], ...] = (
    (
        SendOutcome.ALREADY,
        (
            r"already ?known", r"known transaction", r"already imported", r"already[ _]exists",
            r"already added", r"existing tx with same hash", r"ownnoncealreadyused",
            r"already in the (?:mempool|pool|system)",
        ),
    ),
    (
        SendOutcome.UNDERPRICED_REPLACEMENT,
        (
            r"replacement (?:transaction )?underpriced", r"feetoolowtocompete",
            r"replacement fee too low", r"to replace existing transaction",
            r"could not replace existing", r"replacementnotallowed",
            r"another transaction with same nonce",
        ),
    ),
    (
        SendOutcome.NONCE_TOO_LOW,
        (
            r"nonce (?:is )?too low", r"nonce already used", r"oldnonce",
            r"invalid nonce; got less", r"invalid transaction nonce",
        ),
    ),
    (
        SendOutcome.NONCE_TOO_HIGH,
        (
            r"nonce (?:is )?too (?:high|distant|far)", r"nonce ?gap", r"gapped",
            r"noncetoofarinfuture",
        ),
    ),
    (
        SendOutcome.CAP,
        (
            r"exceeds the configured cap", r"transaction fee cap exceeded",
        ),
    ),
    (
        SendOutcome.FUNDS,
        (
            r"insufficient ?(?:funds|balance)", r"enough (?:funds|balance)",
            r"would cause overdraft", r"upfront cost exceeds",
        ),
    ),
    (
        SendOutcome.MALFORMED,
        (
            r"max ?priority ?fee ?per ?gas (?:is )?(?:higher than|exceeds|greater)",
            r"higher than 2\^", r"nonce has max value",
        ),
    ),
    (
        SendOutcome.UNDERPRICED,
        (
            r"underpriced", r"(?:tip|fee|gas ?price) (?:is )?too low", r"feetoolow",
            r"less than (?:the )?block bas",
            r"below (?:current|block|configured|the|chain) (?:minimum|base)",
            r"\(\d+\) is too low for the", r"feecap \d+ below", r"lower than the minimum",
            r"gas tip cap",
        ),
    ),
    (
        SendOutcome.INTRINSIC,
        (
            r"intrinsic ?gas", r"(?:block|current|transaction) gas limit", r"gaslimitexceeded",
            r"floor data gas", r"gas floor", r"gas (?:is |limit )?too (?:low|high)",
            r"gas is beyond limit", r"base fee exceeds gas", r"gas ?uint(?:64)? ?overflow",
            r"out of gas",
        ),
    ),
    (
        SendOutcome.POOL,
        (
            r"pool (?:is )?full", r"l2full", r"queue ?full", r"account limit exceeded",
            r"too many (?:pending )?trans", r"dropped due to limit", r"spammer",
            r"in-flight transaction limit", r"future transaction tries",
            r"method .*not (?:found|supported|available)", r"does not exist", r"whitelist",
        ),
    ),
    (
        SendOutcome.CHAIN,
        (
            r"(?:invalid|wrong|incorrect|mismatch\w*) chain ?id",
            r"chain ?id (?:\w+ )?(?:not supp|mism|is )", r"wrong sender", r"invalid sender",
            r"replay-protected", r"failedtoresolvesender",
        ),
    ),
    (
        SendOutcome.MALFORMED,
        (
            r"invalid signature", r"oversized data", r"type not supported",
            r"(?:unsupported|invalid) transaction t", r"rlp", r"too big", r"maxtxsizeexceeded",
            r"initcode", r"int256overflow", r"negative value", r"sender ?is ?contract",
            r"sender not an eoa", r"banned", r"not permitted", r"not authorized", r"forbidden",
            r"blacklist", r"^invalid$", r"invalid transaction hash", r"transaction hash is null",
            r"invalid params", r"cannot unmarshal",
        ),
    ),
    (
        # Some development nodes mine immediately. They return the revert of a transaction as an
        # error, although they have accepted the transaction.
        SendOutcome.AMBIGUOUS,
        (
            r"time[d ]? ?out", r"too many requests", r"rate.?limit", r"deadline exceeded",
            r"reverted", r"vm exception", r"temporarily", r"sync", r"try again",
            r"internal error", r"bad gateway", r"unavailable",
        ),
    ),
)  # fmt: skip
_PATTERNS = tuple(
    (answer, re.compile("|".join(words), re.IGNORECASE)) for answer, words in _MESSAGE_PATTERNS
)
# Ganache's message for a nonce that is too low or too high.
_GANACHE_NONCES = re.compile(r"account has nonce of: (\d+) tx has nonce of: (\d+)", re.IGNORECASE)
# These codes are used if no pattern matches. Codes with several meanings are left out.
_OUTCOME_BY_CODE: Mapping[int, SendOutcome] = {
    429: SendOutcome.AMBIGUOUS,
    -32006: SendOutcome.NONCE_TOO_HIGH,
    -32009: SendOutcome.UNDERPRICED,
    -32601: SendOutcome.POOL,
    -32603: SendOutcome.AMBIGUOUS,
    -38010: SendOutcome.NONCE_TOO_LOW,
    -38011: SendOutcome.NONCE_TOO_HIGH,
    -38012: SendOutcome.UNDERPRICED,
    -38013: SendOutcome.INTRINSIC,
    -38014: SendOutcome.FUNDS,
    -38015: SendOutcome.INTRINSIC,
}


def classify_send_response(message: str, code: int = 0) -> SendOutcome:
    """Classify the error of a send by its message, or else by its JSON-RPC code.

    The messages come from the sources of Geth, Nethermind, Besu, Erigon, OpenEthereum, Reth,
    Nitro, Anvil, Hardhat and Ganache. Messages change, so an unrecognised one is UNKNOWN, and the
    transaction is watched (docs/reference/rpc-requirements.md#send-errors).
    """
    nonces = _GANACHE_NONCES.search(message)
    if nonces is not None:
        is_nonce_too_low = int(nonces[2]) < int(nonces[1])
        return SendOutcome.NONCE_TOO_LOW if is_nonce_too_low else SendOutcome.NONCE_TOO_HIGH
    for outcome, pattern in _PATTERNS:
        if pattern.search(message):
            return outcome
    return _OUTCOME_BY_CODE.get(code, SendOutcome.UNKNOWN)


__all__ = [
    "SendOutcome",
    "SendResult",
    "classify_send_response",
    "init_broadcast_metrics",
    "send_raw_transaction",
    "send_raw_transactions",
]

_ACCEPTED = frozenset({SendOutcome.SENT, SendOutcome.ALREADY})
# After these outcomes, the transaction may be in the pool, or may be accepted at the next try.
_OPEN = frozenset({SendOutcome.UNKNOWN, SendOutcome.AMBIGUOUS})
# After these outcomes, an operator must fix the cause, or the endpoint is a gateway that accepts
# no transactions.
_STOPPING = frozenset({SendOutcome.CAP, SendOutcome.CHAIN, SendOutcome.MALFORMED})


@dataclass(frozen=True, slots=True)
class SendResult:
    """The best response among all endpoints.

    `text` is the message of an endpoint that refused.
    """

    outcome: SendOutcome
    text: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether at least one pool has the transaction."""
        return self.outcome in _ACCEPTED


def send_raw_transaction(pool: EndpointPool, raw_transaction: bytes) -> SendResult:
    """Send a signed transaction once to every endpoint, without raising errors."""
    return send_raw_transactions(pool, [raw_transaction])[0]


def send_raw_transactions(
    pool: EndpointPool, raw_transactions: Sequence[bytes]
) -> list[SendResult]:
    """Send several transactions in order, with one batch request for each endpoint."""
    return [
        _choose_best_result(
            [
                _classify_endpoint_response(endpoint, error)
                for endpoint, error in error_by_endpoint.items()
            ]
        )
        for error_by_endpoint in pool.broadcast(raw_transactions)
    ]


def _classify_endpoint_response(endpoint: str, error: RpcError | None) -> SendResult:
    """Classify the response of an endpoint.

    `error` is None if the transaction was accepted.
    """
    if error is None:
        result = SendResult(SendOutcome.SENT)
    elif isinstance(error, CallRefusedError):
        outcome = classify_send_response(error.message, error.code)
        result = SendResult(outcome, error.message)
    else:
        result = SendResult(SendOutcome.AMBIGUOUS, str(error))
    BROADCASTS.labels(endpoint, result.outcome.value).inc()
    return result


def init_broadcast_metrics(pool: EndpointPool) -> None:
    """Start each endpoint's counter of unrecognised responses at zero.

    The alerts depend on this.
    """
    for endpoint in pool:
        BROADCASTS.labels(endpoint.name, SendOutcome.UNKNOWN.value)


def _choose_best_result(results: Iterable[SendResult]) -> SendResult:
    """Choose the best result of the endpoints.

    An acceptance is best, then the most specific error, then a lost response. An error that would
    pause the sender counts only if all endpoints return it, because an endpoint that did not
    respond may have accepted the transaction.
    """
    outcome_order = [*SendOutcome]

    def get_rank(result: SendResult) -> tuple[bool, bool, int]:
        outcome = result.outcome
        return outcome in _STOPPING, outcome in _OPEN, outcome_order.index(outcome)

    ranked_results = sorted(results, key=get_rank)
    best_result = ranked_results[0]
    worst_result = ranked_results[-1]
    if best_result.outcome in _OPEN and worst_result.outcome in _STOPPING:
        return SendResult(
            best_result.outcome,
            f"{best_result.text}; another endpoint reports: {worst_result.text}",
        )
    return best_result
