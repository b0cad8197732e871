"""Determines which indexed blocks are still on the chain.

Most block hashes are pruned: below the final block, only the hashes of blocks with logs or calls
are stored. If an indexed block is on the chain, all indexed blocks below it are on the chain as
well.
"""

from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork


def check_index_matches_chain(chain: ChainSource, store: Store, block: BlockRef) -> None:
    """Check that the index matches the chain below `block`, which is on the chain.

    Raises:
        InputError: the index differs or may differ from the chain; the message contains the
            highest block that is known to be on the chain.
        TransientError: the chain does not respond.
    """
    with store.read_transaction() as uow:
        identity = uow.identity.get()
        block_above = _find_block_at_or_above(uow, block.number)
    # Blocks below the start block are not indexed, and block 0 was compared at the start.
    start_block = 0 if identity is None else identity.start_block
    lowest_number = max(0, start_block - 1)
    if block_above is None or block.number <= lowest_number:
        return
    stored_number, stored_hash = block_above
    chain_hash = (
        block.hash if stored_number == block.number else _fetch_block_hash(chain, stored_number)
    )
    if chain_hash == stored_hash:
        return
    shared_number = _find_highest_shared_block(chain, store, lowest_number, block.number)
    raise InputError(
        f"block {stored_number} is {chain_hash or 'missing'} on the chain but {stored_hash} in "
        f"the database; rewind to block {shared_number}, the newest block that is known to be the "
        "same in both"
    )


def _find_highest_shared_block(chain: ChainSource, store: Store, lowest: int, number: int) -> int:
    """Return the highest indexed block below `number` that is known to be on the chain.

    If there is no such block, return `lowest`.
    """
    shared_number, low_number, high_number = lowest, lowest, number
    while high_number - low_number > 1:
        middle_number = (low_number + high_number) // 2
        with store.read_transaction() as uow:
            stored_block = _find_block_at_or_below(uow, middle_number)
        stored_number, stored_hash = stored_block or (shared_number, None)
        if stored_number <= shared_number:
            low_number = middle_number
        elif _fetch_block_hash(chain, stored_number) == stored_hash:
            shared_number, low_number = stored_number, middle_number
        else:
            high_number = stored_number
    return shared_number


def _fetch_block_hash(chain: ChainSource, number: int) -> Hash | None:
    block = chain.fetch_header(number)
    return None if block is None else block.hash


def _find_block_at_or_above(uow: UnitOfWork, number: int) -> tuple[int, Hash] | None:
    """Return the lowest indexed block at or above `number` with a known hash, and the hash."""
    cursor = uow.cursor.get()
    headers = uow.blocks.find_lowest_from(number)
    candidates = [] if headers is None else [(headers.number, headers.hash)]
    if cursor is not None:
        candidates.append((cursor.number, cursor.hash))
        if cursor.final_number is not None and cursor.final_hash is not None:
            # While history is indexed, the final block may be above the cursor.
            candidates.append((cursor.final_number, cursor.final_hash))
    rows = uow.logs.find_lowest_block_from(number), uow.calls.find_lowest_block_from(number)
    candidates += [row for row in rows if row is not None]
    return min(
        ((height, block_hash) for height, block_hash in candidates if height >= number),
        default=None,
    )


def _find_block_at_or_below(uow: UnitOfWork, number: int) -> tuple[int, Hash] | None:
    """Return the highest indexed block at or below `number` with a known hash, and the hash."""
    headers = uow.blocks.find_highest_up_to(number)
    candidates = [] if headers is None else [(headers.number, headers.hash)]
    rows = uow.logs.find_highest_block_up_to(number), uow.calls.find_highest_block_up_to(number)
    candidates += [row for row in rows if row is not None]
    return max(candidates, default=None)
