"""Stores the learned limits of endpoints for later runs, and restores them.

See docs/explanation/ingest.md#ranges.
"""

from dataclasses import dataclass

from oracle.rpc.endpoints.capabilities import DAY, CapabilityStore
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.range_sizer import RangeSizer
from oracle.rpc.pool import EndpointPool

_MAX_BLOCKS = "max_blocks"
# Fact names: the log count at which responses are silently cut; that ranges omit logs.
MOST_LOGS, OMITS = "most_logs", "omits_logs"


@dataclass(frozen=True, slots=True)
class LimitMemory:
    """Stores and restores the learned limits of all endpoints of a pool.

    Without a `capability_store` nothing outlives the process.
    """

    endpoints: EndpointPool
    keeper: CapabilityStore | None

    def recall(self) -> None:
        """Restore the stored limits, once for each endpoint."""
        for endpoint in self.endpoints:
            if not endpoint.limits.is_recalled:
                endpoint.limits = self._recalled(endpoint.name)

    def keep(self, endpoint: Endpoint) -> None:
        """Store new limits; an endpoint that omits logs is moved behind the others."""
        limits = endpoint.limits
        for name, value in facts_of(limits).items():
            if limits.kept.get(name) == value:
                continue
            limits.kept[name] = value
            if name != _MAX_BLOCKS:
                self.endpoints.deprioritise(endpoint, "logs")
            if self.keeper is not None:
                self.keeper.keep(endpoint.name, name, value, DAY)

    def facts(self) -> dict[str, dict[str, str]]:
        """Return the learned limits by endpoint name, in the format of a CapabilityStore."""
        return {endpoint.name: facts_of(endpoint.limits) for endpoint in self.endpoints}

    def _recalled(self, endpoint: str) -> LearnedLimits:
        kept = {} if self.keeper is None else self.keeper.recall(endpoint)
        limit, most = kept.get(_MAX_BLOCKS, ""), kept.get(MOST_LOGS, "")
        return LearnedLimits(
            RangeSizer(limit=int(limit)) if limit.isdecimal() else RangeSizer(),
            most_logs=int(most) if most.isdecimal() else None,
            omits=kept.get(OMITS) == "1",
            is_recalled=True,
            kept={name: kept[name] for name in (_MAX_BLOCKS, MOST_LOGS, OMITS) if name in kept},
        )


def facts_of(limits: LearnedLimits) -> dict[str, str]:
    """Return the learned limits of one endpoint by fact name."""
    learned = dict[str, str]()
    if limits.sizer.is_limited:
        learned[_MAX_BLOCKS] = str(limits.sizer.limit)
    if limits.most_logs is not None:
        learned[MOST_LOGS] = str(limits.most_logs)
    if limits.omits:
        learned[OMITS] = "1"
    return learned


def tighten(endpoint: Endpoint, facts: dict[str, str]) -> None:
    """Adopt a block limit that another process learned; the lowest limit applies."""
    limit = facts.get(_MAX_BLOCKS, "")
    if limit.isdecimal() and int(limit) >= 1:
        endpoint.limits.sizer.limit = min(endpoint.limits.sizer.limit, int(limit))
