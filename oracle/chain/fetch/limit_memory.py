"""What was learned of the endpoints' limits: taken up from an earlier run, kept for the next one.

See docs/explanation/ingest.md#ranges.
"""

from dataclasses import dataclass

from oracle.rpc.endpoints.capabilities import DAY, CapabilityStore
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.range_sizer import RangeSizer
from oracle.rpc.pool import EndpointPool

_MAX_BLOCKS = "max_blocks"
# At how many logs its answers stop without a word; that its ranges leave logs out.
MOST_LOGS, OMITS = "most_logs", "omits_logs"


@dataclass(frozen=True, slots=True)
class LimitMemory:
    """Of all endpoints of a pool; `keeper` None: nothing outlives the process."""

    endpoints: EndpointPool
    keeper: CapabilityStore | None

    def recall(self) -> None:
        """Take up what is known, once for each endpoint."""
        for endpoint in self.endpoints:
            if not endpoint.limits.is_recalled:
                endpoint.limits = self._recalled(endpoint.name)

    def keep(self, endpoint: Endpoint) -> None:
        """Keep what is new; who leaves logs out loses its place."""
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
        """Return what is known by the name of each endpoint, as a keeper recalls it."""
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
    """Return what is known of one endpoint's limits."""
    learned = dict[str, str]()
    if limits.sizer.is_limited:
        learned[_MAX_BLOCKS] = str(limits.sizer.limit)
    if limits.most_logs is not None:
        learned[MOST_LOGS] = str(limits.most_logs)
    if limits.omits:
        learned[OMITS] = "1"
    return learned


def tighten(endpoint: Endpoint, facts: dict[str, str]) -> None:
    """Take a limit of blocks over that somebody else was told of; the least one holds."""
    limit = facts.get(_MAX_BLOCKS, "")
    if limit.isdecimal() and int(limit) >= 1:
        endpoint.limits.sizer.limit = min(endpoint.limits.sizer.limit, int(limit))
