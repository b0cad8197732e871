"""Folding the stored rows again gives the same bytes, and a difference is reported."""

from dataclasses import replace

import pytest

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.blocks import BlockRange
from oracle.errors import FatalError, InputError
from oracle.indexer import stored_events
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.reporting.report_cutter import ReportCutter
from oracle.store.database import Store
from oracle.store.report_repository import ReportState
from tests.support.scripted import ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.brittle import die_at_each_call
from tests.support.txmgr.follower import (
    ANCHOR_WINDOW,
    DOMAIN,
    RULES,
    SETTINGS,
    Follower,
    folder,
    mine_blocks,
)
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(5).blocks(40)


def follow_in_steps(store: Store, blocks: int = 40) -> Follower:
    """Follow the head in small steps, so that reports are cut."""
    follower = Follower(mine_blocks([]), store)
    for first in range(0, blocks, 4):
        mine_blocks(BLOCKS[first : first + 4], follower.chain)
        follower.catch_up()
    return follower


def damage_rows(store: Store) -> None:
    with store.transaction() as uow:
        node = next(iter(uow.nodes.iterate_all()))
        uow.nodes.save([replace(node, base=1)])


def test_rebuild_produces_identical_state_and_reports(store: Store):
    follower = follow_in_steps(store)
    before = follower.dump()

    rebuilt = rebuild_state(store, follower.folder, RebuildOptions())

    assert rebuilt.is_same
    assert rebuilt.report_count >= 5
    assert rebuilt.differing == ()
    assert follower.dump() == before
    assert rebuilt.log_count == sum(len(block.logs) for block in follower.chain.blocks)


def test_rebuild_folds_many_rows_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch):
    follower = follow_in_steps(store)
    monkeypatch.setattr(stored_events, "LOGS_AT_ONCE", 7)
    reached: list[int] = []

    rebuilt = rebuild_state(
        store, follower.folder, RebuildOptions(progress=lambda block, _: reached.append(block))
    )

    assert rebuilt.is_same
    assert rebuilt.differing == ()
    assert len(reached) > 5
    assert reached == sorted(reached)


def test_window_fetched_before_a_rebuild_is_not_committed(store: Store):
    follower = follow_in_steps(store)
    follower.chain.mine()
    window = follower.chain.fetch_window

    def rebuilt_meanwhile(
        blocks: BlockRange, *, with_headers: bool, max_blocks: int | None = None
    ) -> BlockWindow:
        rebuild_state(store, folder(), RebuildOptions())
        return window(blocks, with_headers=with_headers, max_blocks=max_blocks)

    follower.chain.fetch_window = rebuilt_meanwhile  # type: ignore[method-assign]

    with pytest.raises(FatalError, match="another process"):
        follower.step()


def test_manually_changed_row_is_reported_and_repaired(store: Store):
    follower = follow_in_steps(store)
    before = follower.dump()
    damage_rows(store)

    rebuilt = rebuild_state(store, follower.folder, RebuildOptions())

    assert not rebuilt.is_same
    assert follower.dump() == before


def test_dry_run_of_rebuild_reports_but_repairs_nothing(store: Store):
    follower = follow_in_steps(store)
    damage_rows(store)
    spoilt = follower.dump()

    rebuilt = rebuild_state(store, follower.folder, RebuildOptions(dry_run=True))

    assert not rebuilt.is_same
    assert follower.dump() == spoilt


def test_rebuild_lists_a_differing_report_and_keeps_it(store: Store):
    follow_in_steps(store)
    with store.read_transaction() as uow:
        before = uow.reports.list_newest(1000)
    # A missed report may refer to a block that left the chain.
    compared = [
        stored_report for stored_report in before if stored_report.state is not ReportState.MISSED
    ]
    changed_settings = replace(SETTINGS, ttl_seconds=SETTINGS.ttl_seconds + 1)
    reporter = ReportCutter(
        ScriptedReader(), RULES, changed_settings, DOMAIN, anchor_window=ANCHOR_WINDOW
    )

    rebuilt = rebuild_state(
        store, EventFolder(RULES, ScriptedReader(), [reporter]), RebuildOptions()
    )

    assert rebuilt.is_same
    assert rebuilt.differing == tuple(stored.report.period for stored in compared)
    with store.read_transaction() as uow:
        assert uow.reports.list_newest(1000) == before


def test_fork_is_undone_after_rebuild(store: Store, new_store: NewStore):
    follower = follow_in_steps(store)
    rebuild_state(store, follower.folder, RebuildOptions())
    follower.chain.fork(6)
    mine_blocks(Traffic(6).blocks(8), follower.chain)

    done = follower.catch_up()

    assert isinstance(done[0], RewindResult)
    with new_store() as fresh_store:
        fresh = Follower(follower.chain, fresh_store)
        fresh.catch_up()
        assert follower.dump() == fresh.dump()


def test_daemon_continues_after_rebuild(store: Store, new_store: NewStore):
    follower = follow_in_steps(store)
    rebuild_state(store, folder(), RebuildOptions())
    mine_blocks(Traffic(6).blocks(8), follower.chain)

    follower.catch_up()

    with new_store() as fresh_store:
        fresh = Follower(follower.chain, fresh_store)
        fresh.catch_up()
        assert follower.dump() == fresh.dump()


@pytest.mark.slow
@pytest.mark.nightly
def test_interrupted_rebuild_leaves_previous_state(store: Store):
    follower = follow_in_steps(store, blocks=20)
    before = follower.dump()
    damage_rows(store)
    spoilt = follower.dump()

    died = die_at_each_call(
        store,
        lambda brittle: rebuild_state(brittle, follower.folder, RebuildOptions()),
        lambda: follower.dump() == spoilt,
    )

    assert died > 20
    assert follower.dump() == before


def test_aborted_rebuild_leaves_previous_state_and_can_be_repeated(store: Store):
    follower = follow_in_steps(store)
    before = follower.dump()

    def interrupt(block: int, last: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_state(store, follower.folder, RebuildOptions(progress=interrupt))

    assert follower.dump() == before
    assert rebuild_state(store, follower.folder, RebuildOptions()).is_same


def test_rebuild_of_empty_database_is_rejected(store: Store):
    with pytest.raises(InputError, match="nothing is indexed"):
        rebuild_state(store, folder(), RebuildOptions())
