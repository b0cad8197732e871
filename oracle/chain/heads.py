"""How far the chain has come: newest, safe and final block."""

from dataclasses import dataclass

from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.headers import header, headers
from oracle.domain.block import BlockRef


@dataclass(frozen=True, slots=True)
class Heads:
    """One look at the chain; all three come from one endpoint.

    `final` is the lower of the endpoint's `finalized` block, where it knows one, and of the
    newest block less the finality depth; it never goes down (chain.md 3.3). `safe` is None where
    the endpoint does not know it.
    """

    latest: BlockRef
    safe: BlockRef | None
    final: BlockRef


def look(endpoint: Endpoint, finality_depth: int, before: BlockRef | None) -> Heads:
    """Ask one endpoint; `before` is the final block of the last look, of whatever endpoint.

    Raises:
        EndpointError: no usable answer, or the endpoint lags behind what was final before.
    """
    latest, *tagged = _tagged(endpoint)
    if latest is None:
        raise EndpointError(endpoint.name, Kind.NOT_THERE, "no latest block")
    endpoint.head, endpoint.newest = latest, latest.number
    if before is not None and latest.number < before.number:
        words = f"is at block {latest.number}, block {before.number} was final before"
        raise EndpointError(endpoint.name, Kind.NOT_THERE, words)
    # A tag above the newest block is one of a moment later, or nonsense.
    safe, finalized = (
        block if block is not None and block.number <= latest.number else None for block in tagged
    )
    return Heads(latest, safe, _final(endpoint, latest.number - finality_depth, finalized, before))


def _tagged(endpoint: Endpoint) -> list[BlockRef | None]:
    """Return the blocks latest, safe and finalized; None for a tag that is not known."""
    try:
        found = headers(endpoint, ["latest", *endpoint.tags])
    except EndpointError as error:
        if not endpoint.tags or error.kind in _SAYS_NOTHING_OF_TAGS:
            raise
        latest = header(endpoint, "latest")
        endpoint.tags = tuple(tag for tag in endpoint.tags if _is_known(endpoint, tag))
        return [latest, None, None]
    by_tag = dict(zip(endpoint.tags, found[1:], strict=True))
    return [found[0], by_tag.get("safe"), by_tag.get("finalized")]


_SAYS_NOTHING_OF_TAGS = {Kind.THROTTLED, Kind.REFUSED, Kind.UNREACHABLE, Kind.SLOW}


def _is_known(endpoint: Endpoint, tag: str) -> bool:
    try:
        header(endpoint, tag)
    except EndpointError as error:
        if error.kind in _SAYS_NOTHING_OF_TAGS:
            raise
        return False
    return True


def _final(
    endpoint: Endpoint, deep_enough: int, finalized: BlockRef | None, before: BlockRef | None
) -> BlockRef:
    reached = max(0, deep_enough)
    if finalized is not None and finalized.number <= reached:
        reached = finalized.number
    if before is not None and reached <= before.number:
        return before
    if finalized is not None and finalized.number == reached:
        return finalized
    final = header(endpoint, reached)
    if final is None:
        raise EndpointError(endpoint.name, Kind.NOT_THERE, f"no block {reached}")
    return final
