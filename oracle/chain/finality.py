"""Determines the final block by the `finalized` tag, a depth in blocks and one in seconds.

See docs/explanation/ingest.md#finality.
"""

from dataclasses import dataclass

from oracle.chain.fetch.skipped_heights import block_up_to
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Finality:
    """The depth, in blocks and in seconds, below the newest block at which a block is final.

    A depth in blocks alone fails on fast chains (ponder #2359), so that seconds are needed too.
    Seconds are compared with block timestamps.
    """

    depth: int
    seconds: int = 0


def final_block(
    endpoint: Endpoint,
    finality: Finality,
    latest: BlockRef,
    finalized: BlockRef | None,
    before: BlockRef | None,
) -> BlockRef:
    """Return the final block as of `latest`: the lowest of all three, never below `previous_final`.

    Raises:
        RpcError: the endpoint does not have the block, or does not answer.
    """
    reached = max(0, latest.number - finality.depth)
    if finalized is not None and finalized.number <= reached:
        reached = finalized.number
    if before is not None and reached <= before.number:
        return before
    has_it = finalized is not None and finalized.number == reached
    top = finalized if has_it and finalized is not None else block_up_to(endpoint, reached)
    newest_time = latest.time - finality.seconds
    if finality.seconds and top.time > newest_time:
        top = _old_enough(endpoint, before, top, newest_time)
    # Where heights were skipped, the candidate may be below the requested height.
    return before if before is not None and top.number < before.number else top


def _old_enough(
    endpoint: Endpoint, before: BlockRef | None, top: BlockRef, newest_time: int
) -> BlockRef:
    """Return the highest block below `top` with a timestamp of at most `max_timestamp`.

    Without such a block, return `previous_final`, or block 0. Starting from the previous final
    block the search takes one request per block, otherwise a few dozen requests.
    """
    low, high = _around(endpoint, before, top, newest_time)
    # The chain may have skipped heights: `low` is the highest block up to `low_height`.
    reached, above = low.number, high.number
    while above - reached > 1:
        height = (reached + above) // 2
        middle = block_up_to(endpoint, height)
        if middle.time <= newest_time:
            low, reached = middle, height
        else:
            above = middle.number
    return low


def _around(
    endpoint: Endpoint, before: BlockRef | None, top: BlockRef, newest_time: int
) -> tuple[BlockRef, BlockRef]:
    """Return a block that is old enough, and a higher one that is not.

    Block 0 and the previous final block always count as old enough.
    """
    step = 1
    if before is None:
        high = top
        while True:
            low = block_up_to(endpoint, max(0, top.number - step))
            if low.time <= newest_time or low.number == 0:
                return low, high
            high, step = low, 2 * step
    low = before
    while before.number + step < top.number:
        high = block_up_to(endpoint, before.number + step)
        if high.time > newest_time:
            return low, high
        low, step = high, 2 * step
    return low, top
