"""Distinguishes heights that the chain skipped from blocks that an endpoint lacks.

The chain has skipped a height if the parent of the next block is below this height. It is no proof
if an endpoint returns no block at the height. See docs/explanation/ingest.md#skipped-heights.
"""

from collections.abc import Sequence

from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import (
    FullHeader,
    fetch_full_header_by_hash,
    fetch_full_headers,
    fetch_linked_headers,
)
from oracle.chain.verification.header_check import has_valid_hash
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.headers import fetch_linked_block_refs
from oracle.rpc.responses import Quantity, parse_quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# The search visits this many heights one by one, then its steps grow exponentially.
_MAX_SINGLE_STEPS = 16
# Maximum number of rounds. A real chain needs one or two; the limit stops endpoints that invent
# blocks.
_MAX_ROUNDS = 64


def fetch_linked_headers_or_next(
    endpoint: Endpoint, blocks: BlockRange, calibration: Calibration, *, with_transactions: bool
) -> list[FullHeader]:
    """Return the linked headers of a range, or the next header if the range has no block.

    If heights are missing before the first block, the chain has skipped them, because the parent
    of the first block is below the range. Blocks that are missing after the last block will be
    requested again. With `with_transactions`, blocks contain full transactions instead of hashes.

    Raises:
        RpcError: a block is missing, the blocks are not linked by parent hash, or the endpoint
            cannot prove that heights were skipped.
    """
    linked_headers = fetch_linked_headers(endpoint, blocks, with_transactions=with_transactions)
    if not linked_headers:
        _, next_header = _fetch_neighbour_headers(endpoint, blocks)
        next_number = next_header.block.number
        linked_headers = fetch_linked_headers(
            endpoint, BlockRange(next_number, next_number), with_transactions=with_transactions
        )
    if linked_headers and linked_headers[0].block.number == blocks.first:
        return linked_headers
    parent = fetch_parent_header(endpoint, linked_headers[0]) if linked_headers else None
    if parent is None or parent.block.number >= blocks.first:
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {blocks.first}")
    if calibration.is_proven(HeaderFeature.HEADER) and not has_valid_hash(parent):
        message = f"block {parent.block.number}: the header does not hash to the block hash"
        raise RpcError(endpoint.name, ErrorKind.INVALID, message)
    return linked_headers


def fetch_linked_blocks(endpoint: Endpoint, blocks: BlockRange) -> list[BlockRef]:
    """Return all blocks of the range, linked by parent hash.

    Skipped heights are left out. The result is empty if all heights were skipped.

    Raises:
        RpcError: a block is missing, or the blocks are not linked by parent hash.
    """
    linked_blocks = fetch_linked_block_refs(endpoint.client, blocks)
    next_number = linked_blocks[-1].number + 1 if linked_blocks else blocks.first
    if next_number <= blocks.last:
        header_before, header_after = _fetch_neighbour_headers(
            endpoint, BlockRange(next_number, blocks.last)
        )
        if linked_blocks and header_before.block.hash != linked_blocks[-1].hash:
            message = f"block {header_after.block.number} does not follow block {next_number - 1}"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    return linked_blocks


def fetch_highest_block_number(endpoint: Endpoint, required_height: int) -> int:
    """Fetch the number of the endpoint's highest block.

    The endpoint is queried only if its highest known block is below `required_height`.

    Raises:
        RpcError: the endpoint gives no usable answer.
    """
    if endpoint.highest_block < required_height:
        response = endpoint.client.call("eth_blockNumber", [], Quantity)
        endpoint.highest_block = parse_quantity(endpoint.name, response)
    return endpoint.highest_block


def check_endpoint_has_height(endpoint: Endpoint, height: int) -> None:
    """Check that the endpoint's chain has reached a height.

    Call this before a query, because endpoints return empty results above their head instead of
    errors.

    Raises:
        RpcError: the endpoint has not reached the height.
    """
    if fetch_highest_block_number(endpoint, height) < height:
        message = f"is at block {endpoint.highest_block}, below the requested block {height}"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)


