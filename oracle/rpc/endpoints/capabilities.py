"""What a probe found out about an endpoint (docs/explanation/endpoints.md#probe)."""

from dataclasses import dataclass

from oracle.domain.blocks import BlockRef


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
    anchor: bool | None = None
    fault: str | None = None
