"""Broadcasts signed transactions to every endpoint; the only way transactions leave the daemon.

Each transaction is sent once to each endpoint. A lost response is not retried here: only the
outbox may send again.
"""

from collections.abc import Sequence

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

_METHOD = "eth_sendRawTransaction"
# Seconds until the response to a send must begin.
_SEND_TIMEOUT_SECONDS = 10.0
# The same for an endpoint in backoff, which also gets the transactions.
_BACKOFF_SEND_TIMEOUT_SECONDS = 2.0


def broadcast(
    endpoints: Sequence[Endpoint], raw_transactions: Sequence[bytes]
) -> list[dict[str, RpcError | None]]:
    """Send the transactions to every endpoint, in order, in one batch per endpoint.

    Returns, for each transaction, the error of every endpoint by its name, or None if the endpoint
    accepted the transaction. A `CallRefusedError` means that it refused the transaction; after any
    other error it is unknown whether the endpoint received it. Circuit breakers, rate limits and
    backoff are ignored, because a transaction is worth a request that may fail. An endpoint
    quarantined for serving another chain is skipped. Never raises.
    """
    errors_by_endpoint = {
        endpoint.name: _send_to_endpoint(endpoint, raw_transactions) for endpoint in endpoints
    }
    return [
        {name: errors[position] for name, errors in errors_by_endpoint.items()}
        for position in range(len(raw_transactions))
    ]


def _send_to_endpoint(
    endpoint: Endpoint, raw_transactions: Sequence[bytes]
) -> list[RpcError | None]:
    """Return the error of each transaction, or None if the endpoint accepted it."""
    if endpoint.status.is_on_other_chain:
        reason = endpoint.status.quarantine_reason or ""
        refusal = RpcError(endpoint.name, ErrorKind.QUARANTINED, reason)
        return [refusal] * len(raw_transactions)
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
        return [error] * len(raw_transactions)
    return [response if isinstance(response, RpcError) else None for response in responses]
