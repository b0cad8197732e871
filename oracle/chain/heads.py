"""How far the chain has come: newest, safe and final block."""

from dataclasses import dataclass

from oracle.domain.block import BlockRef


@dataclass(frozen=True, slots=True)
class Heads:
    """One look at the chain; all three come from one endpoint.

    `final` is the lower of the endpoint's `finalized` block, where it knows one, and of the
    newest block less the finality depth; it never goes down (chain.md 3.3). `safe` is None where
    the endpoint does not know it.
    """

    latest: BlockRef
    safe: BlockRef | None
    final: BlockRef
