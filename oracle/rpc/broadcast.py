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
_SEND_TIMEOUT_SECONDS = 10.0
# The same for an endpoint in backoff, which also gets the transactions.
_BACKOFF_SEND_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BroadcastResult:
    """Result of sending one transaction to one endpoint; `error` is None if it was accepted.

    A `CallRefusedError` means that the endpoint refused the transaction. After any other error it
    is unknown whether the endpoint received the transaction.
    """

    endpoint: str
    error: RpcError | None


def broadcast(
    endpoints: Sequence[Endpoint], raw_transactions: Sequence[bytes]
) -> list[list[BroadcastResult]]:
    """Send the transactions to every endpoint, in order, in one batch per endpoint.

    Returns, for each transaction, the result at every endpoint. Circuit breakers, rate limits and
    backoff are ignored, because a transaction is worth a request that may fail. An endpoint
    quarantined for serving another chain is skipped. Never raises.
    """
    results_by_endpoint = [_send_to_endpoint(endpoint, raw_transactions) for endpoint in endpoints]
    return [
        [endpoint_results[position] for endpoint_results in results_by_endpoint]
        for position in range(len(raw_transactions))
    ]


def _send_to_endpoint(
    endpoint: Endpoint, raw_transactions: Sequence[bytes]
) -> list[BroadcastResult]:
    if endpoint.status.is_on_other_chain:
        reason = endpoint.status.quarantine_reason or ""
        refusal = RpcError(endpoint.name, ErrorKind.QUARANTINED, reason)
        return [BroadcastResult(endpoint.name, refusal)] * len(raw_transactions)
    requests = [(_METHOD, ("0x" + raw_transaction.hex(),)) for raw_transaction in raw_transactions]
    timeout_seconds = (
        _BACKOFF_SEND_TIMEOUT_SECONDS
        if endpoint.health.backoff_seconds_left() > 0
        else _SEND_TIMEOUT_SECONDS
    )
    try:
        responses = endpoint.client.send_mixed_batch(
            requests, timeout_seconds=timeout_seconds, ignore_backoff=True
        )
    except RpcError as error:
        endpoint.reset_chain_state()
        return [BroadcastResult(endpoint.name, error)] * len(raw_transactions)
    return [
        BroadcastResult(endpoint.name, response if isinstance(response, RpcError) else None)
        for response in responses
    ]
