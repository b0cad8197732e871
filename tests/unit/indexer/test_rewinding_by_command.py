"""A rewind that a user requests, with the journal or by folding again."""

import pytest

from oracle.errors import InputError
from oracle.indexer.provenance import FIRST_CUT_KEY
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, folder, mine_blocks
from tests.support.txmgr.stores import NewStore
from tests.unit.indexer.test_rewinding import BLOCKS, fresh_dump


def test_rewind_command_uses_the_journal_if_it_reaches_the_block(
    store: Store, new_store: NewStore
):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    full_dump = follower.dump()

    rewound = rewind_to_block(follower.chain, store, follower.folder, 95, RebuildOptions())

    assert not rewound.by_rebuild
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:95]))
    follower.catch_up()
    assert follower.dump() == full_dump


def test_rewind_command_rebuilds_if_the_journal_is_too_short(store: Store, new_store: NewStore):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    full_dump = follower.dump()

    rewound = rewind_to_block(follower.chain, store, follower.folder, 30, RebuildOptions())

    assert rewound.by_rebuild
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:30]))
    follower.catch_up()
    assert follower.dump() == full_dump


@pytest.mark.parametrize("to_block", [30, 95])
def test_dry_run_of_rewind_changes_nothing(store: Store, to_block: int):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()

    rewound = rewind_to_block(
        follower.chain, store, follower.folder, to_block, RebuildOptions(dry_run=True)
    )

    assert rewound.log_count > 0
    assert follower.dump() == before


@pytest.mark.parametrize("to_block", [9, 100, 101])
def test_rewind_outside_indexed_range_is_rejected(store: Store, to_block: int):
    follower = Follower(mine_blocks(BLOCKS), store, start_block=11)
    follower.catch_up()

    with pytest.raises(InputError, match="from 10 to 99"):
        rewind_to_block(follower.chain, store, follower.folder, to_block, RebuildOptions())


def test_rewind_of_empty_database_is_rejected(store: Store):
    with pytest.raises(InputError, match="nothing is indexed"):
        rewind_to_block(ScriptedChain(), store, folder(), 3, RebuildOptions())


def test_rewind_below_a_fork_replaces_changed_final_blocks(store: Store, new_store: NewStore):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(15)
    mine_blocks(Traffic(12).blocks(20), follower.chain)
    halted = follower.step()
    assert isinstance(halted, HaltChanged)
    assert "--to-block 91" in halted.reason

    with pytest.raises(InputError, match="rewind to block 85"):
        rewind_to_block(follower.chain, store, follower.folder, 91, RebuildOptions())
    with store.transaction() as uow:
        uow.bookmarks.set(FIRST_CUT_KEY, "0 1")
    rewind_to_block(follower.chain, store, follower.folder, 85, RebuildOptions())
    with store.read_transaction() as uow:
        # No later cut uses leaves of the old blocks in its tree.
        assert uow.bookmarks.get(FIRST_CUT_KEY) is None
    done = follower.catch_up()

    assert isinstance(done[0], HaltChanged)
    assert not done[0].is_active
    assert follower.dump() == fresh_dump(new_store, follower.chain)
