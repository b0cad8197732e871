"""What an endpoint left out once is found by asking again, and the state is as if it never had."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.backfill import backfill_range
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, folder, mined
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(7).blocks(60)
ALL = BlockRange(0, 60)


def leave_out(chain: ScriptedChain, block: int) -> tuple[list[Log], list[Call]]:
    """Let the chain serve a block as if nothing had happened in it; return what it hides."""
    hidden = chain.blocks[block]
    logs, calls = list(hidden.logs), list(hidden.calls)
    hidden.logs.clear()
    hidden.calls.clear()
    return logs, calls


def busy_block(chain: ScriptedChain) -> int:
    """A block with logs and a call, in the middle."""
    return next(block.ref.number for block in chain.blocks[20:] if block.calls)


def test_a_log_that_was_left_out_is_put_in(store: Store, new_store: NewStore):
    chain = mined(BLOCKS)
    number = busy_block(chain)
    logs, calls = leave_out(chain, number)
    follower = Follower(chain, store)
    follower.catch_up()
    chain.blocks[number].logs.extend(logs)
    chain.blocks[number].calls.extend(calls)

    found = backfill_range(chain, store, follower.folder, ALL, RebuildOptions())

    assert found.missing_logs == logs
    assert found.missing_calls == calls
    assert found.rebuilt is not None
    assert not found.rebuilt.is_same
    with new_store() as other:
        whole = Follower(mined(BLOCKS), other)
        whole.catch_up()
        assert follower.dump() == whole.dump()


def test_where_nothing_is_missing_nothing_is_folded(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()

    found = backfill_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert found.rebuilt is None
    assert found.served_count == sum(len(block.logs) for block in follower.chain.blocks)
    assert follower.dump() == before


def test_a_dry_run_names_what_is_missing_and_puts_nothing_in(store: Store):
    chain = mined(BLOCKS)
    number = busy_block(chain)
    logs, _ = leave_out(chain, number)
    follower = Follower(chain, store)
    follower.catch_up()
    before = follower.dump()
    chain.blocks[number].logs.extend(logs)

    with pytest.raises(KeyError):
        # The log of a round cannot be read without its call.
        backfill_range(chain, store, follower.folder, ALL, RebuildOptions(dry_run=True))
    chain.blocks[number].calls.extend(mined(BLOCKS).blocks[number].calls)
    found = backfill_range(chain, store, follower.folder, ALL, RebuildOptions(dry_run=True))

    assert found.missing_logs == logs
    assert follower.dump() == before


def test_logs_that_the_endpoint_has_forgotten_stay(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    logs, calls = leave_out(follower.chain, busy_block(follower.chain))

    found = backfill_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert found.unserved_count == len(logs) + len(calls)
    assert follower.dump() == before


def test_rows_that_are_served_in_other_words_are_counted_and_ours_stay(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    block = follower.chain.blocks[busy_block(follower.chain)]
    block.calls[0] = replace(block.calls[0], value=block.calls[0].value + 1)

    found = backfill_range(follower.chain, store, follower.folder, ALL, RebuildOptions())

    assert (found.differing_count, found.unserved_count, found.rebuilt) == (1, 0, None)
    assert follower.dump() == before


def test_it_can_be_done_in_small_windows_and_tells_how_far_it_is(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    follower.chain.most_blocks = 25
    told: list[tuple[int, int]] = []
    manner = RebuildOptions(progress=lambda block, last: told.append((block, last)))

    backfill_range(follower.chain, store, follower.folder, BlockRange(5, 60), manner)

    assert told == [(29, 60), (54, 60), (60, 60)]


def test_rows_of_a_fork_that_we_have_not_followed_yet_do_not_come_in(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(4)
    mined(Traffic(8).blocks(6), follower.chain)

    with pytest.raises(TransientError, match="follow the fork"):
        backfill_range(follower.chain, store, follower.folder, ALL, RebuildOptions())


def test_another_final_block_is_fatal(store: Store):
    follower = Follower(mined(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(30)
    mined(BLOCKS[30:], follower.chain)

    with pytest.raises(FatalError, match="final"):
        backfill_range(follower.chain, store, follower.folder, ALL, RebuildOptions())


@pytest.mark.parametrize("blocks", [BlockRange(9, 20), BlockRange(20, 61)])
def test_blocks_that_are_not_indexed_are_refused(store: Store, blocks: BlockRange):
    follower = Follower(mined(BLOCKS), store, start_block=10)
    follower.catch_up()

    with pytest.raises(InputError, match="indexed are 10 to 60"):
        backfill_range(follower.chain, store, follower.folder, blocks, RebuildOptions())


def test_an_empty_database_is_told_to_run_first(store: Store):
    with pytest.raises(InputError, match="qos-oracle run"):
        backfill_range(ScriptedChain(), store, folder(), ALL, RebuildOptions())
