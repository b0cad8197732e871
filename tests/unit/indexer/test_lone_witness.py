"""If only one endpoint can confirm a fork, it must report the fork twice."""

from oracle.indexer.loop import IngestState
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import Follower, mine_blocks
from tests.unit.indexer.test_rewinding import BLOCKS


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def leave_alone(chain: ScriptedChain) -> None:
    """Let the other endpoint lag far behind, so that only this one can confirm a fork."""
    chain.other = chain.copy()
    chain.other.lag = 90


def test_fork_reported_by_one_witness_must_persist_before_rewind(store: Store):
    clock = ManualClock()
    follower = Follower(mine_blocks(BLOCKS), store, ingest=IngestState(clock))
    follower.catch_up()
    leave_alone(follower.chain)
    follower.chain.fork(2)
    follower.chain.mine_many(3)

    for _ in range(2):
        assert follower.step() is None
        clock.now += 19.0
        assert follower.step() is None
        clock.now += 1.0
    assert isinstance(follower.step(), RewindResult)


def test_another_fork_reported_by_the_witness_restarts_the_wait(store: Store):
    clock = ManualClock()
    follower = Follower(mine_blocks(BLOCKS), store, ingest=IngestState(clock))
    follower.catch_up()
    leave_alone(follower.chain)
    for _ in range(4):
        follower.chain.fork(1)
        follower.chain.mine_many(1)
        assert follower.step() is None
        clock.now += 20.0


def test_fork_watch_ends_if_the_witness_returns_to_the_chain(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store, ingest=IngestState(ManualClock()))
    follower.catch_up()
    leave_alone(follower.chain)
    original_chain = follower.chain.copy()
    follower.chain.fork(2)
    follower.chain.mine_many(2)
    assert follower.step() is None
    assert follower.ingest.fork_watch.is_pending()
    original_chain.mine_many(2)
    original_chain.other = follower.chain.other
    follower.chain = original_chain

    follower.ingest.clock.now += 100.0  # type: ignore[attr-defined]  # a hand's
    follower.catch_up()

    assert not follower.ingest.fork_watch.is_pending()
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.hash == original_chain.newest.hash
