"""Queries several endpoints for the block at a height.

No endpoint is trusted alone. See docs/explanation/reorgs.md#witnesses.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.headers import get_headers
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError

# A function that returns whether a block (first argument) is deep enough below a head (second
# argument).
DepthCheck = Callable[[BlockRef, BlockRef], bool]

# Timeout for a second witness, in seconds. After a timeout the endpoint is left out for the
# backoff time, because an endpoint that hangs would otherwise delay every window.
_TIMEOUT_SECONDS = 5.0
_BACKOFF_SECONDS = 60.0
# If an endpoint takes longer than `_SLOW_SECONDS`, its block is used, but the endpoint is then
# left out for a multiple of its response time. The maximum ensures that the endpoint is queried
# again before `/readyz` fails.
_SLOW_SECONDS = 2.0
_SLOW_FACTOR = 30.0
_MAX_BACKOFF_SECONDS = 240.0


class Witness(NamedTuple):
    """One endpoint's block at a height, and the endpoint's head.

    `block` is None if the endpoint has no block at this height. An endpoint whose head is below
    the height is no witness of this height (docs/explanation/reorgs.md#witnesses).
    """

    endpoint: str
    block: BlockRef | None
    head: BlockRef


class WitnessFetcher:
    """Fetches witnesses from the endpoints, for one thread at a time.

    `clock` counts seconds.
    """

    def __init__(self, endpoints: EndpointPool, clock: Callable[[], float]) -> None:
        self._endpoints = endpoints
        self._clock = clock
        # For each endpoint name, the time until which a silent or slow endpoint is not queried at
        # all.
        self._backoff_until: dict[str, float] = {}
        # For each endpoint name, the time until which routine comparisons skip a slow endpoint. It
        # is later than the end of the backoff, so confirmations are the first to query the
        # endpoint again.
        self._slow_until: dict[str, float] = {}
        # True if slow endpoints are always queried, because they delay no other work.
        self.is_patient = False

    def fetch_witnesses(
        self, number: int, excluded_endpoint: str | None, *, skip_slow_endpoints: bool = False
    ) -> list[Witness]:
        """Fetch the witnesses for a height.

        See `ChainSource.fetch_witnesses`.
        """
        witnesses = []
        skipped_endpoints = {excluded_endpoint, *self._endpoints.get_quarantine_reasons()}
        if skip_slow_endpoints and len(self._endpoints) > 1:
            skipped_endpoints |= {
                endpoint.name
                for endpoint in self._endpoints
                if self._is_slow(endpoint)
                or endpoint.health.rate_limiter.get_blocked_seconds() > 0
            }
        for endpoint in self._endpoints:
            if endpoint.name in skipped_endpoints:
                continue
            started_at = self._clock()
            try:
                self._endpoints.prove_chain(endpoint)
                head, block = endpoint.get_headers(["latest", number])
            except RpcError:
                continue
            finally:
                self._mark_slow(endpoint, self._clock() - started_at)
            if head is not None:
                witnesses.append(Witness(endpoint.name, block, head))
        return witnesses

    def fetch_second_witness(
        self, number: int, excluded_endpoint: str, is_deep_enough: DepthCheck
    ) -> Witness | None:
        """Fetch a second witness for a height.

        See `ChainSource.fetch_second_witness`.
        """
        lagging_witness: Witness | None = None
        for witness in self._iterate_other_witnesses(excluded_endpoint, number):
            if witness.block is None:
                continue
            if is_deep_enough(witness.block, witness.head):
                return witness
            if lagging_witness is None or witness.head.number > lagging_witness.head.number:
                lagging_witness = witness
        return lagging_witness

    def fetch_highest_head(
        self, excluded_endpoint: str, sufficient_number: int, max_number: int | None = None
    ) -> Witness | None:
        """Return the witness with the highest head, or None if no witness answers.

        Endpoints of the same witness as `excluded_endpoint` are left out, and so are those with a
        head above `max_number`. The others are queried in turn until one has reached
        `sufficient_number`.
        """
        highest_witness: Witness | None = None
        for witness in self._iterate_other_witnesses(excluded_endpoint, "latest"):
            if max_number is not None and witness.head.number > max_number:
                continue
            if highest_witness is None or witness.head.number > highest_witness.head.number:
                highest_witness = witness
            if witness.head.number >= sufficient_number:
                break
        return highest_witness

    def _iterate_other_witnesses(
        self, excluded_endpoint: str, height_or_tag: int | str
    ) -> Iterator[Witness]:
        """Query the other endpoints in turn, and yield the block and the head of each.

        Endpoints of the same witness are not queried. Silent and slow endpoints are not queried.
        """
        now = self._clock()
        for endpoint in self._endpoints.list_endpoints_of_other_witnesses(excluded_endpoint):
            if now < self._backoff_until.get(endpoint.name, now):
                continue
            started_at = self._clock()
            try:
                witness = self._fetch_witness(endpoint, height_or_tag)
            except RpcError:
                seconds = max(
                    _BACKOFF_SECONDS, _compute_backoff_seconds(self._clock() - started_at)
                )
                self._back_off_endpoint(endpoint, seconds)
                continue
            elapsed_seconds = self._clock() - started_at
            if elapsed_seconds > _SLOW_SECONDS and not self.is_patient:
                self._back_off_endpoint(endpoint, _compute_backoff_seconds(elapsed_seconds))
            if witness is not None:
                yield witness

    def _back_off_endpoint(self, endpoint: Endpoint, seconds: float) -> None:
        """Stop using an endpoint as second witness for a number of seconds."""
        self._backoff_until[endpoint.name] = self._clock() + seconds
        self._slow_until[endpoint.name] = self._clock() + 2 * seconds

    def _mark_slow(self, endpoint: Endpoint, elapsed_seconds: float) -> None:
        """Exclude an endpoint from routine comparisons if its response took too long."""
        if elapsed_seconds > _SLOW_SECONDS:
            slow_until = self._clock() + _compute_backoff_seconds(elapsed_seconds)
            self._slow_until[endpoint.name] = max(
                slow_until, self._slow_until.get(endpoint.name, slow_until)
            )

    def _is_slow(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint was slow recently, as a witness or otherwise."""
        slow_until = max(endpoint.status.slow_until, self._slow_until.get(endpoint.name, 0.0))
        return self._clock() < slow_until

    def _fetch_witness(self, endpoint: Endpoint, height_or_tag: int | str) -> Witness | None:
        """Fetch an endpoint's block at a height and its head.

        The result is None if the endpoint returns no head.

        Raises:
            RpcError: the endpoint does not answer.
        """
        self._endpoints.prove_chain(endpoint, timeout_seconds=_TIMEOUT_SECONDS)
        head, block = get_headers(
            endpoint.client, ["latest", height_or_tag], timeout_seconds=_TIMEOUT_SECONDS
        )
        return None if head is None else Witness(endpoint.name, block, head)


def _compute_backoff_seconds(elapsed_seconds: float) -> float:
    """Return for how many seconds to avoid a slow endpoint.

    Its response took `elapsed_seconds`.
    """
    return min(_SLOW_FACTOR * elapsed_seconds, _MAX_BACKOFF_SECONDS)
