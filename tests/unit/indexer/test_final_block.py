"""The recorded final block is one that was indexed."""

import pytest

from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.commit import check_final_block, select_final_block_to_store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import Follower
from tests.support.txmgr.stores import NewStore

FOREIGN = Hash("0x" + "f0" * 32)


def test_final_block_above_window_is_capped_to_last_window_block():
    chain = ScriptedChain()
    for _ in range(40):
        chain.mine()
    window = chain.fetch_window(BlockRange(1, 10), with_headers=False)
    heads = chain.fetch_heads()
    elsewhere = Heads(heads.latest, heads.safe, heads.final._replace(hash=FOREIGN))

    assert select_final_block_to_store(window, elsewhere, None) == window.last


def test_final_block_missing_from_index_raises_transient_error(
    new_store: NewStore,
):
    """There is no block of its height to compare, and nothing below it can be undone."""
    chain = ScriptedChain(finality_depth=10)
    chain.mine_many(40)
    with new_store() as store:
        follower = Follower(chain, store)
        while follower.step() is not None:
            pass
        final = chain.fetch_heads().final
        reported_final = final._replace(number=final.number + 1, hash=FOREIGN)
        with store.transaction() as uow:
            stored_block = uow.blocks.find_canonical(reported_final.number)
            assert stored_block is not None
            check_final_block(uow, stored_block)
            uow.blocks.orphan_above(final.number)
            with pytest.raises(TransientError, match=r"indexed with hash none \(skipped\)"):
                check_final_block(uow, reported_final)


def test_final_block_never_exceeds_cursor(new_store: NewStore):
    chain = ScriptedChain(most_blocks=7)
    for _ in range(40):
        chain.mine()
    with new_store() as store:
        follower = Follower(chain, store)
        while follower.step() is not None:
            with store.read_transaction() as uow:
                cursor = uow.cursor.get()
            assert cursor is not None
            assert cursor.final_number is not None
            assert cursor.final_number <= cursor.number
