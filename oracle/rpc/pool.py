"""The pool of one chain's endpoints, which gives work to the first healthy endpoint.

Endpoints are used in the configured order. An endpoint that failed, or that is much slower than
another one, loses its position until it has been healthy for a minute
(docs/explanation/endpoints.md#order). At the start, after every failure, on each switch and every
hour, an endpoint must prove that it serves the configured chain. Before work is run, deprioritised
and quarantined endpoints are checked for recovery.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

from oracle.errors import InputError
from oracle.rpc.client import DEFAULT_TIMEOUT_SECONDS, MAX_RESPONSE_BYTES, JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.endpoint_list import EndpointList
from oracle.rpc.endpoints.probe import Checkpoint
from oracle.rpc.endpoints.providers import WitnessQuorum, get_provider
from oracle.rpc.fanout import PoolView, broadcast
from oracle.rpc.rpc_errors import ErrorKind, RpcError, combine_failures
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.logger import get_logger

T = TypeVar("T")

# Seconds that the transaction manager waits for a response to begin.
VIEW_TIMEOUT_SECONDS = 10.0
# An endpoint is slow if another endpoint would answer the same request this many seconds sooner.
_SLOW_THRESHOLD_SECONDS = 2.0
# After a failure, seconds until a circuit breaker permits a trial if there is no other endpoint.
_MIN_BREAKER_WAIT_SECONDS = 3.0
# Maximum pause that an endpoint can request while no endpoint is usable. A Retry-After of an hour
# may be sent by mistake, or to all clients of a provider. Without this limit, it would stop the
# daemon for an hour. A request per minute burdens no provider.
_MAX_PAUSE_WITHOUT_ALTERNATIVE_SECONDS = 60.0
# Seconds within which a recovery check must be answered.
_RECOVERY_TIMEOUT_SECONDS = 3.0


class EndpointPool:
    """The endpoints in order of preference.

    The object is thread-safe.

    Raises:
        NoEndpointError: there is no endpoint.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chain_id = chain_id
        self.clock = clock
        self._endpoints = EndpointList(endpoints, clock)
        self._checkpoints: dict[int, Checkpoint] = {}
        self._last_used: Endpoint | None = None
        self._endpoints.update_usable_metric()

    @classmethod
    def from_urls(
        cls,
        urls: Iterable[str],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        max_bytes: int = MAX_RESPONSE_BYTES,
        providers: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a pool of the endpoints at these URLs, without sending a request.

        `timeout_seconds` and `max_bytes` are passed to each `JsonRpcClient`. `providers` maps a
        host to its provider where the provider is not evident from the host; see `get_provider`.

        Raises:
            NoEndpointError: there is no URL.
            InputError: a URL is not an http(s) address.
        """
        endpoints = []
        for url in map(str.strip, urls):
            client = JsonRpcClient(url, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
            endpoints.append(Endpoint(client, clock, get_provider(url, providers)))
        return cls(endpoints, chain_id, clock)

    def close(self) -> None:
        for endpoint in self._endpoints:
            endpoint.close()

    def create_view(self, timeout_seconds: float = VIEW_TIMEOUT_SECONDS) -> PoolView:
        """Return a view of the endpoints, for sending and for reads outside the indexer."""
        return PoolView(tuple(self._endpoints), timeout_seconds, self.witness_quorum)

    def broadcast(self, raw_transactions: Sequence[bytes]) -> list[dict[str, RpcError | None]]:
        """Send signed transactions to every endpoint, once each.

        See `fanout.broadcast`.
        """
        return broadcast(tuple(self._endpoints), raw_transactions)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def __len__(self) -> int:
        return len(self._endpoints)

    @property
    def endpoint_list(self) -> EndpointList:
        """All endpoints in configured order, including those proven wrong."""
        return self._endpoints

    def providers(self) -> dict[str, str]:
        """Return the provider of each endpoint by name, in configured order."""
        return {endpoint.name: endpoint.provider for endpoint in self._endpoints}

    @property
    def witness_quorum(self) -> WitnessQuorum:
        """The witnesses among the endpoints, and how many must agree."""
        return WitnessQuorum(self.providers())

    def compute_clock_offset(self, now: float) -> float:
        """Return how many seconds this machine's clock is ahead of all endpoints' clocks.

        `now` is the time of this machine's clock. The result is negative if this clock is behind
        all others. It is 0 if this clock is between the others, or if no endpoint sends its time.
        """
        start_time = now - time.monotonic()
        server_start_times = (endpoint.client.server_start_time for endpoint in self._endpoints)
        sorted_offsets = sorted(
            start_time - server_start_time
            for server_start_time in server_start_times
            if server_start_time is not None
        )
        have_same_sign = bool(sorted_offsets) and sorted_offsets[0] * sorted_offsets[-1] > 0
        return min(sorted_offsets, key=abs) if have_same_sign else 0.0

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The blocks that every endpoint must have."""
        return tuple(self._checkpoints.values())

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Require that every endpoint has this block.

        The chains of all endpoints are proven again.
        """
        if self._checkpoints.get(checkpoint.number) != checkpoint:
            self._checkpoints[checkpoint.number] = checkpoint
            self.require_new_chain_proofs()

    def run_with_endpoint(
        self,
        work: Callable[[Endpoint], T],
        *,
        only_endpoint: str | None = None,
        avoided_endpoints: Iterable[str] = (),
    ) -> T:
        """Run `work` with a single endpoint, for a consistent view of the chain.

        If `work` fails, it is run again with the next endpoint. `only_endpoint` is the name of the
        only endpoint to use, and `avoided_endpoints` are the names of endpoints not to use.

        Raises:
            TransientError: every endpoint failed; the message contains the last failure.
            InputError: `only_endpoint` names no endpoint, or no endpoint was ever on the
                configured chain.
        """
        candidates = self._list_candidate_endpoints(only_endpoint, set(avoided_endpoints))
        self._recheck_due_endpoints(candidates)
        failures: list[RpcError] = []
        for endpoint in self._endpoints.sort_by_preference(candidates):
            endpoint.health.wait_if_only_endpoint()
            skip_error = endpoint.find_unavailability_error()
            if skip_error is None:
                try:
                    return self._run_with_proven_endpoint(endpoint, work, failures)
                except RpcError as error:
                    skip_error = error
                    self._record_failure(endpoint, error)
            failures.append(skip_error)
        self._endpoints.update_usable_metric()
        if not failures:
            raise RpcError(
                "every endpoint", ErrorKind.BACKOFF, "there is no other endpoint to use"
            )
        if all(failure.kind is ErrorKind.BACKOFF for failure in failures):
            self._endpoints.limit_breaker_wait(_MIN_BREAKER_WAIT_SECONDS)
        if len(candidates) == len(self._endpoints):
            self._endpoints.limit_rate_limit_wait(_MAX_PAUSE_WITHOUT_ALTERNATIVE_SECONDS)
        combined_failure = combine_failures(failures)
        combined_failure.retry_after = self._endpoints.compute_seconds_until_usable(failures)
        raise combined_failure

    def list_other_endpoints(self, excluded_endpoint: str) -> list[Endpoint]:
        """Return the usable endpoints except `excluded_endpoint`, best first.

        Endpoints that are quarantined or rate-limited are left out. The caller must prove the
        chain of each endpoint before using it.
        """
        return self._list_usable_except({excluded_endpoint})

    def list_endpoints_of_other_witnesses(self, excluded_endpoint: str) -> list[Endpoint]:
        """Return the usable endpoints of a different witness than `excluded_endpoint`."""
        return self._list_usable_except(
            self.witness_quorum.list_endpoints_of_same_witness(excluded_endpoint)
        )

    def _list_usable_except(self, names: Container[str]) -> list[Endpoint]:
        other_endpoints = [endpoint for endpoint in self._endpoints if endpoint.name not in names]
        return [
            endpoint
            for endpoint in self._endpoints.sort_by_preference(other_endpoints)
            if endpoint.find_unavailability_error() is None
        ]

    def prove_chain(self, endpoint: Endpoint, *, timeout_seconds: float | None = None) -> None:
        """Check that the endpoint is on the configured chain, unless proven recently.

        `timeout_seconds` is how long the first response may take; None uses the client's timeout.

        Raises:
            RpcError: the endpoint does not respond, is on another chain and is now quarantined, or
                was proven wrong.
            InputError: no endpoint was ever on the configured chain.
        """
        endpoint = self._endpoints.get(endpoint)
        if endpoint.status.is_proven(self.clock()):
            return
        if endpoint.status.needs_readmission:
            raise RpcError(
                endpoint.name, ErrorKind.QUARANTINED, endpoint.status.quarantine_reason or ""
            )
        # A caller that waits for an endpoint at startup calls this repeatedly. An open circuit
        # breaker must not block that caller for minutes.
        endpoint.health.limit_breaker_wait(_MIN_BREAKER_WAIT_SECONDS)
        chain_fault = endpoint.find_chain_mismatch(
            self.chain_id, self.checkpoints, timeout_seconds=timeout_seconds
        )
        if chain_fault is None:
            endpoint.status.mark_chain_proven(self.clock())
            return
        endpoint.status.quarantine(chain_fault, self.clock(), None, is_on_other_chain=True)
        if all(listed_endpoint.status.is_of_another_chain for listed_endpoint in self._endpoints):
            raise InputError(f"[chain] endpoints: {endpoint.name} {chain_fault}")
        self.quarantine(endpoint, chain_fault, is_on_other_chain=True)
        raise RpcError(endpoint.name, ErrorKind.QUARANTINED, chain_fault)

    def require_new_chain_proofs(self) -> None:
        """Require a new proof of each endpoint's chain before its next use."""
        for endpoint in self._endpoints:
            endpoint.status.clear_chain_proof()

    def quarantine(
        self,
        endpoint: Endpoint | str,
        reason: str,
        checkpoint: Checkpoint | None = None,
        *,
        is_on_other_chain: bool = False,
    ) -> None:
        """Stop using an endpoint until it proves its chain, or until a restart.

        `checkpoint` is a block that the endpoint must have before it is released, in addition to
        the pool's checkpoints. `is_on_other_chain` is whether the endpoint serves another chain;
        in this case transactions are not sent to it either.
        """
        endpoint = self._endpoints.get(endpoint)
        endpoint.status.quarantine(
            reason, self.clock(), checkpoint, is_on_other_chain=is_on_other_chain
        )
        metrics.QUARANTINED.labels(endpoint.name).set(1)
        get_logger().error("endpoint_quarantined", endpoint=endpoint.name, reason=reason)
        self._endpoints.update_usable_metric()

    def get_quarantine_reasons(self) -> dict[str, str]:
        """Return the reason for each quarantined endpoint, keyed by name."""
        return {
            endpoint.name: endpoint.status.quarantine_reason
            for endpoint in self._endpoints
            if endpoint.status.quarantine_reason is not None
        }

    def describe_states(self) -> dict[str, str]:
        """Return a short description of each endpoint's state, keyed by name."""
        now = self.clock()
        return {endpoint.name: endpoint.status.describe(now) for endpoint in self._endpoints}

    def deprioritise(self, endpoint: Endpoint | str, check: str) -> None:
        """Prefer other endpoints for a while, because this endpoint's responses are inconsistent.

        `check` names the check that failed.
        """
        endpoint = self._endpoints.get(endpoint)
        metrics.INCONSISTENT.labels(endpoint.name, check).inc()
        endpoint.status.mark_degraded(self.clock())

    def clear_failures(self, endpoints: Iterable[Endpoint]) -> None:
        """Clear the failures of these endpoints.

        This is used if no other endpoint succeeded.
        """
        for endpoint in endpoints:
            self._endpoints.get(endpoint).status.clear_failures()
        self._endpoints.update_usable_metric()

    def clear_lag_failures(self, outvoted_endpoint: str) -> None:
        """Clear the failures of endpoints that only seemed to lag.

        They seemed to lag behind an endpoint that was then outvoted.
        """
        self.clear_failures(
            endpoint
            for endpoint in self._endpoints
            if endpoint.name != outvoted_endpoint and endpoint.status.is_behind
        )

    # --- one piece of work ---

    def _list_candidate_endpoints(
        self, only_endpoint: str | None, avoided_endpoints: set[str]
    ) -> list[Endpoint]:
        endpoints = self._endpoints
        if only_endpoint is not None and only_endpoint not in {
            endpoint.name for endpoint in endpoints
        }:
            endpoint_names = ", ".join(endpoint.name for endpoint in endpoints)
            raise InputError(
                f"{only_endpoint}: not a configured endpoint; expected one of: {endpoint_names}"
            )
        return [
            endpoint
            for endpoint in endpoints
            if endpoint.name not in avoided_endpoints and only_endpoint in {None, endpoint.name}
        ]

    def _run_with_proven_endpoint(
        self, endpoint: Endpoint, work: Callable[[Endpoint], T], failures: Sequence[RpcError]
    ) -> T:
        if self._last_used is not None and self._last_used is not endpoint:
            # Prove the chain again at each switch, because another node may have taken over the
            # address.
            endpoint.status.clear_chain_proof()
        self.prove_chain(endpoint)
        result = work(endpoint)
        endpoint.status.record_success()
        if self._last_used is not None and self._last_used is not endpoint:
            switch_reason = failures[-1].kind.value if failures else "preferred"
            metrics.SWITCHES.labels(endpoint.name, switch_reason).inc()
            if failures:
                get_logger().warning(
                    "endpoint_replaced",
                    endpoint=self._last_used.name,
                    by=endpoint.name,
                    reason=str(failures[-1]),
                )
        self._last_used = endpoint
        self._mark_if_slow(endpoint)
        self._endpoints.update_usable_metric()
        return result

    def _recheck_due_endpoints(self, candidates: Sequence[Endpoint]) -> None:
        """Check the degraded or quarantined candidates that are due for a check."""
        now = self.clock()
        is_sole_endpoint = all(
            listed_endpoint.status.quarantine_reason is not None
            for listed_endpoint in self._endpoints
        )
        for endpoint in candidates:
            status = endpoint.status
            if status.is_release_check_due(now, no_endpoint_usable=is_sole_endpoint):
                self._try_release_from_quarantine(endpoint)
            elif len(candidates) > 1 and status.is_recovery_check_due(now):
                self._check_recovery(endpoint)

    def _check_recovery(self, endpoint: Endpoint) -> None:
        started_at = self.clock()
        try:
            mismatch = self._find_recovery_mismatch(endpoint, self.checkpoints)
        except RpcError as error:
            endpoint.status.schedule_recovery_check(self.clock())
            self._record_failure(endpoint, error)
            return
        now = self.clock()
        if mismatch is not None:
            self.quarantine(endpoint, mismatch, is_on_other_chain=True)
            return
        endpoint.status.mark_chain_proven(now)
        endpoint.status.mark_recovered()
        get_logger().info("endpoint_recovered", endpoint=endpoint.name)
        endpoint.health.limit_breaker_wait(0.0)
        if now - started_at > _RECOVERY_TIMEOUT_SECONDS:
            endpoint.status.mark_slow(now)

    def _try_release_from_quarantine(self, endpoint: Endpoint) -> None:
        status, checkpoints = endpoint.status, self.checkpoints
        if status.release_checkpoint is not None:
            checkpoints = (*checkpoints, status.release_checkpoint)
        try:
            chain_mismatch = self._find_recovery_mismatch(endpoint, checkpoints)
        except RpcError as error:
            chain_mismatch = str(error)
        if chain_mismatch is not None:
            status.schedule_release_check(self.clock())
            return
        status.release_from_quarantine(self.clock())
        metrics.QUARANTINED.labels(endpoint.name).set(0)
        get_logger().warning("endpoint_released", endpoint=endpoint.name)
        self._endpoints.update_usable_metric()

    def _find_recovery_mismatch(
        self, endpoint: Endpoint, checkpoints: Sequence[Checkpoint]
    ) -> str | None:
        endpoint.health.limit_breaker_wait(0.0)
        return endpoint.find_chain_mismatch(
            self.chain_id, checkpoints, timeout_seconds=_RECOVERY_TIMEOUT_SECONDS
        )

    def record_failure(self, endpoint: Endpoint, error: RpcError) -> None:
        """Record a failure outside `run_with_endpoint`.

        Other endpoints are preferred for a while.
        """
        self._record_failure(endpoint, error)
        self._endpoints.update_usable_metric()

    def _record_failure(self, endpoint: Endpoint, error: RpcError) -> None:
        if endpoint.status.record_failure(error, self.clock()):
            self.quarantine(endpoint, f"refused repeatedly: {error.detail}")

    def _mark_if_slow(self, endpoint: Endpoint) -> None:
        """Mark the endpoint as slow if another was much faster with the same method."""
        for other_endpoint in self._endpoints:
            if (
                other_endpoint is not endpoint
                and other_endpoint.find_unavailability_error() is None
            ):
                excess_seconds = endpoint.health.compute_latency_excess(other_endpoint.health)
                if excess_seconds > _SLOW_THRESHOLD_SECONDS:
                    endpoint.status.mark_slow(self.clock())
                    endpoint.health.reset_latency()
                    get_logger().warning(
                        "endpoint_slow",
                        endpoint=endpoint.name,
                        by_seconds=round(excess_seconds, 1),
                    )
                    return
