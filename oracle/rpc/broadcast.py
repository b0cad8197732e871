"""Shows signed transactions to every endpoint: the one way by which bytes leave.

Each is sent once to each: a lost answer stays lost, only the outbox may send again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

_METHOD = "eth_sendRawTransaction"
# How long an answer to a send may take to begin.
_SECONDS = 10.0
# Who is left alone gets the bytes all the same, but cannot keep us waiting again.
_LEFT_ALONE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BroadcastAnswer:
    """What one endpoint, by its label, said of one transaction; `error` None: it took it.

    A `CallRefusedError` is its own word; of any other error it is not known what became of it.
    """

    endpoint: str
    error: RpcError | None


def broadcast(endpoints: Sequence[Endpoint], raws: Sequence[bytes]) -> list[list[BroadcastAnswer]]:
    """Send these to every endpoint, in their order and by one batch for each endpoint.

    Returns for each transaction what the endpoints said of it. Breakers, rate limits and backoff
    are passed by, for a transaction is worth a question in vain; one that is quarantined for
    showing another chain is not asked. Never raises.
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
