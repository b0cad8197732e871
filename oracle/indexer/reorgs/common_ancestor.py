"""Finds which indexed blocks are still on the chain, although most hashes are pruned.

Below the final block only the hashes of blocks with logs or calls are stored. Every block below
one that is equal on the chain is equal as well.
"""

from typing import NamedTuple

from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork


class _StoredBlock(NamedTuple):
    """A block of the index whose hash is known."""

    number: int
    hash: Hash


def check_ours(chain: ChainReader, store: Store, block: BlockRef) -> None:
    """Check that the index equals the chain below `block`, a block of the chain.

    Raises:
        InputError: it does not, or this is unknown; names the highest block that is equal.
        TransientError: the chain does not respond.
    """
    with store.reading() as uow:
        identity, above = uow.identity.get(), _at_or_above(uow, block.number)
    # Nothing below the start block can differ; block 0 was compared at the start.
    start = 0 if identity is None else identity.start_block
    lowest = max(0, start - 1)
    if above is None or block.number <= lowest:
        return
    theirs = block.hash if above.number == block.number else _shown(chain, above.number)
    if theirs == above.hash:
        return
    shared = _highest_shared(chain, store, lowest, block.number)
    raise InputError(
        f"block {above.number} is {theirs or 'not there'} on the chain and {above.hash} here; the "
        f"newest that is sure to be the same on both is {shared}: rewind to block {shared}"
    )


def _highest_shared(chain: ChainReader, store: Store, lowest: int, number: int) -> int:
    """Return the highest equal block below `number` with a known hash; else `lowest`."""
    shared, low, high = lowest, lowest, number
    while high - low > 1:
        middle = (low + high) // 2
        with store.reading() as uow:
            known = _at_or_below(uow, middle)
        if known is None or known.number <= shared:
            low = middle
        elif _shown(chain, known.number) == known.hash:
            shared, low = known.number, middle
        else:
            high = known.number
    return shared


def _shown(chain: ChainReader, number: int) -> Hash | None:
    block = chain.header(number)
    return None if block is None else block.hash


def _at_or_above(uow: UnitOfWork, number: int) -> _StoredBlock | None:
    """Return the lowest indexed block from `number` on whose hash is known."""
    cursor, headers = uow.cursor.get(), uow.blocks.lowest_from(number)
    found = [] if headers is None else [_StoredBlock(headers.number, headers.hash)]
    if cursor is not None:
        found.append(_StoredBlock(cursor.number, cursor.hash))
        if cursor.final_number is not None and cursor.final_hash is not None:
            # During history the final block may be above the cursor.
            found.append(_StoredBlock(cursor.final_number, cursor.final_hash))
    rows = uow.logs.lowest_hash(number), uow.calls.lowest_hash(number)
    found += [_StoredBlock(*row) for row in rows if row is not None]
    return min((one for one in found if one.number >= number), default=None)


def _at_or_below(uow: UnitOfWork, number: int) -> _StoredBlock | None:
    """Return the highest indexed block up to `number` whose hash is known."""
    headers = uow.blocks.highest_to(number)
    found = [] if headers is None else [_StoredBlock(headers.number, headers.hash)]
    rows = uow.logs.highest_hash(number), uow.calls.highest_hash(number)
    found += [_StoredBlock(*row) for row in rows if row is not None]
    return max(found, default=None)
