"""Newest, safe and final block of the chain, as one endpoint reports them."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.chain.finality import Finality, final_block
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.capabilities import TAGS
from oracle.rpc.endpoints.checkpoints import Checkpoint, fault_in
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of the chain at one moment; all three blocks come from one endpoint.

    `final` is the lower of the endpoint's `finalized` block, if it supports the tag, and of the
    newest block minus the finality depth; it never goes down
    (docs/explanation/ingest.md#finality). `safe` is None if the endpoint does not support the tag.
    `stalled` means that no endpoint has shown a new block for much longer than the usual block
    time; nodes are not penalised for what they could not do meanwhile
    (docs/explanation/ingest.md#heads).
    """

    latest: BlockRef
    safe: BlockRef | None
    final: BlockRef
    stalled: bool = False
    # Name of the endpoint that reported the heads.
    endpoint: str = ""


class WrongChainError(RpcError):
    """The endpoint is on another chain than the configured one."""


def read_heads(
    endpoint: Endpoint,
    finality: Finality,
    before: BlockRef | None,
    checkpoints: Sequence[Checkpoint] = (),
) -> Heads:
    """Fetch the heads of one endpoint in one batch.

    `previous_final` is the last known final block, from any endpoint.

    Raises:
        WrongChainError: the endpoint shows another block than a checkpoint's.
        RpcError: no usable answer, or the endpoint is behind the previous final block.
    """
    anchored, latest, tagged = _request_heads(
        endpoint, [checkpoint.number for checkpoint in checkpoints]
    )
    faults = (
        fault_in(block, checkpoint)
        for block, checkpoint in zip(anchored, checkpoints, strict=True)
    )
    fault = next((fault for fault in faults if fault), None)
    if fault is not None:
        raise WrongChainError(endpoint.name, ErrorKind.QUARANTINED, fault)
    endpoint.head, endpoint.highest_block = latest, latest.number
    metrics.HEAD.labels(endpoint.name).set(latest.number)
    if before is not None and latest.number < before.number:
        words = f"is at block {latest.number}, block {before.number} was final before"
        raise RpcError(endpoint.name, ErrorKind.BEHIND, words)
    safe, finalized = tagged.get("safe"), _forward(endpoint, tagged.get("finalized"))
    final = final_block(endpoint, finality, latest, finalized, before)
    return Heads(latest, safe, final, endpoint=endpoint.name)


def known_tags(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the block tags that the endpoint answers without an error.

    Raises:
        RpcError: the endpoint does not answer, which proves nothing about its tags.
    """
    return tuple(tag for tag in TAGS if _is_known(endpoint, tag))


Blocks = list[BlockRef | None]


def _request_heads(
    endpoint: Endpoint, checkpoints: list[int]
) -> tuple[Blocks, BlockRef, dict[str, BlockRef | None]]:
    """Return the blocks at the checkpoints, the newest block, and those of supported tags."""
    try:
        # `latest` comes last, so that it is not older than the blocks it is compared with.
        found = endpoint.headers([*checkpoints, *endpoint.tags, "latest"])
    except RpcError as error:
        if not endpoint.tags or error.kind in _SAYS_NOTHING_OF_TAGS:
            raise
        endpoint.tags = known_tags(endpoint)
        found = endpoint.headers([*checkpoints, *endpoint.tags, "latest"])
    latest = found[-1]
    if latest is None:
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, "no latest block")
    tagged = dict(zip(endpoint.tags, found[len(checkpoints) : -1], strict=True))
    for tag in TAGS:
        metrics.TAG.labels(endpoint.name, tag).set(tagged.get(tag) is not None)
    return found[: len(checkpoints)], _above(endpoint, latest, tagged), tagged


def _above(endpoint: Endpoint, latest: BlockRef, tagged: dict[str, BlockRef | None]) -> BlockRef:
    """Return the newest block, or raise RpcError if a tagged block is above it.

    A block may have arrived between two answers of one batch, so `latest` is requested again
    first.
    """
    highest = max((block.number for block in tagged.values() if block is not None), default=0)
    if highest > latest.number:
        latest = endpoint.header("latest") or latest
    if highest > latest.number:
        metrics.INCONSISTENT.labels(endpoint.name, "finalized above latest").inc()
        words = f"shows block {highest} as final or safe, and {latest.number} as the newest"
        raise RpcError(endpoint.name, ErrorKind.INVALID, words)
    return latest


def _forward(endpoint: Endpoint, finalized: BlockRef | None) -> BlockRef | None:
    """Return the highest finalized block that the endpoint has shown; a lower one is ignored."""
    known = endpoint.finalized
    if finalized is None:
        return None
    if known is not None and finalized.number < known.number:
        metrics.FINAL_BACKWARDS.labels(endpoint.name).inc()
        return known
    endpoint.finalized = finalized
    return finalized


_SAYS_NOTHING_OF_TAGS = {
    ErrorKind.THROTTLED,
    ErrorKind.REFUSED,
    ErrorKind.UNREACHABLE,
    ErrorKind.SLOW,
    ErrorKind.CUT,
    ErrorKind.BACKOFF,
}


def _is_known(endpoint: Endpoint, tag: str) -> bool:
    try:
        endpoint.header(tag)
    except RpcError as error:
        if error.kind in _SAYS_NOTHING_OF_TAGS:
            raise
        return False
    return True
