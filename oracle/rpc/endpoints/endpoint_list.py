"""The endpoints of one chain, in configured order and in the order of preference."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, NoEndpointError, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS, WRONG_LOG_TIMES

Clock = Callable[[], float]


class EndpointList:
    """All endpoints, with unique names; `clock` returns seconds.

    Raises:
        NoEndpointError: there is no endpoint.
    """

    def __init__(self, endpoints: Sequence[Endpoint], clock: Clock) -> None:
        if not endpoints:
            raise NoEndpointError("[chain] endpoints: name at least one")
        self._clock = clock
        self._all = tuple(endpoints)
        # Reasons of the endpoints that were proven wrong, by name.
        self._convicted: dict[str, str] = {}
        names: set[str] = set()
        for position, endpoint in enumerate(endpoints, 1):
            # Two keys at one provider have the same name; the position makes it unique.
            is_known = endpoint.name in names
            name = f"{endpoint.name}#{position}" if is_known else endpoint.name
            endpoint.call_it(name)
            names.add(name)
            endpoint.health.is_alone = len(endpoints) == 1
            metrics.know(endpoint.name)
            MISSING_LOGS.labels(name)
            WRONG_LOG_TIMES.labels(name)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def of(self, endpoint: Endpoint | str) -> Endpoint:
        """Return the endpoint of this name, which must exist; or the endpoint itself."""
        if isinstance(endpoint, Endpoint):
            return endpoint
        return next(one for one in self._all if one.name == endpoint)

    def by_preference(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Return the endpoints in the order in which they are to be used.

        First those in their configured place; then the deprioritised ones that have recovered;
        then the other deprioritised ones; then those that have just failed, the longest ago first.
        """
        now = self._clock()

        def place(endpoint: Endpoint) -> tuple[int, float]:
            status = endpoint.status
            if status.is_backing_off(now):
                return 3, status.backoff_until
            if status.is_well(now):
                return 0, 0.0
            return (1 if status.ask_at is None else 2), 0.0

        return sorted(endpoints, key=place)

    def convict(self, name: str, reason: str) -> None:
        """Quarantine an endpoint that was proven wrong until it is readmitted.

        A name of an earlier configuration, which is not used any more, is ignored.
        """
        if self._is_excluded(name, reason):
            structlog.get_logger().error("endpoint_proven_wrong", endpoint=name, reason=reason)

    def recall(self, reasons: Mapping[str, str]) -> None:
        """Apply the stored list of endpoints proven wrong, and readmit those no longer in it."""
        for name in self._convicted.keys() - reasons.keys():
            del self._convicted[name]
            self.of(name).status.readmit(self._clock())
            self._show(name, is_out=False)
        for name, reason in reasons.items():
            self._is_excluded(name, reason)

    def proven_wrong(self) -> dict[str, str]:
        """Return the reasons of the endpoints proven wrong and not readmitted, by name."""
        return dict(self._convicted)

    def _is_excluded(self, name: str, reason: str) -> bool:
        if name not in {one.name for one in self._all} or name in self._convicted:
            return False
        self._convicted[name] = reason
        told = "proven wrong, `qos-oracle endpoint readmit` lets it in again"
        self.of(name).status.convict(f"{told}: {reason}")
        self._show(name, is_out=True)
        return True

    def _show(self, name: str, *, is_out: bool) -> None:
        metrics.QUARANTINED.labels(name).set(is_out)
        metrics.PROVEN_WRONG.labels(name).set(is_out)
        self.count_usable()

    def seconds_left(self, failures: Sequence[RpcError]) -> float | None:
        """Return the seconds until one of these may be used again, or None if unknown."""
        throttled = {error.endpoint for error in failures if error.kind is ErrorKind.THROTTLED}
        waits = [one.health.bucket.wait() for one in self._all if one.name in throttled]
        waits += [
            error.retry_after
            for error in failures
            if error.kind is not ErrorKind.THROTTLED and error.retry_after is not None
        ]
        return min(waits, default=None)

    def count_usable(self) -> None:
        """Set the metric of usable endpoints."""
        metrics.USABLE.set(sum(endpoint.is_usable() for endpoint in self._all))

    def wait_at_most(self, seconds: float) -> None:
        """Let every circuit breaker be tried this long after its last failure."""
        for endpoint in self._all:
            endpoint.health.wait_at_most(seconds)
