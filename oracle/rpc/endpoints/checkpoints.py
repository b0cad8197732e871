"""Checks by chain id and known block hashes that an endpoint serves the configured chain.

See docs/explanation/endpoints.md#whose-chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.headers import get_headers
from oracle.rpc.responses import Quantity, parse_quantity


class Checkpoint(NamedTuple):
    """A block that every endpoint must show with this hash; `source` names the hash's origin."""

    number: int
    hash: Hash
    source: str


def find_chain_mismatch(
    client: JsonRpcClient,
    chain_id: int,
    checkpoints: Sequence[Checkpoint],
    *,
    timeout_seconds: float | None,
) -> str | None:
    """Return why the endpoint is not on the configured chain, or None if it is.

    `timeout_seconds` is how long the first response may take; None uses the client's timeout. A
    checkpoint whose block the endpoint does not have, for example above its head, proves nothing.

    Raises:
        RpcError: the endpoint does not respond.
    """
    chain_id_hex = client.call("eth_chainId", [], Quantity, timeout_seconds=timeout_seconds)
    actual_chain_id = parse_quantity(client.name, chain_id_hex)
    if actual_chain_id != chain_id:
        return f"is on chain {actual_chain_id}, but [chain] id is {chain_id}"
    if not checkpoints:
        return None
    blocks = get_headers(client, [checkpoint.number for checkpoint in checkpoints])
    mismatches = (
        checkpoint_mismatch(block, checkpoint)
        for block, checkpoint in zip(blocks, checkpoints, strict=True)
    )
    return next((mismatch for mismatch in mismatches if mismatch), None)


def checkpoint_mismatch(block: BlockRef | None, checkpoint: Checkpoint) -> str | None:
    """Return why the block differs from the checkpoint, or None if it matches or is missing."""
    if block is None or block.hash == checkpoint.hash:
        return None
    return (
        f"shows block {checkpoint.number} as {block.hash}, but {checkpoint.source} has "
        f"{checkpoint.hash}"
    )
