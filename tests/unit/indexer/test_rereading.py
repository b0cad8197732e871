"""Blocks below the reachable verification level are read again, the lowest first."""

from collections.abc import Iterator

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from oracle.indexer.audit.reread import Rereader, RereadResult, reread_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.database import Store
from oracle.telemetry.metrics import REGISTRY
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(7).blocks(60)
FINAL = 52


@pytest.fixture
def store(new_sqlite_store: NewStore) -> Iterator[Store]:
    with new_sqlite_store() as opened:
        yield opened


@pytest.fixture
def follower(store: Store) -> Follower:
    """Return a follower that has read 60 blocks from one endpoint;
    the last eight are not final.
    """
    caught_up_follower = Follower(mine_blocks(BLOCKS), store)
    caught_up_follower.catch_up()
    caught_up_follower.chain.most_blocks = 20
    return caught_up_follower


def reread_all(follower: Follower, rereader: Rereader) -> list[RereadResult]:
    done = []
    while (
        reread_result := reread_next_window(
            RepairContext(follower.chain, follower.store, follower.folder, RebuildOptions()),
            rereader,
        )
    ) is not None:
        done.append(reread_result)
    return done


def levels(follower: Follower) -> list[tuple[BlockRange, VerificationLevel]]:
    with follower.store.read_transaction() as uow:
        spans = uow.coverage.list_intervals(follower.folder.scope.id)
        return [(span.blocks, span.level) for span in spans]


def test_blocks_are_not_reread_if_the_verification_level_is_unchanged(follower: Follower):
    assert reread_all(follower, Rereader()) == []


def test_raised_verification_level_rereads_final_blocks_in_order(
    follower: Follower,
):
    rereader = Rereader()
    reread_all(follower, rereader)
    follower.chain.history_level = follower.chain.window_level = VerificationLevel.BLOOMED

    done = reread_all(follower, rereader)

    assert [reread_result.blocks.first for reread_result in done] == [0, 20, 40]
    assert [reread_result.blocks_left for reread_result in done] == [33, 13, 0]
    assert levels(follower)[0] == (BlockRange(0, FINAL), VerificationLevel.BLOOMED)
    assert reread_all(follower, Rereader()) == []


def test_blocks_are_reread_only_once_per_process(follower: Follower):
    rereader = Rereader()
    follower.chain.history_level = VerificationLevel.BLOOMED

    first = reread_all(follower, rereader)
    again = reread_all(follower, rereader)

    assert (len(first), again) == (3, [])
    with follower.store.read_transaction() as uow:
        assert rereader.find_span_to_reread(follower.chain, uow, follower.folder) is None
        assert Rereader().find_span_to_reread(follower.chain, uow, follower.folder) is not None


def test_gauge_of_blocks_below_level_is_unchanged_while_rereading_fails(follower: Follower):
    follower.chain.history_level = follower.chain.window_level = VerificationLevel.BLOOMED
    rereader = Rereader()
    removed_blocks = follower.chain.blocks[30:]
    del follower.chain.blocks[30:]

    gauge_values = []
    for _ in range(3):
        with pytest.raises(TransientError):
            reread_all(follower, rereader)
        gauge_values.append(REGISTRY.get_sample_value("oracle_blocks_below_level"))
    follower.chain.blocks += removed_blocks
    reread_all(follower, rereader)

    assert gauge_values == [FINAL + 1 - 20] * 3
    assert REGISTRY.get_sample_value("oracle_blocks_below_level") == 0
