"""The endpoints of one chain, in configured order and in order of preference."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, NoEndpointError, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS, WRONG_LOG_TIMES
from oracle.telemetry.logger import get_logger

Clock = Callable[[], float]


class EndpointList:
    """All endpoints, with unique names.

    `clock` returns seconds.

    Raises:
        NoEndpointError: there is no endpoint.
    """

    def __init__(self, endpoints: Sequence[Endpoint], clock: Clock) -> None:
        if not endpoints:
            raise NoEndpointError("[chain] endpoints: none is configured; name at least one")
        self._clock = clock
        self._endpoints = tuple(endpoints)
        # For each endpoint name, the reason why the endpoint was proven wrong.
        self._proven_wrong: dict[str, str] = {}
        seen_names: set[str] = set()
        for position, endpoint in enumerate(endpoints, 1):
            # URLs that differ only in their keys have the same name. The position is added to
            # distinguish them.
            is_repeated_name = endpoint.name in seen_names
            name = f"{endpoint.name}#{position}" if is_repeated_name else endpoint.name
            endpoint.rename(name)
            seen_names.add(name)
            endpoint.health.is_sole = len(endpoints) == 1
            metrics.init_endpoint_metrics(endpoint.name)
            MISSING_LOGS.labels(name)
            WRONG_LOG_TIMES.labels(name)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def __len__(self) -> int:
        return len(self._endpoints)

    def get(self, endpoint: Endpoint | str) -> Endpoint:
        """Return the endpoint with this name.

        A given `Endpoint` is returned itself. The name must exist.
        """
        if isinstance(endpoint, Endpoint):
            return endpoint
        return next(candidate for candidate in self._endpoints if candidate.name == endpoint)

    def sort_by_preference(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Return the endpoints in the order in which to use them.

        Healthy endpoints come first, in configured order. They are followed by deprioritised
        endpoints that have recovered, then by other deprioritised endpoints, and finally by
        endpoints in backoff, starting with the shortest backoff.
        """
        now = self._clock()

        def get_preference_rank(endpoint: Endpoint) -> tuple[int, float]:
            status = endpoint.status
            if status.is_backing_off(now):
                return 3, status.backoff_until
            if status.is_healthy(now):
                return 0, 0.0
            return (1 if status.recheck_at is None else 2), 0.0

        return sorted(endpoints, key=get_preference_rank)

    def mark_proven_wrong(self, name: str, reason: str) -> None:
        """Quarantine an endpoint that was proven wrong.

        The quarantine lasts until the endpoint is readmitted. The name of an endpoint that is no
        longer configured is ignored.
        """
        if self._quarantine_proven_wrong_endpoint(name, reason):
            get_logger().error("endpoint_proven_wrong", endpoint=name, reason=reason)

    def sync_proven_wrong_endpoints(self, reason_by_name: Mapping[str, str]) -> None:
        """Quarantine the endpoints stored as proven wrong, and readmit the others."""
        for name in self._proven_wrong.keys() - reason_by_name.keys():
            del self._proven_wrong[name]
            self.get(name).status.readmit(self._clock())
            self._update_metrics(name, is_excluded=False)
        for name, reason in reason_by_name.items():
            self._quarantine_proven_wrong_endpoint(name, reason)

    def get_proven_wrong_reasons(self) -> dict[str, str]:
        """Return why endpoints were proven wrong, keyed by endpoint name.

        Endpoints that an operator readmitted are left out.
        """
        return dict(self._proven_wrong)

    def _quarantine_proven_wrong_endpoint(self, name: str, reason: str) -> bool:
        if (
            name not in {endpoint.name for endpoint in self._endpoints}
            or name in self._proven_wrong
        ):
            return False
        self._proven_wrong[name] = reason
        prefix = "proven wrong; `qos-oracle endpoint readmit` allows it again"
        self.get(name).status.mark_proven_wrong(f"{prefix}: {reason}")
        self._update_metrics(name, is_excluded=True)
        return True

    def _update_metrics(self, name: str, *, is_excluded: bool) -> None:
        metrics.QUARANTINED.labels(name).set(is_excluded)
        metrics.PROVEN_WRONG.labels(name).set(is_excluded)
        self.update_usable_metric()

    def compute_seconds_until_usable(self, failures: Sequence[RpcError]) -> float | None:
        """Return the seconds until a failed endpoint may be used again, or None if unknown."""
        throttled_endpoints = {
            error.endpoint for error in failures if error.kind is ErrorKind.THROTTLED
        }
        waits = [
            endpoint.health.rate_limiter.get_wait_seconds()
            for endpoint in self._endpoints
            if endpoint.name in throttled_endpoints
        ]
        waits += [
            error.retry_after
            for error in failures
            if error.kind is not ErrorKind.THROTTLED and error.retry_after is not None
        ]
        return min(waits, default=None)

    def update_usable_metric(self) -> None:
        """Update the metric that counts usable endpoints."""
        metrics.USABLE.set(sum(endpoint.is_usable() for endpoint in self._endpoints))

    def limit_breaker_wait(self, max_seconds: float) -> None:
        """Limit the waiting time of all circuit breakers after a failure.

        A trial request is allowed at the latest `max_seconds` after the failure.
        """
        for endpoint in self._endpoints:
            endpoint.health.limit_breaker_wait(max_seconds)

    def limit_rate_limit_wait(self, max_seconds: float) -> None:
        """Limit the waiting time of rate-limited endpoints after a refusal.

        The time is at most `max_seconds` after the last refusal.
        """
        for endpoint in self._endpoints:
            endpoint.health.limit_rate_limit_wait(max_seconds)
