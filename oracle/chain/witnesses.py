"""Asks endpoints which block stands at a height: nobody is believed alone.

See docs/explanation/reorgs.md#witnesses.
"""

from collections.abc import Callable
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.rpc.pool import EndpointPool
from oracle.rpc.responses import FullHeaderResponse, block_ref
from oracle.rpc.rpc_errors import RpcError

# A second opinion of history must come so soon, or that endpoint is left alone for a while: who
# hangs would cost as much with every window.
_WITHIN_SECONDS = 5.0
_BACKOFF_SECONDS = 60.0


class Witness(NamedTuple):
    """What one endpoint says of a height: its block there, None where it has none, and its head.

    One whose head is below the height is no witness of what is at it
    (docs/explanation/reorgs.md#witnesses).
    """

    endpoint: str
    block: BlockRef | None
    head: BlockRef


class Witnesses:
    """Used by one thread at a time; `clock` counts seconds."""

    def __init__(self, endpoints: EndpointPool, clock: Callable[[], float]) -> None:
        self._endpoints = endpoints
        self._clock = clock
        # Who gave no answer in time, and until when nobody waits for it again.
        self._backoff: dict[str, float] = {}

    def all(self, number: int, than: str | None) -> list[Witness]:
        """See `Source.witness`."""
        found = []
        unasked = {than, *self._endpoints.quarantined()}
        for endpoint in self._endpoints:
            if endpoint.name in unasked:
                continue
            try:
                self._endpoints.prove(endpoint)
                head, block = endpoint.headers(["latest", number])
            except RpcError:
                continue
            if head is not None:
                found.append(Witness(endpoint.name, block, head))
        return found

    def second(self, number: int, than: str) -> tuple[str, BlockRef] | None:
        """See `Source.second`."""
        now, provider = self._clock(), self._endpoints.providers()
        has_others = len(set(provider.values())) > 1
        for endpoint in self._endpoints.others(than):
            if has_others and endpoint.provider == provider.get(than):
                continue
            if now < self._backoff.get(endpoint.name, now):
                continue
            try:
                self._endpoints.prove(endpoint)
                params = [hex(number), False]
                answer = endpoint.client.call(
                    "eth_getBlockByNumber",
                    params,
                    FullHeaderResponse,
                    timeout_seconds=_WITHIN_SECONDS,
                )
                block = None if answer is None else block_ref(endpoint.name, answer)
            except RpcError:
                self._backoff[endpoint.name] = self._clock() + _BACKOFF_SECONDS
                continue
            if block is not None and block.number == number:
                return endpoint.name, block
        return None
