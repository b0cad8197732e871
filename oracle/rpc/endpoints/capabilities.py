"""What a probe found out about an endpoint, and what keeps it over a restart.

See docs/explanation/endpoints.md#probe.
"""

from dataclasses import dataclass
from typing import Protocol

from oracle.domain.blocks import BlockRef

# Tags of blocks below the newest one.
TAGS = ("safe", "finalized")
HOUR = 3600.0
DAY = 24 * HOUR
# Facts of the chain, and not of an endpoint, stand under this name.
OF_CHAIN = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One probe of one endpoint; None or False where it does not answer that.

    `tags` are those of safe and finalized that it knows; `batch` is the largest batch that it
    took of 100, 50, 20 or 1; `oldest_logs` the oldest block of those asked whose logs it gives;
    `fault` says why it must not be used.
    """

    chain_id: int | None = None
    client: str | None = None
    head: BlockRef | None = None
    tags: tuple[str, ...] = ()
    has_logs_by_hash: bool = False
    has_block_receipts: bool = False
    batch: int = 1
    oldest_logs: int | None = None
    # None: no anchor was known, or the endpoint does not reach it.
    checkpoint: bool | None = None
    fault: str | None = None


class CapabilityStore(Protocol):
    """Keeps plain values by endpoint and key; `app` hands in the database's `endpoint_fact`."""

    def recall(self, endpoint: str) -> dict[str, str]:
        """Return what is known of this endpoint and has not expired."""
        ...

    def keep(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Remember a value for so long; None: for ever."""
        ...
