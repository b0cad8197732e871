"""Whose chain an endpoint shows: its chain id, and blocks whose hashes we know.

See docs/explanation/endpoints.md#whose-chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.headers import headers
from oracle.rpc.responses import Quantity, number


class Checkpoint(NamedTuple):
    """A block that every endpoint must show with this hash; `source` says who says so."""

    number: int
    hash: Hash
    source: str


def fault_in_chain(
    client: JsonRpcClient,
    chain_id: int,
    wanted: Sequence[Checkpoint],
    *,
    seconds: float | None,
) -> str | None:
    """Return why the endpoint is not of our chain, in a sentence; None: it is.

    `seconds` is how long the first answer may take; None: as usual. A checkpoint above
    its newest block, or that it does not know, proves nothing.

    Raises:
        RpcError: it does not answer.
    """
    written = client.call("eth_chainId", [], Quantity, timeout_seconds=seconds)
    found = number(client.name, written)
    if found != chain_id:
        return f"is on chain {found}, [chain] id says {chain_id}"
    if not wanted:
        return None
    blocks = headers(client, [one.number for one in wanted])
    faults = (fault_in(block, one) for block, one in zip(blocks, wanted, strict=True))
    return next((fault for fault in faults if fault), None)


def fault_in(block: BlockRef | None, wanted: Checkpoint) -> str | None:
    """Return why this is not the checkpoint's block, in a sentence; None: it is, or is unknown."""
    if block is None or block.hash == wanted.hash:
        return None
    return f"shows block {wanted.number} as {block.hash}; {wanted.source} says {wanted.hash}"
