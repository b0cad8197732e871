"""Reads block headers by height or tag, in batches, with their parent links checked."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.responses import FullHeaderResponse, block_ref
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def header(client: JsonRpcClient, number_or_tag: int | str) -> BlockRef | None:
    """Return a block by height or tag; None if the endpoint does not have it.

    Raises:
        RpcError: the response is missing or invalid.
    """
    return headers(client, [number_or_tag])[0]


def headers(client: JsonRpcClient, wanted: Iterable[int | str]) -> list[BlockRef | None]:
    """Return blocks by height or tag, None for each that the endpoint does not have.

    Raises:
        RpcError: a response is missing or invalid, or is for another height.
    """
    asked = list(wanted)
    return checked(client, asked, header_answers(client, asked))


def header_answers(
    client: JsonRpcClient, asked: Sequence[int | str]
) -> list[FullHeaderResponse | None]:
    """Return headers as the endpoint returns them, unchecked. Raises RpcError."""
    params = [[hex(place) if isinstance(place, int) else place, False] for place in asked]
    return client.batch("eth_getBlockByNumber", params, FullHeaderResponse)


def checked(
    client: JsonRpcClient,
    asked: Sequence[int | str],
    answers: Sequence[FullHeaderResponse | None],
) -> list[BlockRef | None]:
    """Parse blocks from these headers. Raises RpcError if one is invalid or of another height."""
    blocks = [None if answer is None else block_ref(client.name, answer) for answer in answers]
    for place, block in zip(asked, blocks, strict=True):
        if block is not None and isinstance(place, int) and block.number != place:
            raise RpcError(client.name, ErrorKind.INVALID, f"another block for {place}")
    return blocks


def linked(client: JsonRpcClient, blocks: BlockRange) -> list[BlockRef]:
    """Return every block of the range, each the parent of the next.

    Heights that the chain skipped are left out: the next block links to the block before them.
    Blocks missing at either end are left out too; the neighbouring ranges show whether they exist.

    Raises:
        RpcError: the blocks do not link.
    """
    found = headers(client, range(blocks.first, blocks.last + 1))
    chain = [block for block in found if block is not None]
    for parent, child in pairwise(chain):
        if child.parent_hash != parent.hash:
            words = f"block {child.number} does not follow block {parent.number}"
            raise RpcError(client.name, ErrorKind.INVALID, words)
    return chain
