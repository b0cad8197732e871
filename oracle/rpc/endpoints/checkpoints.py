"""Checks that an endpoint serves the configured chain: its chain id and known block hashes.

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
    """A block that every endpoint must show with this hash; `source` names its origin."""

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
    """Return why the endpoint is not on the configured chain, or None if it is.

    `timeout_seconds` is how long the first response may take; None uses the client's timeout. A
    checkpoint above the endpoint's head, or one that it does not have, proves nothing.

    Raises:
        RpcError: the endpoint does not respond.
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
    """Return why the block is not the checkpoint's, or None if it is or is missing."""
    if block is None or block.hash == wanted.hash:
        return None
    return f"shows block {wanted.number} as {block.hash}; {wanted.source} says {wanted.hash}"
