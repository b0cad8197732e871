"""Distinguishes heights that the chain skipped from blocks that an endpoint lacks.

A height at which no endpoint shows a block is no proof. The proof is that the next block names
a block below the height as its parent. See docs/explanation/ingest.md#skipped-heights.
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

# How many heights are queried one by one, before the steps grow exponentially.
_NEAR = 16
# An honest chain takes one or two rounds; the limit stops endpoints that invent blocks.
_ROUNDS = 64


class Neighbours(NamedTuple):
    """The blocks directly before and after a range of heights without blocks."""

    before: FullHeader
    after: FullHeader


def linked_up_to(
    endpoint: Endpoint, blocks: BlockRange, calibration: Calibration, *, full: bool
) -> list[FullHeader]:
    """Return the linked blocks of a range, or the next block after it if the range has none.

    Heights missing before the first block were skipped: its parent is below the range. Blocks
    missing after the last one are requested again later. `with_transactions`: see
    `fetch_full_headers`.

    Raises:
        RpcError: a block is missing, the blocks do not link, or the endpoint cannot prove it.
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
    """Return every block of the range, each the parent of the next; empty if all were skipped.

    Raises:
        RpcError: a block is missing, or they do not link.
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
    """Return the endpoint's highest block, queried only if not known to be high enough.

    Raises:
        RpcError: no usable answer.
    """
    if endpoint.highest_block < wanted:
        answer = endpoint.client.call("eth_blockNumber", [], Quantity)
        endpoint.highest_block = number(endpoint.name, answer)
    return endpoint.highest_block


def await_height(endpoint: Endpoint, last: int) -> None:
    """Check that the endpoint has a height before it is queried there.

    Above their own head, endpoints return empty results instead of an error.

    Raises:
        RpcError: the endpoint has not reached the height.
    """
    if highest(endpoint, last) < last:
        words = f"has blocks up to {endpoint.highest_block}, not {last}"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)


def neighbours(endpoint: Endpoint, skipped: BlockRange) -> Neighbours:
    """Return the blocks around heights at which an endpoint shows none, as proven by parent hashes.

    From any block above the gap, the parent hashes lead down to the first block after it.

    Raises:
        RpcError: the endpoint has no block above, or has one of these heights; or no usable
            answer.
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
    """Return the block at this height, or the last one before it if the chain skipped the height.

    Raises:
        RpcError: the endpoint lacks the block, or gives no usable answer.
    """
    block = endpoint.header(height)
    if block is not None:
        return block
    return neighbours(endpoint, BlockRange(height, height)).before.block


def parent_of(endpoint: Endpoint, child: FullHeader) -> FullHeader:
    """Return a block's parent, fetched by its hash.

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
    """Return a low block above these heights, and up to `highest_number`.

    The block is nearly always the lowest one, because there is none directly below it.
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
    """Return heights to query above `lower_height`, in growing steps, and the highest one."""
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
