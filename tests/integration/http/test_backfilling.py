"""Logs that an endpoint omitted once are found later, and the final state is the same."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Log
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.backfill import backfill_block_range
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, folder, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(7).blocks(60)
ALL = BlockRange(0, 60)


def leave_out(chain: ScriptedChain, block: int) -> list[Log]:
    """Let the chain serve a block without its logs; return the logs."""
    hidden = chain.blocks[block]
    logs = list(hidden.logs)
    hidden.logs.clear()
    return logs


def busy_block(chain: ScriptedChain) -> int:
    """Return a block with logs in the middle."""
    return next(block.ref.number for block in chain.blocks[20:] if block.logs)


def test_backfill_restores_omitted_logs(store: Store, new_store: NewStore):
    chain = mine_blocks(BLOCKS)
    number = busy_block(chain)
    logs = leave_out(chain, number)
    follower = Follower(chain, store)
    follower.catch_up()
    chain.blocks[number].logs.extend(logs)

    backfill = backfill_block_range(chain, store, follower.folder, ALL, RebuildOptions())

    assert backfill.missing_logs == logs
    assert backfill.rebuilt is not None
    assert not backfill.rebuilt.is_same
    with new_store() as other_store:
        complete_follower = Follower(mine_blocks(BLOCKS), other_store)
        complete_follower.catch_up()
        assert follower.dump() == complete_follower.dump()


def test_backfill_of_a_complete_index_folds_nothing_again(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()

    backfill = backfill_block_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert backfill.rebuilt is None
    assert backfill.served_count == sum(len(block.logs) for block in follower.chain.blocks)
    assert follower.dump() == before


def test_dry_run_reports_missing_rows_and_writes_nothing(store: Store):
    chain = mine_blocks(BLOCKS)
    number = busy_block(chain)
    logs = leave_out(chain, number)
    follower = Follower(chain, store)
    follower.catch_up()
    before = follower.dump()
    chain.blocks[number].logs.extend(logs)

    backfill = backfill_block_range(
        chain, store, follower.folder, ALL, RebuildOptions(dry_run=True)
    )

    assert backfill.missing_logs == logs
    assert follower.dump() == before


def test_backfill_keeps_rows_that_the_endpoint_no_longer_serves(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    logs = leave_out(follower.chain, busy_block(follower.chain))

    backfill = backfill_block_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert backfill.unserved_count == len(logs)
    assert follower.dump() == before


def test_backfill_counts_differing_rows_and_keeps_the_stored_ones(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    block = follower.chain.blocks[busy_block(follower.chain)]
    block.logs[0] = replace(block.logs[0], tx_hash=block.ref.hash)

    backfill = backfill_block_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert (backfill.differing_count, backfill.unserved_count, backfill.rebuilt) == (1, 0, None)
    assert follower.dump() == before


def test_backfill_reports_progress_after_each_window(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.most_blocks = 25
    progress_calls: list[tuple[int, int]] = []
    options = RebuildOptions(progress=lambda block, last: progress_calls.append((block, last)))

    backfill_block_range(follower.chain, store, follower.folder, BlockRange(5, 60), options)

    assert progress_calls == [(29, 60), (54, 60), (60, 60)]


def test_backfill_is_rejected_until_the_indexer_follows_the_fork(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(4)
    mine_blocks(Traffic(8).blocks(6), follower.chain)

    with pytest.raises(TransientError, match="follow the fork"):
        backfill_block_range(follower.chain, store, follower.folder, ALL, RebuildOptions())


def test_mismatching_final_block_raises_fatal_error(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(30)
    mine_blocks(BLOCKS[30:], follower.chain)

    with pytest.raises(FatalError, match="final"):
        backfill_block_range(follower.chain, store, follower.folder, ALL, RebuildOptions())


@pytest.mark.parametrize("blocks", [BlockRange(9, 20), BlockRange(20, 61)])
def test_backfill_of_blocks_outside_the_index_is_rejected(store: Store, blocks: BlockRange):
    follower = Follower(mine_blocks(BLOCKS), store, start_block=10)
    follower.catch_up()

    with pytest.raises(InputError, match="only blocks 10 to 60 are indexed"):
        backfill_block_range(follower.chain, store, follower.folder, blocks, RebuildOptions())


def test_empty_database_is_rejected_with_hint_to_run(store: Store):
    with pytest.raises(InputError, match="qos-oracle run"):
        backfill_block_range(ScriptedChain(), store, folder(), ALL, RebuildOptions())