def _fetch_neighbour_headers(
    endpoint: Endpoint, skipped_range: BlockRange
) -> tuple[FullHeader, FullHeader]:
    """Fetch the headers directly before and after skipped heights.

    Parent hashes prove both of them. The block after the gap is found from any block above it, by
    following the parent hashes.

    Raises:
        RpcError: the endpoint has no block above the range, has a block inside it, or gives no
            usable answer.
    """
    highest_number = fetch_highest_block_number(endpoint, skipped_range.last + 1)
    for _ in range(_MAX_ROUNDS):
        header_above = _fetch_lowest_header_above(endpoint, skipped_range, highest_number)
        header_below = fetch_parent_header(endpoint, header_above)
        if header_below.block.number < skipped_range.first:
            return header_below, header_above
        highest_number = header_below.block.number
        if highest_number <= skipped_range.last:
            message = f"has block {highest_number} by its hash, but not by its height"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    message = (
        f"parent hashes from block {highest_number} down do not lead to the block after block "
        f"{skipped_range.first - 1}"
    )
    raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)


def fetch_block_at_or_below(endpoint: Endpoint, height: int) -> BlockRef:
    """Fetch the block at this height, or the last block below it if it was skipped.

    Raises:
        RpcError: the endpoint lacks the block, or gives no usable answer.
    """
    block = endpoint.get_header(height)
    if block is not None:
        return block
    previous_header, _ = _fetch_neighbour_headers(endpoint, BlockRange(height, height))
    return previous_header.block


def fetch_parent_header(endpoint: Endpoint, child: FullHeader) -> FullHeader:
    """Fetch the parent of a block by its hash.

    Raises:
        RpcError: the endpoint lacks the parent, the parent is not below its child, or the answer
            is not usable.
    """
    parent = fetch_full_header_by_hash(endpoint, child.block.parent_hash)
    height = child.block.number
    if parent is None:
        message = f"the parent of block {height} is not available"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    if parent.block.number >= height:
        message = f"block {height} has the parent {parent.block.number}; expected a lower block"
        raise RpcError(endpoint.name, ErrorKind.INVALID, message)
    return parent


def _fetch_lowest_header_above(
    endpoint: Endpoint, skipped_range: BlockRange, highest_number: int
) -> FullHeader:
    """Fetch the header of the block that ends the gap above `skipped_range`.

    There is no block at the height directly below the returned block. Its own height is at most
    `highest_number`. It is nearly always the lowest block above the range.
    """
    heights = _select_probe_heights(skipped_range.last, highest_number)
    headers = fetch_full_headers(endpoint, heights) if heights else []
    missing_height = skipped_range.last
    for height, block in zip(heights, headers, strict=True):
        if block is not None:
            return _bisect_lowest_header(endpoint, missing_height, block)
        missing_height = height
    message = (
        f"no block {skipped_range.first}, nor any later block up to "
        f"{max(highest_number, skipped_range.last)}"
    )
    raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)


def _select_probe_heights(lower_height: int, highest_number: int) -> Sequence[int]:
    """Select heights at growing distances above `lower_height`, and the highest height."""
    steps = [
        *range(1, _MAX_SINGLE_STEPS),
        *(1 << power for power in range(4, highest_number.bit_length() + 1)),
    ]
    heights = [lower_height + step for step in steps if lower_height + step < highest_number]
    return [*heights, highest_number] if highest_number > lower_height else []


def _bisect_lowest_header(
    endpoint: Endpoint, missing_height: int, lowest_header: FullHeader
) -> FullHeader:
    while lowest_header.block.number - missing_height > 1:
        middle_height = (missing_height + lowest_header.block.number) // 2
        (header,) = fetch_full_headers(endpoint, [middle_height])
        if header is None:
            missing_height = middle_height
        else:
            lowest_header = header
    return lowest_header
