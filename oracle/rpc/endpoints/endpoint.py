"""The endpoints of one chain, each with its health and its standing, in the order of settings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog

from oracle.rpc.client import Endpoint
from oracle.rpc.endpoints.checkpoints import Checkpoint, fault_in_chain
from oracle.rpc.endpoints.endpoint_status import EndpointStatus
from oracle.rpc.endpoints.health import Health
from oracle.rpc.endpoints.rate_limiter import RateLimiter
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS, WRONG_LOG_TIMES

Clock = Callable[[], float]


@dataclass(eq=False, slots=True)
class PoolMember:
    """One endpoint and all we know of how it is."""

    endpoint: Endpoint
    health: Health
    standing: EndpointStatus

    def refusal(self) -> RpcError | None:
        """Return why nothing is asked of it now; None: it may be."""
        name = self.endpoint.name
        if self.standing.quarantined is not None:
            return RpcError(name, ErrorKind.QUARANTINED, self.standing.quarantined)
        wait = self.health.bucket.wait()
        if wait > 0:
            words = f"asked us to wait, {wait:.1f} s more"
            return RpcError(name, ErrorKind.THROTTLED, words, retry_after=wait)
        return None

    def is_usable(self) -> bool:
        """Tell whether it would be given work: neither shut out nor failing now."""
        return self.standing.quarantined is None and self.standing.failures == 0

    def fault_in_chain(
        self, chain_id: int, anchors: Sequence[Checkpoint], *, within: float | None
    ) -> str | None:
        """Return why it is not of our chain; see `anchors`. Raises EndpointError."""
        return fault_in_chain(self.endpoint, chain_id, anchors, within=within)


class EndpointRoll:
    """Every endpoint, by name unlike the others."""

    def __init__(self, endpoints: Sequence[Endpoint], clock: Clock) -> None:
        self._clock = clock
        self._members: dict[Endpoint, PoolMember] = {}
        # Who was proven wrong, by name, and of what.
        self._convicted: dict[str, str] = {}
        names: set[str] = set()
        for position, endpoint in enumerate(endpoints, 1):
            host = endpoint.name.partition("://")[2]
            endpoint.label = f"{position} {host}"
            if endpoint.name in names:
                # Two keys at one provider.
                endpoint.name = f"{endpoint.name}#{position}"
            names.add(endpoint.name)
            health = Health(endpoint.name, endpoint.label, clock, RateLimiter(clock))
            health.is_alone = len(endpoints) == 1
            endpoint.watch = health
            self._members[endpoint] = PoolMember(endpoint, health, EndpointStatus())
            metrics.know(endpoint.label)
            MISSING_LOGS.labels(endpoint.name)
            WRONG_LOG_TIMES.labels(endpoint.name)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> list[PoolMember]:
        """Return all of them, in the order of the settings."""
        return list(self._members.values())

    def of(self, endpoint: Endpoint | str) -> PoolMember:
        """Return what we know of one; a name must be one of ours."""
        if isinstance(endpoint, Endpoint):
            return self._members[endpoint]
        return next(m for m in self._members.values() if m.endpoint.name == endpoint)

    def by_preference(self, members: Sequence[PoolMember]) -> list[PoolMember]:
        """Return them in the order in which they are to be asked.

        First those that stand where the settings put them; then those that lost their place, and
        say that they are back; then those that have just failed, the longest ago first.
        """
        now = self._clock()

        def place(member: PoolMember) -> tuple[int, float]:
            standing = member.standing
            if standing.is_resting(now):
                return 3, standing.rests_until
            if standing.is_well(now):
                return 0, 0.0
            return (1 if standing.ask_at is None else 2), 0.0

        return sorted(members, key=place)

    def convict(self, name: str, reason: str) -> None:
        """Quarantine who was proven wrong until it is readmitted.

        One that is not used any more, as the settings of an earlier run named it, is passed over.
        """
        if self._shut_out(name, reason):
            structlog.get_logger().error("endpoint_proven_wrong", endpoint=name, reason=reason)

    def recall(self, reasons: Mapping[str, str]) -> None:
        """Take up who was proven wrong, as it stands in the database, and who no longer is."""
        for name in self._convicted.keys() - reasons.keys():
            del self._convicted[name]
            self.of(name).standing.readmit(self._clock())
            self._show(name, is_out=False)
        for name, reason in reasons.items():
            self._shut_out(name, reason)

    def proven_wrong(self) -> dict[str, str]:
        """Return who was proven wrong and not readmitted since, by name, and of what."""
        return dict(self._convicted)

    def _shut_out(self, name: str, reason: str) -> bool:
        known = {member.endpoint.name for member in self._members.values()}
        if name not in known or name in self._convicted:
            return False
        self._convicted[name] = reason
        told = "proven wrong, `qos-oracle endpoint readmit` lets it in again"
        self.of(name).standing.convict(f"{told}: {reason}")
        self._show(name, is_out=True)
        return True

    def _show(self, name: str, *, is_out: bool) -> None:
        label = self.of(name).endpoint.label
        metrics.QUARANTINED.labels(label).set(is_out)
        metrics.PROVEN_WRONG.labels(label).set(is_out)
        self.count_usable()

    def seconds_left(self, failures: Iterable[RpcError]) -> float | None:
        """Return after how long one of these may be asked who wanted to be left alone; or None."""
        names = {error.endpoint for error in failures if error.kind is ErrorKind.THROTTLED}
        members = [one for one in self.members() if one.endpoint.name in names]
        return min((one.health.bucket.wait() for one in members), default=None)

    def count_usable(self) -> None:
        """Let the metrics know how many would be given work."""
        metrics.USABLE.set(sum(member.is_usable() for member in self._members.values()))

    def wait_at_most(self, seconds: float) -> None:
        """Let every breaker be tried so long after its last failure."""
        for member in self._members.values():
            member.health.wait_at_most(seconds)
