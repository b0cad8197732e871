"""Reads block headers in batches, by height or tag, and checks their parent links."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.responses import FullHeaderResponse, parse_block
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def get_header(client: JsonRpcClient, number_or_tag: int | str) -> BlockRef | None:
    """Fetch a block by height or tag, or None if the endpoint does not have it.

    Raises:
        RpcError: the response is missing or invalid.
    """
    return get_headers(client, [number_or_tag])[0]


def get_headers(
    client: JsonRpcClient,
    heights_or_tags: Iterable[int | str],
    *,
    timeout_seconds: float | None = None,
) -> list[BlockRef | None]:
    """Fetch blocks by height or tag.

    The result is None for each block that the endpoint does not have. `timeout_seconds` is how
    long a response may take to begin; None uses the client's timeout.

    Raises:
        RpcError: a response is missing or invalid, or is for another height.
    """
    requested_blocks = list(heights_or_tags)
    full_headers = fetch_full_headers(client, requested_blocks, timeout_seconds=timeout_seconds)
    return parse_headers(client, requested_blocks, full_headers)


def fetch_full_headers(
    client: JsonRpcClient,
    heights_or_tags: Sequence[int | str],
    *,
    timeout_seconds: float | None = None,
) -> list[FullHeaderResponse | None]:
    """Fetch full headers as the endpoint returns them, without checks.

    Raises RpcError.
    """
    params = [
        [hex(height_or_tag) if isinstance(height_or_tag, int) else height_or_tag, False]
        for height_or_tag in heights_or_tags
    ]
    return client.call_batch(
        "eth_getBlockByNumber", params, FullHeaderResponse, timeout_seconds=timeout_seconds
    )


def parse_headers(
    client: JsonRpcClient,
    heights_or_tags: Sequence[int | str],
    headers: Sequence[FullHeaderResponse | None],
) -> list[BlockRef | None]:
    """Parse headers, and check that each has the requested height.

    Raises RpcError.
    """
    block_refs = [
        None if header is None else parse_block(client.name, header) for header in headers
    ]
    for height_or_tag, block in zip(heights_or_tags, block_refs, strict=True):
        if block is not None and isinstance(height_or_tag, int) and block.number != height_or_tag:
            message = f"returned another block for {height_or_tag}: {block.number}"
            raise RpcError(client.name, ErrorKind.INVALID, message)
    return block_refs


def fetch_linked_block_refs(client: JsonRpcClient, block_range: BlockRange) -> list[BlockRef]:
    """Fetch the blocks of a range, and check that each is the parent of the next.

    Some chains skip heights. A skipped height is left out, and the next block must link to the
    block before it. Blocks that are missing at either end of the range are left out as well,
    because only the neighbouring ranges can show whether they exist.

    Raises:
        RpcError: the blocks are not linked.
    """
    fetched_blocks = get_headers(client, range(block_range.first, block_range.last + 1))
    linked_blocks = [
        fetched_block for fetched_block in fetched_blocks if fetched_block is not None
    ]
    for parent, child in pairwise(linked_blocks):
        if child.parent_hash != parent.hash:
            message = f"block {child.number} does not follow block {parent.number}"
            raise RpcError(client.name, ErrorKind.INVALID, message)
    return linked_blocks
