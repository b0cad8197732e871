"""How far the chain has come: newest, safe and final block, as one endpoint shows them."""

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
    """One look at the chain; all three come from one endpoint.

    `final` is the lower of the endpoint's `finalized` block, where it knows one, and of the
    newest block less the finality depth; it never goes down (docs/explanation/ingest.md#finality).
    `safe` is None where the endpoint does not know it. `stalled`: no endpoint has shown a new
    block for far longer than blocks take; nobody is to be blamed for what did not happen meanwhile
    (docs/explanation/ingest.md#heads).
    """

    latest: BlockRef
    safe: BlockRef | None
    final: BlockRef
    stalled: bool = False
    # The endpoint that showed them.
    endpoint: str = ""


class WrongChainError(RpcError):
    """The endpoint shows another chain than ours."""


def read_heads(
    endpoint: Endpoint,
    finality: Finality,
    before: BlockRef | None,
    checkpoints: Sequence[Checkpoint] = (),
) -> Heads:
    """Ask one endpoint, in one batch; `before` is the final block of the last look, of whoever.

    Raises:
        StrangerError: it shows another block than an anchor's.
        RpcError: no usable answer, or the endpoint lags behind what was final before.
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
    """Ask for each tag; return those that it answers without an error.

    Raises:
        RpcError: it does not answer, which says nothing of its tags.
    """
    return tuple(tag for tag in TAGS if _is_known(endpoint, tag))


Blocks = list[BlockRef | None]


def _request_heads(
    endpoint: Endpoint, checkpoints: list[int]
) -> tuple[Blocks, BlockRef, dict[str, BlockRef | None]]:
    """Return the blocks at the anchors, the newest one, and those of the tags that it knows."""
    try:
        # The newest one last: it is not older than what it is compared with.
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
    """Return the newest block, which no tagged one may be above.

    Where one is, a block may have come between two answers of a batch: then it is above now.
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
    """Return the highest finalized block that the endpoint has shown; going back is ignored."""
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
