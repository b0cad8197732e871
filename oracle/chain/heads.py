"""Fetches the newest, safe and final block of the chain from one endpoint.

The `finalized` tag, a depth in blocks and a depth in seconds determine the final block. See
docs/explanation/ingest.md#finality.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.chain.fetch.skipped_heights import fetch_block_at_or_below
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import TAGS, Checkpoint, find_checkpoint_mismatch
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics


@dataclass(frozen=True, slots=True)
class Finality:
    """The depth below the newest block at which a block is final.

    The depth is in blocks and in seconds. A depth in blocks alone is not safe on chains with fast
    blocks (ponder #2359). The seconds are measured by block timestamps.
    """

    depth: int
    seconds: int = 0

    def is_deep_enough(self, block: BlockRef, head: BlockRef) -> bool:
        """Return whether a block is deep enough below a head to be final.

        The depth is in blocks and in seconds.
        """
        is_old_enough = not self.seconds or block.time <= head.time - self.seconds
        return block.number <= head.number - self.depth and is_old_enough


def determine_final_block(
    endpoint: Endpoint,
    finality: Finality,
    latest_block: BlockRef,
    finalized_block: BlockRef | None,
    previous_final: BlockRef | None,
) -> BlockRef:
    """Return the final block as of `latest_block`.

    The result is never below `previous_final`. A block is final only if the tag, the depth in
    blocks and the depth in seconds all permit it.

    Raises:
        RpcError: the endpoint does not have the block, or does not answer.
    """
    final_height = max(0, latest_block.number - finality.depth)
    if finalized_block is not None and finalized_block.number <= final_height:
        final_height = finalized_block.number
    if previous_final is not None and final_height <= previous_final.number:
        return previous_final
    is_tagged_block = finalized_block is not None and finalized_block.number == final_height
    candidate_block = (
        finalized_block
        if is_tagged_block and finalized_block is not None
        else fetch_block_at_or_below(endpoint, final_height)
    )
    max_timestamp = latest_block.time - finality.seconds
    if finality.seconds and candidate_block.time > max_timestamp:
        candidate_block = _find_last_block_before_time(
            endpoint, previous_final, candidate_block, max_timestamp
        )
    # If the chain skipped heights, the candidate may be below the requested height, and even below
    # `previous_final`.
    if previous_final is not None and candidate_block.number < previous_final.number:
        return previous_final
    return candidate_block


def _find_last_block_before_time(
    endpoint: Endpoint, previous_final: BlockRef | None, top: BlockRef, max_timestamp: int
) -> BlockRef:
    """Return the last block below `top` with a timestamp of at most `max_timestamp`.

    If there is no such block, return `previous_final`, or block 0 if it is None. A search from the
    previous final block usually takes a few requests, and any other search takes a few dozen.
    """
    low, high = _bracket_timestamp(endpoint, previous_final, top, max_timestamp)
    # `low_height` may be above the number of the block `low`, because a chain may skip heights.
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
    """Return a block at or before `max_timestamp`, and a later block after it.

    Block 0 and the previous final block always count as old enough.
    """
    step = 1
    if previous_final is None:
        high_block = top
        while True:
            low_block = fetch_block_at_or_below(endpoint, max(0, top.number - step))
            if low_block.time <= max_timestamp or low_block.number == 0:
                return low_block, high_block
            high_block = low_block
            step = 2 * step
    low_block = previous_final
    while previous_final.number + step < top.number:
        high_block = fetch_block_at_or_below(endpoint, previous_final.number + step)
        if high_block.time > max_timestamp:
            return low_block, high_block
        low_block = high_block
        step = 2 * step
    return low_block, top


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of the chain at one moment.

    All three blocks come from one endpoint. `final` is the lower one of the block at the finality
    depth and the `finalized` block (if the endpoint supports this tag), but never below the
    previous final block (docs/explanation/ingest.md#finality). `safe` is None if the endpoint does
    not support the tag. `stalled` is whether no endpoint has returned a new block for much longer
    than the usual block time. It matters because nodes are not penalised for a time without
    transactions (docs/explanation/ingest.md#heads).
    """

    latest: BlockRef
    safe: BlockRef | None
    final: BlockRef
    stalled: bool = False
    # The name of the endpoint that reported the heads.
    endpoint: str = ""


class WrongChainError(RpcError):
    """The endpoint serves a chain other than the configured one."""


def fetch_heads_in_batch(
    endpoint: Endpoint,
    finality: Finality,
    previous_final: BlockRef | None,
    checkpoints: Sequence[Checkpoint] = (),
) -> Heads:
    """Fetch the heads of one endpoint in a single batch.

    `previous_final` is the last known final block, from any endpoint.

    Raises:
        WrongChainError: the endpoint's block at a checkpoint has a different hash.
        RpcError: the endpoint gives no usable answer, or is behind the previous final block.
    """
    checkpoint_blocks, latest_block, block_by_tag = _fetch_tagged_blocks(
        endpoint, [checkpoint.number for checkpoint in checkpoints]
    )
    mismatches = (
        find_checkpoint_mismatch(block, checkpoint)
        for block, checkpoint in zip(checkpoint_blocks, checkpoints, strict=True)
    )
    mismatch = next((mismatch for mismatch in mismatches if mismatch), None)
    if mismatch is not None:
        raise WrongChainError(endpoint.name, ErrorKind.QUARANTINED, mismatch)
    endpoint.head, endpoint.highest_block = latest_block, latest_block.number
    metrics.HEAD.labels(endpoint.name).set(latest_block.number)
    if previous_final is not None and latest_block.number < previous_final.number:
        message = (
            f"is at block {latest_block.number}, below the final block {previous_final.number}"
        )
        raise RpcError(endpoint.name, ErrorKind.BEHIND, message)
    safe_block = block_by_tag.get("safe")
    finalized_block = _advance_finalized_block(endpoint, block_by_tag.get("finalized"))
    final_block = determine_final_block(
        endpoint, finality, latest_block, finalized_block, previous_final
    )
    return Heads(latest_block, safe_block, final_block, endpoint=endpoint.name)


def probe_supported_block_tags(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the block tags that the endpoint supports.

    Raises:
        RpcError: the endpoint does not answer, so its tags remain unknown.
    """
    return tuple(tag for tag in TAGS if _supports_block_tag(endpoint, tag))


OptionalBlocks = list[BlockRef | None]


def _fetch_tagged_blocks(
    endpoint: Endpoint, checkpoint_numbers: list[int]
) -> tuple[OptionalBlocks, BlockRef, dict[str, BlockRef | None]]:
    """Fetch the blocks at the checkpoints, the newest block, and the block of each tag."""
    try:
        # `latest_block` comes last, so that it is not older than the tagged blocks.
        blocks = endpoint.get_headers([*checkpoint_numbers, *endpoint.tags, "latest"])
    except RpcError as error:
        if not endpoint.tags or error.kind in _TEMPORARY_ERRORS:
            raise
        endpoint.tags = probe_supported_block_tags(endpoint)
        blocks = endpoint.get_headers([*checkpoint_numbers, *endpoint.tags, "latest"])
    latest_block = blocks[-1]
    if latest_block is None:
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, "no latest block")
    block_by_tag = dict(zip(endpoint.tags, blocks[len(checkpoint_numbers) : -1], strict=True))
    for tag in TAGS:
        metrics.TAG.labels(endpoint.name, tag).set(block_by_tag.get(tag) is not None)
    return (
        blocks[: len(checkpoint_numbers)],
        _confirm_latest_block(endpoint, latest_block, block_by_tag),
        block_by_tag,
    )


def _confirm_latest_block(
    endpoint: Endpoint, latest_block: BlockRef, block_by_tag: dict[str, BlockRef | None]
) -> BlockRef:
    """Return the newest block, or raise RpcError if a tagged block is above it.

    A block may arrive between two responses of a batch, so `latest_block` is requested again
    first.
    """
    highest_tagged_number = max(
        (block.number for block in block_by_tag.values() if block is not None), default=0
    )
    if highest_tagged_number > latest_block.number:
        latest_block = endpoint.get_header("latest") or latest_block
    if highest_tagged_number > latest_block.number:
        metrics.INCONSISTENT.labels(endpoint.name, "finalized above latest").inc()
        message = (
            f"block {highest_tagged_number} is final or safe, but the latest block is "
            f"{latest_block.number}"
        )
        raise RpcError(endpoint.name, ErrorKind.INVALID, message)
    return latest_block


def _advance_finalized_block(
    endpoint: Endpoint, finalized_block: BlockRef | None
) -> BlockRef | None:
    """Return the highest finalized block that the endpoint has returned so far."""
    previous_finalized = endpoint.finalized
    if finalized_block is None:
        return None
    if previous_finalized is not None and finalized_block.number < previous_finalized.number:
        metrics.FINAL_BACKWARDS.labels(endpoint.name).inc()
        return previous_finalized
    endpoint.finalized = finalized_block
    return finalized_block


_TEMPORARY_ERRORS = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.SLOW,
    ErrorKind.CUT,
    ErrorKind.BACKOFF,
}


def _supports_block_tag(endpoint: Endpoint, tag: str) -> bool:
    try:
        endpoint.get_header(tag)
    except RpcError as error:
        if error.kind in _TEMPORARY_ERRORS:
            raise
        return False
    return True
