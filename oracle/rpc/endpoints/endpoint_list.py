"""The endpoints of one chain in the order of settings, and in that in which they are asked."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, NoEndpointError, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS, WRONG_LOG_TIMES

Clock = Callable[[], float]


class EndpointList:
    """Every endpoint, by name unlike the others; `clock` counts seconds.

    Raises:
        NoEndpointError: there is none.
    """

    def __init__(self, endpoints: Sequence[Endpoint], clock: Clock) -> None:
        if not endpoints:
            raise NoEndpointError("[chain] endpoints: name at least one")
        self._clock = clock
        self._all = tuple(endpoints)
        # Who was proven wrong, by name, and of what.
        self._convicted: dict[str, str] = {}
        names: set[str] = set()
        for position, endpoint in enumerate(endpoints, 1):
            # Two keys at one provider.
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
        """Return one by its name, which must be one of ours; or the endpoint itself."""
        if isinstance(endpoint, Endpoint):
            return endpoint
        return next(one for one in self._all if one.name == endpoint)

    def by_preference(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Return them in the order in which they are to be asked.

        First those that stand where the settings put them; then those that lost their place, and
        say that they are back; then those that have just failed, the longest ago first.
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
        """Quarantine who was proven wrong until it is readmitted.

        One that is not used any more, as the settings of an earlier run named it, is passed over.
        """
        if self._is_excluded(name, reason):
            structlog.get_logger().error("endpoint_proven_wrong", endpoint=name, reason=reason)

    def recall(self, reasons: Mapping[str, str]) -> None:
        """Take up who was proven wrong, as it stands in the database, and who no longer is."""
        for name in self._convicted.keys() - reasons.keys():
            del self._convicted[name]
            self.of(name).status.readmit(self._clock())
            self._show(name, is_out=False)
        for name, reason in reasons.items():
            self._is_excluded(name, reason)

    def proven_wrong(self) -> dict[str, str]:
        """Return who was proven wrong and not readmitted since, by name, and of what."""
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
        """Return the seconds until one of these endpoints may be asked again, if one said so."""
        throttled = {error.endpoint for error in failures if error.kind is ErrorKind.THROTTLED}
        waits = [one.health.bucket.wait() for one in self._all if one.name in throttled]
        waits += [
            error.retry_after
            for error in failures
            if error.kind is not ErrorKind.THROTTLED and error.retry_after is not None
        ]
        return min(waits, default=None)

    def count_usable(self) -> None:
        """Let the metrics know how many would be given work."""
        metrics.USABLE.set(sum(endpoint.is_usable() for endpoint in self._all))

    def wait_at_most(self, seconds: float) -> None:
        """Let every breaker be tried so long after its last failure."""
        for endpoint in self._all:
            endpoint.health.wait_at_most(seconds)
