"""Capabilities of an endpoint that a probe found, and the protocol of the store that keeps them.

See docs/explanation/endpoints.md#probe.
"""

from dataclasses import dataclass
from typing import Protocol

from oracle.domain.blocks import BlockRef

# Block tags below the newest block.
TAGS = ("safe", "finalized")
HOUR = 3600.0
DAY = 24 * HOUR
# Facts of the chain, rather than of an endpoint, are stored under this name.
CHAIN_FACTS_KEY = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Result of probing one endpoint; an unsupported feature is None or False.

    `tags` are the supported block tags among `safe` and `finalized`. `max_batch_size` is the
    largest batch that the endpoint accepted. `oldest_log_block` is the oldest probed block whose
    logs it returned. `fault` is why the endpoint must not be used.
    """

    chain_id: int | None = None
    client: str | None = None
    head: BlockRef | None = None
    tags: tuple[str, ...] = ()
    has_logs_by_hash: bool = False
    has_block_receipts: bool = False
    max_batch_size: int = 1
    oldest_log_block: int | None = None
    # None if there is no checkpoint, or if all are above the endpoint's head.
    shows_checkpoint: bool | None = None
    fault: str | None = None


class CapabilityStore(Protocol):
    """Stores facts by endpoint and key; implemented over the table `endpoint_fact`."""

    def load_facts(self, endpoint: str) -> dict[str, str]:
        """Return the stored facts of this endpoint that have not expired."""
        ...

    def save_fact(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Store a fact that expires after `seconds`, or never if that is None."""
        ...
