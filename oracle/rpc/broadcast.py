"""Broadcasts signed transactions to every endpoint; the only way transactions leave the daemon.

Each transaction is sent once to each endpoint. A lost response is not retried here: only the
outbox may send again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

_METHOD = "eth_sendRawTransaction"
# Seconds until the response to a send must begin.
_SECONDS = 10.0
# An endpoint in backoff gets the transactions too, but may delay the broadcast only this long.
_LEFT_ALONE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BroadcastAnswer:
    """Result of sending one transaction to one endpoint; `error` is None if it was accepted.

    A `CallRefusedError` is the endpoint's own refusal. After any other error it is unknown whether
    the endpoint received the transaction.
    """

    endpoint: str
    error: RpcError | None


def broadcast(endpoints: Sequence[Endpoint], raws: Sequence[bytes]) -> list[list[BroadcastAnswer]]:
    """Send the transactions to every endpoint, in order, in one batch per endpoint.

    Returns, for each transaction, the result at every endpoint. Circuit breakers, rate limits and
    backoff are ignored, because a transaction is worth a request that may fail. An endpoint
    quarantined for serving another chain is skipped. Never raises.
    """
    by_endpoint = [_sent(endpoint, raws) for endpoint in endpoints]
    return [[answers[place] for answers in by_endpoint] for place in range(len(raws))]


def _sent(endpoint: Endpoint, raws: Sequence[bytes]) -> list[BroadcastAnswer]:
    if endpoint.status.is_foreign:
        words = endpoint.status.quarantined or ""
        refusal = RpcError(endpoint.name, ErrorKind.QUARANTINED, words)
        return [BroadcastAnswer(endpoint.name, refusal)] * len(raws)
    requests = [(_METHOD, ("0x" + raw.hex(),)) for raw in raws]
    seconds = _LEFT_ALONE_SECONDS if endpoint.health.left_alone() > 0 else _SECONDS
    try:
        answers = endpoint.client.batch_of(requests, timeout_seconds=seconds, is_pressing=True)
    except RpcError as error:
        endpoint.fell_silent()
        return [BroadcastAnswer(endpoint.name, error)] * len(raws)
    return [
        BroadcastAnswer(endpoint.name, answer if isinstance(answer, RpcError) else None)
        for answer in answers
    ]
