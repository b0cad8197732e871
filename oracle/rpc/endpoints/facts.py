"""Keeps what was learned of endpoints over a restart: plain values in, plain values out."""

from typing import Protocol

from oracle.rpc.client import Endpoint
from oracle.rpc.endpoints.capabilities import Capabilities

HOUR = 3600.0
DAY = 24 * HOUR
# How long each value is believed, in seconds: it must outlive the next hourly probe.
_LASTING = 2 * HOUR


class CapabilityStore(Protocol):
    """Keeps plain values by endpoint and key; `app` hands in the database's `rpc_fact`."""

    def recall(self, endpoint: str) -> dict[str, str]:
        """Return what is known of this endpoint and has not expired."""
        ...

    def keep(self, endpoint: str, key: str, value: str, seconds: float) -> None:
        """Remember a value for so long."""
        ...


def remember(keeper: CapabilityStore, endpoint: Endpoint) -> None:
    """Hand over what the last probe of this endpoint found, and its batches."""
    facts = endpoint.facts
    if facts is None:
        return
    keeper.keep(endpoint.label, "tags", ",".join(facts.tags), _LASTING)
    keeper.keep(endpoint.label, "logs_by_hash", str(int(facts.has_logs_by_hash)), _LASTING)
    keeper.keep(endpoint.label, "block_receipts", str(int(facts.has_block_receipts)), _LASTING)
    keeper.keep(endpoint.label, "batch", str(endpoint.batch_limit), DAY)
    if facts.oldest_logs is not None:
        keeper.keep(endpoint.label, "oldest_logs", str(facts.oldest_logs), DAY)


def recall(keeper: CapabilityStore, endpoint: Endpoint) -> None:
    """Take up what was known of this endpoint; what is not in our form is passed over."""
    kept = keeper.recall(endpoint.label)
    if kept.get("batch", "").isdecimal():
        endpoint.learn_batch(int(kept["batch"]))
    if not {"tags", "logs_by_hash", "block_receipts"} <= kept.keys():
        return
    oldest = kept.get("oldest_logs", "")
    endpoint.facts = Capabilities(
        tags=tuple(tag for tag in kept["tags"].split(",") if tag),
        has_logs_by_hash=kept["logs_by_hash"] == "1",
        has_block_receipts=kept["block_receipts"] == "1",
        batch=endpoint.batch_limit,
        oldest_logs=int(oldest) if oldest.isdecimal() else None,
    )
    endpoint.tags = endpoint.facts.tags
