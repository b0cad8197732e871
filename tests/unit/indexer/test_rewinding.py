"""A rewind leaves no trace of a fork; a difference that is not a fork changes nothing."""

import pytest
from hypothesis import given, settings, strategies as st

from oracle.errors import TransientError
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store.database import Store
from tests.support.examples import examples
from tests.support.scripted import ScriptedChain
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(3).blocks(100)


def fresh_dump(new_store: NewStore, chain: ScriptedChain) -> list[str]:
    with new_store() as store:
        follower = Follower(chain, store)
        follower.catch_up()
        return follower.dump()


FORKS = given(
    seed=st.integers(0, 2**16),
    turns=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=4),
    restarting=st.booleans(),
)


PATIENT = examples(4)


def check_state_equals_fresh_index(
    new_store: NewStore, seed: int, turns: list[tuple[int, int]], *, restarting: bool
) -> None:
    traffic = Traffic(seed)
    with new_store() as store:
        follower = Follower(mine_blocks(traffic.blocks(20)), store)
        chain = follower.chain
        follower.catch_up()
        for more, depth in turns:
            mine_blocks(traffic.blocks(more), chain)
            follower.catch_up(restarting=restarting)
            chain.fork(min(depth, chain.newest.number - chain.fetch_heads().final.number))
            mine_blocks(traffic.blocks(3), chain)
            follower.catch_up(restarting=restarting)
        mine_blocks(traffic.blocks(8), chain)
        follower.catch_up(restarting=restarting)

        assert follower.dump() == fresh_dump(new_store, chain)
        with new_store() as fresh_store:
            fresh = Follower(chain, fresh_store)
            fresh.catch_up()
            since, reports = fresh.reports()
        followed_reports = follower.reports()[1]
        assert {
            period: followed_reports[period] for period in followed_reports if period >= since
        } == reports


@PATIENT
@FORKS
@pytest.mark.slow
def test_fork_of_any_depth_ends_in_same_state_as_fresh_index(
    new_store: NewStore, seed: int, turns: list[tuple[int, int]], *, restarting: bool
):
    check_state_equals_fresh_index(new_store, seed, turns, restarting=restarting)


@pytest.mark.slow
# Two minutes on an idle machine.
@pytest.mark.timeout(900)
@settings(PATIENT, max_examples=200)
@FORKS
@pytest.mark.nightly
def test_many_forks_end_in_same_state_as_fresh_index(
    new_sqlite_store: NewStore, seed: int, turns: list[tuple[int, int]], *, restarting: bool
):
    check_state_equals_fresh_index(new_sqlite_store, seed, turns, restarting=restarting)


def test_returning_from_fork_restores_canonical_rows(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    first = follower.chain.copy()
    follower.chain.fork(5)
    mine_blocks(Traffic(4).blocks(6), follower.chain)
    follower.catch_up()
    assert follower.dump() != before
    first.mine_many(2)
    follower.chain = first

    follower.catch_up()

    with store.read_transaction() as uow:
        assert uow.logs.count() == sum(len(block.logs) for block in first.blocks)


def test_fork_at_same_height_is_detected_without_new_block(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(2)
    follower.chain.mine_many(2)

    rewound = follower.step()

    assert isinstance(rewound, RewindResult)
    assert rewound.depth == 2
    assert rewound.ancestor == follower.chain.blocks[98].ref


def test_fork_during_downtime_is_detected_at_start(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(6)
    follower.chain.mine_many(12)
    follower.restart()

    done = follower.step()

    assert isinstance(done, RewindResult)


def test_head_below_cursor_on_same_chain_is_treated_as_lag(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    follower.chain.lag = 3

    assert follower.step() is None
    assert follower.dump() == before


def test_shorter_chain_is_followed(store: Store, new_store: NewStore):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.fork(4)
    follower.chain.mine_many(3)

    rewound = follower.step()

    assert isinstance(rewound, RewindResult)
    assert rewound.ancestor == follower.chain.blocks[96].ref
    follower.catch_up()
    assert follower.dump() == fresh_dump(new_store, follower.chain)


@pytest.mark.parametrize("shorter_by", [0, 1])
def test_single_endpoint_that_reports_a_fork_is_quarantined(store: Store, shorter_by: int):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    follower.chain.other = follower.chain.copy()
    follower.chain.fork(4)
    follower.chain.mine_many(4 - shorter_by)

    with pytest.raises(TransientError, match="still shown by second; the report was rejected"):
        follower.step()

    assert [name for name, _ in follower.chain.put_away] == ["first"]
    assert follower.dump() == before


def test_final_block_of_another_fork_is_not_stored(store: Store):
    """The heads are of one endpoint and the window of another:
    the rewind must not end at the fork.
    """
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    with store.read_transaction() as uow:
        before = uow.cursor.get()
    original_chain = follower.chain.copy()
    original_chain.mine_many(4)
    follower.chain.fork(12)
    follower.chain.mine_many(16)
    follower.chain.answers.extend([follower.chain.copy(), original_chain])

    with pytest.raises(TransientError, match="is final with hash"):
        follower.step()

    with store.read_transaction() as uow:
        assert uow.cursor.get() == before


def test_logs_of_orphaned_blocks_are_kept(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    gone = follower.chain.fork(7)
    follower.chain.mine_many(8)

    follower.catch_up()

    with store.read_transaction() as uow:
        orphans = list(uow.logs.iterate_between(0, 200, canonical=False))
    assert orphans == [log for block in gone.blocks[-7:] for log in block.logs]
    assert orphans


def test_report_as_of_an_orphaned_block_is_rebuilt(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    with store.read_transaction() as uow:
        (newest,) = uow.reports.list_newest(1)
    follower.chain.fork(7)
    follower.chain.mine_many(8)

    follower.catch_up()

    with store.read_transaction() as uow:
        again = uow.reports.get(newest.report.period)
    assert again is not None
    assert again.report.as_of != newest.report.as_of
    assert again.report.as_of == follower.chain.blocks[again.report.as_of.number].ref


def test_change_of_a_final_block_halts_indexing_and_names_both_hashes(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()
    original_hash = follower.chain.blocks[92].ref.hash
    follower.chain.fork(15)
    follower.chain.mine_many(20)
    forked_hash = follower.chain.blocks[92].ref.hash

    halted = follower.step()

    assert isinstance(halted, HaltChanged)
    assert halted.is_active
    assert original_hash in halted.reason
    assert forked_hash in halted.reason
    assert follower.step() is None
    assert follower.dump() == before


def test_history_from_another_chain_halts_indexing(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.chain.most_blocks = 20
    follower.step()
    foreign_chain = ScriptedChain(most_blocks=20, seconds_per_block=7)
    mine_blocks(Traffic(9).blocks(100), foreign_chain)
    follower.chain = foreign_chain

    halted = follower.step()

    assert isinstance(halted, HaltChanged)
    assert "nothing was changed" in halted.reason


def test_fork_below_start_block_removes_all_rows(store: Store):
    follower = Follower(ScriptedChain(), store, start_block=4)
    mine_blocks(Traffic(3).blocks(7), follower.chain)
    follower.catch_up()
    follower.chain.fork(6)
    follower.chain.mine_many(9)

    follower.catch_up()

    with store.read_transaction() as uow:
        assert uow.logs.count() == 0
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.hash == follower.chain.newest.hash
