"""Tells heights that the chain skipped from blocks that an endpoint lacks.

That nobody shows a block at a height proves nothing. That the next block names one below it as its
parent does. See docs/explanation/ingest.md#skipped-heights.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import (
    FullHeader,
    chained,
    full_header_of,
    full_headers_of,
)
from oracle.chain.verification.header_check import is_hashed_right
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.headers import linked
from oracle.rpc.responses import Quantity, number
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Heights that are looked at one by one, before every second, fourth, eighth one is.
_NEAR = 16
# An honest chain takes one or two; who makes blocks up is not followed for ever.
_ROUNDS = 64


class Neighbours(NamedTuple):
    """The blocks right before and right after heights that have none."""

    before: FullHeader
    after: FullHeader


def linked_up_to(
    endpoint: Endpoint, blocks: BlockRange, calibration: Calibration, *, full: bool
) -> list[FullHeader]:
    """Return the blocks of a range, linked; where there is none the next one after it.

    What is missing before the first of them was skipped: its parent lies below the range. What is
    missing after the last one is asked for again. For `full` see `full_headers_of`.

    Raises:
        RpcError: one is missing, they do not link, or the endpoint does not show that they do.
    """
    chain = chained(endpoint, blocks, full=full)
    if not chain:
        after = neighbours(endpoint, blocks).after.block.number
        chain = chained(endpoint, BlockRange(after, after), full=full)
    if chain and chain[0].block.number == blocks.first:
        return chain
    before = parent_of(endpoint, chain[0]) if chain else None
    if before is None or before.block.number >= blocks.first:
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {blocks.first}")
    if calibration.has(HeaderFeature.HEADER) and not is_hashed_right(before):
        words = f"block {before.block.number}: its header has another hash"
        raise RpcError(endpoint.name, ErrorKind.INVALID, words)
    return chain


def linked_blocks(endpoint: Endpoint, blocks: BlockRange) -> list[BlockRef]:
    """Return every block of the range, each the parent of the next; none where all were skipped.

    Raises:
        RpcError: one is missing, or they do not link.
    """
    chain = linked(endpoint.client, blocks)
    first = chain[-1].number + 1 if chain else blocks.first
    if first <= blocks.last:
        around = neighbours(endpoint, BlockRange(first, blocks.last))
        if chain and around.before.block.hash != chain[-1].hash:
            words = f"block {around.after.block.number} does not follow block {first - 1}"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
    return chain


def highest(endpoint: Endpoint, wanted: int) -> int:
    """Return how far an endpoint has come; asked anew where that is not known to be `wanted`.

    Raises:
        RpcError: no usable answer.
    """
    if endpoint.highest_block < wanted:
        answer = endpoint.client.call("eth_blockNumber", [], Quantity)
        endpoint.highest_block = number(endpoint.name, answer)
    return endpoint.highest_block


def await_height(endpoint: Endpoint, last: int) -> None:
    """Never ask an endpoint for a block above its own head: it would say that it is empty.

    Raises:
        RpcError: it has not got it.
    """
    if highest(endpoint, last) < last:
        words = f"has blocks up to {endpoint.highest_block}, not {last}"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)


def neighbours(endpoint: Endpoint, skipped: BlockRange) -> Neighbours:
    """Return the blocks around heights at which an endpoint shows none, as its hashes prove them.

    Whichever block above is found, its parents lead down to the next one.

    Raises:
        RpcError: it has no block above, or one of these heights after all; or no usable answer.
    """
    top = highest(endpoint, skipped.last + 1)
    for _ in range(_ROUNDS):
        after = _lowest(endpoint, skipped, top)
        before = parent_of(endpoint, after)
        if before.block.number < skipped.first:
            return Neighbours(before, after)
        top = before.block.number
        if top <= skipped.last:
            words = f"has a block {top}, and shows none at that height"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
    words = f"shows no way from block {top} to the one after block {skipped.first - 1}"
    raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)


def block_up_to(endpoint: Endpoint, height: int) -> BlockRef:
    """Return the block of this height, or the last one before it where the chain skipped it.

    Raises:
        RpcError: the endpoint lacks it, or gives no usable answer.
    """
    block = endpoint.header(height)
    if block is not None:
        return block
    return neighbours(endpoint, BlockRange(height, height)).before.block


def parent_of(endpoint: Endpoint, child: FullHeader) -> FullHeader:
    """Return a block's parent, by its hash.

    Raises:
        RpcError: the endpoint lacks it, or it is not below its child; or no usable answer.
    """
    parent, height = full_header_of(endpoint, child.block.parent_hash), child.block.number
    if parent is None:
        words = f"lacks the block before block {height}"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
    if parent.block.number >= height:
        words = f"block {height} stands on block {parent.block.number}"
        raise RpcError(endpoint.name, ErrorKind.INVALID, words)
    return parent


def _lowest(endpoint: Endpoint, skipped: BlockRange, top: int) -> FullHeader:
    """Return a low block above these heights, and up to `top`.

    Nearly always the lowest there is: right below it is none.
    """
    heights = _looked_at(skipped.last, top)
    found = full_headers_of(endpoint, heights) if heights else []
    missing = skipped.last
    for height, block in zip(heights, found, strict=True):
        if block is not None:
            return _bisected(endpoint, missing, block)
        missing = height
    words = f"no block {skipped.first}, nor one after it up to {max(top, skipped.last)}"
    raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)


def _looked_at(below: int, top: int) -> Sequence[int]:
    """Return heights to be looked at above `below`, the farther the fewer, and `top`."""
    steps = [*range(1, _NEAR), *(1 << power for power in range(4, top.bit_length() + 1))]
    heights = [below + step for step in steps if below + step < top]
    return [*heights, top] if top > below else []


def _bisected(endpoint: Endpoint, missing: int, block: FullHeader) -> FullHeader:
    while block.block.number - missing > 1:
        middle = (missing + block.block.number) // 2
        (found,) = full_headers_of(endpoint, [middle])
        if found is None:
            missing = middle
        else:
            block = found
    return block
