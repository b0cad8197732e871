"""A process that dies at any point leaves either nothing of a step or the complete step."""

import pytest

from oracle.indexer.commit import CommittedWindow
from oracle.indexer.loop import ingest_next_window
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store.database import Store
from tests.support.traffic import Traffic
from tests.support.txmgr.brittle import die_at_each_call
from tests.support.txmgr.follower import Follower, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(2).blocks(50)


@pytest.mark.slow
def test_interrupted_window_write_leaves_previous_state(store: Store, new_store: NewStore):
    chain = mine_blocks(BLOCKS[:40])
    follower = Follower(chain, store)
    follower.catch_up()
    mine_blocks(BLOCKS[40:], chain)
    before = follower.dump()

    def step(brittle: Store) -> None:
        done = ingest_next_window(chain, brittle, follower.folder, follower.ingest)
        assert isinstance(done, CommittedWindow)

    # Raw rows, every projection, journal, prune, cursor, commit.
    assert die_at_each_call(store, step, lambda: follower.dump() == before) > 20
    with new_store() as fresh_store:
        fresh_follower = Follower(chain, fresh_store)
        fresh_follower.catch_up()
        assert follower.dump() == fresh_follower.dump()


def test_interrupted_rollback_leaves_previous_state(store: Store, new_store: NewStore):
    chain = mine_blocks(BLOCKS[:40])
    follower = Follower(chain, store)
    follower.catch_up()
    before = follower.dump()
    chain.fork(7)
    mine_blocks(BLOCKS[40:], chain)

    def step(brittle: Store) -> None:
        done = ingest_next_window(chain, brittle, follower.folder, follower.ingest)
        assert isinstance(done, RewindResult)

    assert die_at_each_call(store, step, lambda: follower.dump() == before) > 5
    with new_store() as fresh_store:
        as_if = mine_blocks(BLOCKS[:33])
        Follower(as_if, fresh_store).catch_up()
        with store.read_transaction() as rewound_uow, fresh_store.read_transaction() as two:
            assert list(rewound_uow.projections.iterate_dump_lines()) == list(
                two.projections.iterate_dump_lines()
            )


def test_sqlite_and_postgresql_produce_identical_projections(
    new_sqlite_store: NewStore, new_postgresql_store: NewStore
):
    dumps = []
    for new in (new_sqlite_store, new_postgresql_store):
        with new() as store:
            follower = Follower(mine_blocks(BLOCKS), store)
            follower.catch_up()
            dumps.append(follower.dump())

    assert dumps[0] == dumps[1]
