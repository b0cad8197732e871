"""Whose chain an endpoint shows: its chain id, and blocks whose hashes we know.

See docs/explanation/endpoints.md#whose-chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.client import Endpoint
from oracle.rpc.headers import headers
from oracle.rpc.responses import Quantity, number


class Checkpoint(NamedTuple):
    """A block that every endpoint must show with this hash; `source` says who says so."""

    number: int
    hash: Hash
    source: str


def fault_in_chain(
    endpoint: Endpoint, chain_id: int, anchors: Sequence[Checkpoint], *, within: float | None
) -> str | None:
    """Return why the endpoint is not of our chain, in a sentence; None: it is.

    `within` is how long the first answer may take, in seconds; None: as usual. An anchor above
    its newest block, or that it does not know, proves nothing.

    Raises:
        EndpointError: it does not answer.
    """
    written = endpoint.call("eth_chainId", [], Quantity, within=within)
    found = number(endpoint.name, written)
    if found != chain_id:
        return f"is on chain {found}, [chain] id says {chain_id}"
    if not anchors:
        return None
    blocks = headers(endpoint, [anchor.number for anchor in anchors])
    faults = (fault_in(block, anchor) for block, anchor in zip(blocks, anchors, strict=True))
    return next((fault for fault in faults if fault), None)


def fault_in(block: BlockRef | None, anchor: Checkpoint) -> str | None:
    """Return why this is not the anchor's block, in a sentence; None: it is, or is not known."""
    if block is None or block.hash == anchor.hash:
        return None
    return f"shows block {anchor.number} as {block.hash}; {anchor.source} says {anchor.hash}"
