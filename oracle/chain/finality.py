"""Determines the final block by the `finalized` tag, a depth in blocks and a depth in seconds.

See docs/explanation/ingest.md#finality.
"""

from dataclasses import dataclass

from oracle.chain.fetch.skipped_heights import fetch_block_at_or_below
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Finality:
    """The depth, in blocks and in seconds, below the newest block at which a block is final.

    A depth in blocks alone is not safe on fast chains (ponder #2359), so seconds are needed too.
    They are compared with block timestamps.
    """

    depth: int
    seconds: int = 0


def determine_final_block(
    endpoint: Endpoint,
    finality: Finality,
    latest: BlockRef,
    finalized: BlockRef | None,
    previous_final: BlockRef | None,
) -> BlockRef:
    """Return the final block as of `latest`, which is never below `previous_final`.

    A block is final only if the tag, the depth in blocks and the depth in seconds all allow it.

    Raises:
        RpcError: the endpoint does not have the block, or does not answer.
    """
    final_height = max(0, latest.number - finality.depth)
    if finalized is not None and finalized.number <= final_height:
        final_height = finalized.number
    if previous_final is not None and final_height <= previous_final.number:
        return previous_final
    is_tagged_block = finalized is not None and finalized.number == final_height
    candidate = (
        finalized
        if is_tagged_block and finalized is not None
        else fetch_block_at_or_below(endpoint, final_height)
    )
    max_timestamp = latest.time - finality.seconds
    if finality.seconds and candidate.time > max_timestamp:
        candidate = _find_old_enough_block(endpoint, previous_final, candidate, max_timestamp)
    # Where heights were skipped, the candidate may be below the requested height.
    return (
        previous_final
        if previous_final is not None and candidate.number < previous_final.number
        else candidate
    )


def _find_old_enough_block(
    endpoint: Endpoint, previous_final: BlockRef | None, top: BlockRef, max_timestamp: int
) -> BlockRef:
    """Return the highest block below `top` with a timestamp of at most `max_timestamp`.

    Without such a block, return `previous_final`, or block 0. Starting from the previous final
    block the search takes one request per block, otherwise a few dozen requests.
    """
    low, high = _bracket_timestamp(endpoint, previous_final, top, max_timestamp)
    # The chain may have skipped heights: `low` is the highest block up to `low_height`.
    low_height, high_height = low.number, high.number
    while high_height - low_height > 1:
        height = (low_height + high_height) // 2
        middle_block = fetch_block_at_or_below(endpoint, height)
        if middle_block.time <= max_timestamp:
            low, low_height = middle_block, height
        else:
            high_height = middle_block.number
    return low


def _bracket_timestamp(
    endpoint: Endpoint, previous_final: BlockRef | None, top: BlockRef, max_timestamp: int
) -> tuple[BlockRef, BlockRef]:
    """Return a block that is old enough, and a higher one that is not.

    Block 0 and the previous final block always count as old enough.
    """
    step = 1
    if previous_final is None:
        high = top
        while True:
            low = fetch_block_at_or_below(endpoint, max(0, top.number - step))
            if low.time <= max_timestamp or low.number == 0:
                return low, high
            high, step = low, 2 * step
    low = previous_final
    while previous_final.number + step < top.number:
        high = fetch_block_at_or_below(endpoint, previous_final.number + step)
        if high.time > max_timestamp:
            return low, high
        low, step = high, 2 * step
    return low, top
