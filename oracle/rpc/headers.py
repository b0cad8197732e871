"""Reads headers: by height or tag, one batch for many, linked where they must be."""

from collections.abc import Iterable
from itertools import pairwise
from weakref import WeakKeyDictionary

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.rpc.client import Endpoint
from oracle.rpc.responses import FullHeaderResponse, block_ref
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# The newest block of each endpoint as its last look has shown it, with all that its header says.
_NEWEST: WeakKeyDictionary[Endpoint, FullHeaderResponse | None] = WeakKeyDictionary()


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
    answers = endpoint.batch("eth_getBlockByNumber", params, FullHeaderResponse)
    if "latest" in asked:
        _NEWEST[endpoint] = answers[asked.index("latest")]
    blocks = [None if answer is None else block_ref(endpoint.name, answer) for answer in answers]
    for place, block in zip(asked, blocks, strict=True):
        if block is not None and isinstance(place, int) and block.number != place:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"another block for {place}")
    return blocks


def take_newest(endpoint: Endpoint) -> FullHeaderResponse | None:
    """Return what the last look at the newest block has shown, once; None: not looked since."""
    return _NEWEST.pop(endpoint, None)


def forget_newest(endpoint: Endpoint, unless: str) -> None:
    """Forget what the last look has shown, where it was another block than that of this hash."""
    seen = _NEWEST.get(endpoint)
    if seen is not None and seen.hash.lower() != unless:
        del _NEWEST[endpoint]


def linked(endpoint: Endpoint, blocks: BlockRange) -> list[BlockRef]:
    """Return every block of the range, each the parent of the next.

    Heights that the chain skipped are left out: the block after them names the one before.

    Raises:
        EndpointError: the last one is missing, or they do not link.
    """
    found = headers(endpoint, range(blocks.first, blocks.last + 1))
    chain = [block for block in found if block is not None]
    if found[-1] is None:
        missing = chain[-1].number + 1 if chain else blocks.first
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {missing}")
    for parent, child in pairwise(chain):
        if child.parent_hash != parent.hash:
            words = f"block {child.number} does not follow block {parent.number}"
            raise RpcError(endpoint.name, ErrorKind.INVALID, words)
    return chain
