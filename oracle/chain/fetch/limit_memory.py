"""Stores the limits learned about endpoints, and restores them in later runs.

See docs/explanation/ingest.md#ranges.
"""

from dataclasses import dataclass

from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.learned_limits import LearnedLimits, RangeSizer
from oracle.rpc.endpoints.probe import DAY, CapabilityStore
from oracle.rpc.pool import EndpointPool

_MAX_BLOCKS_FACT = "max_blocks"
# Names of two stored facts about an endpoint. The first is the log count at which the endpoint
# silently truncates a response. The second says whether it omits logs from responses for ranges.
MAX_LOGS_FACT, OMITS_LOGS_FACT = "most_logs", "omits_logs"


@dataclass(frozen=True, slots=True)
class LimitStore:
    """Stores and restores the learned limits of a pool's endpoints.

    Without a `capability_store`, the limits are lost when the process ends.
    """

    endpoints: EndpointPool
    capability_store: CapabilityStore | None

    def restore_limits(self) -> None:
        """Restore the stored limits of each endpoint, only once."""
        for endpoint in self.endpoints:
            if not endpoint.limits.is_loaded:
                endpoint.limits = self._load_limits(endpoint.name)

    def store_limits(self, endpoint: Endpoint) -> None:
        """Store new limits, and deprioritise an endpoint that omits logs."""
        limits = endpoint.limits
        for name, value in describe_limits(limits).items():
            if limits.stored_facts.get(name) == value:
                continue
            limits.stored_facts[name] = value
            if name != _MAX_BLOCKS_FACT:
                self.endpoints.deprioritise(endpoint, "logs")
            if self.capability_store is not None:
                self.capability_store.save_fact(endpoint.name, name, value, DAY)

    def collect_facts(self) -> dict[str, dict[str, str]]:
        """Return the learned limits by endpoint name, in CapabilityStore format."""
        return {endpoint.name: describe_limits(endpoint.limits) for endpoint in self.endpoints}

    def _load_limits(self, endpoint_name: str) -> LearnedLimits:
        stored_facts = (
            {}
            if self.capability_store is None
            else self.capability_store.load_facts(endpoint_name)
        )
        max_blocks = stored_facts.get(_MAX_BLOCKS_FACT, "")
        max_logs = stored_facts.get(MAX_LOGS_FACT, "")
        return LearnedLimits(
            RangeSizer(limit=int(max_blocks)) if max_blocks.isdecimal() else RangeSizer(),
            max_logs=int(max_logs) if max_logs.isdecimal() else None,
            omits_logs=stored_facts.get(OMITS_LOGS_FACT) == "1",
            is_loaded=True,
            stored_facts={
                name: stored_facts[name]
                for name in (_MAX_BLOCKS_FACT, MAX_LOGS_FACT, OMITS_LOGS_FACT)
                if name in stored_facts
            },
        )


def describe_limits(limits: LearnedLimits) -> dict[str, str]:
    """Return the learned limits of one endpoint as stored facts, by name."""
    fact_by_name = dict[str, str]()
    if limits.range_sizer.is_limited:
        fact_by_name[_MAX_BLOCKS_FACT] = str(limits.range_sizer.limit)
    if limits.max_logs is not None:
        fact_by_name[MAX_LOGS_FACT] = str(limits.max_logs)
    if limits.omits_logs:
        fact_by_name[OMITS_LOGS_FACT] = "1"
    return fact_by_name


def lower_block_limit(endpoint: Endpoint, facts: dict[str, str]) -> None:
    """Lower an endpoint's block limit to the limit that another process learned.

    A higher limit is ignored.
    """
    max_blocks = facts.get(_MAX_BLOCKS_FACT, "")
    if max_blocks.isdecimal() and int(max_blocks) >= 1:
        endpoint.limits.range_sizer.limit = min(endpoint.limits.range_sizer.limit, int(max_blocks))
