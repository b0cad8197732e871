"""Reads headers: by height or tag, one batch for many, linked where they must be."""

from collections.abc import Iterable
from itertools import pairwise

from oracle.chain.answers import BlockAnswer, block_ref
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.domain.block import BlockRange, BlockRef


def header(endpoint: Endpoint, number_or_tag: int | str) -> BlockRef | None:
    """Return a block by height or tag; None where the endpoint does not have it.

    Raises:
        EndpointError: no usable answer.
    """
    return headers(endpoint, [number_or_tag])[0]


def headers(endpoint: Endpoint, wanted: Iterable[int | str]) -> list[BlockRef | None]:
    """Return blocks by height or tag, None for each that the endpoint does not have.

    Raises:
        EndpointError: no usable answer, or one for another height.
    """
    asked = list(wanted)
    params = [[hex(place) if isinstance(place, int) else place, False] for place in asked]
    answers = endpoint.batch("eth_getBlockByNumber", params, BlockAnswer)
    blocks = [None if answer is None else block_ref(endpoint.name, answer) for answer in answers]
    for place, block in zip(asked, blocks, strict=True):
        if block is not None and isinstance(place, int) and block.number != place:
            raise EndpointError(endpoint.name, Kind.INVALID, f"another block for {place}")
    return blocks


def linked(endpoint: Endpoint, blocks: BlockRange) -> list[BlockRef]:
    """Return every block of the range, each the parent of the next.

    Raises:
        EndpointError: one is missing, or they do not link.
    """
    found = headers(endpoint, range(blocks.first, blocks.last + 1))
    chain = [block for block in found if block is not None]
    if len(chain) < len(found):
        missing = blocks.first + found.index(None)
        raise EndpointError(endpoint.name, Kind.NOT_THERE, f"no block {missing}")
    for parent, child in pairwise(chain):
        if child.parent_hash != parent.hash:
            words = f"block {child.number} does not follow block {parent.number}"
            raise EndpointError(endpoint.name, Kind.INVALID, words)
    return chain
