"""A fold from any snapshot gives the same bytes as a fold from the start, after any events.

See docs/explanation/storage.md#state-snapshots.
"""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import update

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH
from oracle.domain.scoring.rules import Rules
from oracle.indexer import folded_state, snapshots
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import (
    FoldedState,
    NoNearbySnapshotError,
    compute_snapshot_version,
    fold_state_up_to,
)
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.indexer.snapshots import check_state_sample, make_next_snapshot
from oracle.reporting.recompute import build_report
from oracle.store.database import Store, UnitOfWork
from oracle.store.state import snapshot_repository
from oracle.store.state.node_repository import encode_node_row
from oracle.store.state.snapshot_repository import (
    MIN_KEPT_SNAPSHOTS,
    SnapshotInfo,
    choose_snapshots_to_delete,
)
from oracle.store.state.task_repository import encode_task_row
from oracle.store.tables.chain_tables import state_snapshot
from oracle.store.tables.state_tables import node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import SETTINGS, Indexer

MANNER = RebuildOptions()
TERMINAL = replace(CRYNUX, name="terminal", close="terminal")


def create_snapshot_source(indexer: Indexer, rules: Rules = CRYNUX) -> EventArchive:
    return EventArchive(indexer.store, indexer.folder.reader, rules)


def make_all_snapshots(source: EventArchive) -> int:
    snapshot_count = 0
    while make_next_snapshot(source, MANNER) is not None:
        snapshot_count += 1
    return snapshot_count


def collect_state(
    uow: UnitOfWork, source: EventArchive, state: FoldedState, block: int
) -> tuple[object, ...]:
    """Return every part of a state that is read: nodes, open tasks, kickouts, and the report."""
    fold, contract_state = state.fold, state.contract_state
    last_time = 0 if fold.last is None else fold.last.time
    as_of = BlockRef(block, ZERO_HASH, ZERO_HASH, last_time)
    return (
        sorted(map(encode_node_row, fold.ledger.nodes.values())),
        sorted(
            encode_task_row(task) for task in fold.ledger.tasks.values() if task.ending is None
        ),
        fold.last,
        contract_state.head,
        contract_state.settings,
        contract_state.previous_root,
        contract_state.kicks,
        build_report(uow, source.reader, state, as_of, source.rules, SETTINGS),
    )


def check_every_block(store: Store, source: EventArchive, last: int) -> set[int | None]:
    """Compare the folds of all blocks; return the snapshots at which they started."""
    used = set[int | None]()
    with store.read_transaction() as uow:
        for block in range(0, last + 1, 3):
            from_snapshot = fold_state_up_to(uow, source.reader, source.rules, block)
            from_scratch = fold_from_start(uow, source, block)
            assert collect_state(uow, source, from_snapshot, block) == collect_state(
                uow, source, from_scratch, block
            )
            used.add(from_snapshot.snapshot_block)
    return used


def fold_from_start(uow: UnitOfWork, source: EventArchive, block: int) -> FoldedState:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folded_state, "MAX_SNAPSHOTS_TRIED", 0)
        return fold_state_up_to(uow, source.reader, source.rules, block)


@pytest.mark.parametrize(("logs", "intervals"), [(5, 2), (17, 1), (2, 0)])
def test_fold_from_a_snapshot_equals_a_fold_from_the_start(
    synced_indexer: Indexer,
    fake_chain: FakeChain,
    monkeypatch: pytest.MonkeyPatch,
    logs: int,
    intervals: int,
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", logs)
    monkeypatch.setattr(snapshots, "_KEPT_INTERVALS", intervals)
    source = create_snapshot_source(synced_indexer)
    assert make_all_snapshots(source) > 2

    used = check_every_block(synced_indexer.store, source, fake_chain.head.number)
    assert len(used) > 2

    # A reorg of the non-final blocks, and more blocks.
    fake_chain.live(20, on=fake_chain.back(5))
    synced_indexer.index()
    make_all_snapshots(source)
    check_every_block(synced_indexer.store, source, fake_chain.head.number)
    sample = check_state_sample(source, "0x0")
    assert sample is not None
    assert sample.differing == ()


def test_snapshot_without_tasks_gives_the_same_state(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    real = snapshot_repository.encode_state
    # As if all tasks had been settled long before, so that their rows are newer than the snapshot.
    monkeypatch.setattr(folded_state, "encode_state", lambda state: real(state._replace(tasks=())))
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    assert make_all_snapshots(source) > 2
    with synced_indexer.store.read_transaction() as uow:
        for block in range(0, fake_chain.head.number + 1, 3):
            from_snapshot = fold_state_up_to(uow, source.reader, source.rules, block)
            from_scratch = fold_from_start(uow, source, block)
            # The tasks are not compared: pending tasks without a later event are missing.
            nodes, _, *other_parts = collect_state(uow, source, from_snapshot, block)
            expected_nodes, _, *expected_parts = collect_state(uow, source, from_scratch, block)
            assert (nodes, other_parts) == (expected_nodes, expected_parts)


def test_snapshot_of_other_rules_or_fold_version_is_not_used(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    make_all_snapshots(source)
    reader, last = synced_indexer.folder.reader, fake_chain.head.number
    with synced_indexer.store.read_transaction() as uow:
        assert fold_state_up_to(uow, reader, CRYNUX, last).snapshot_block is not None
        assert fold_state_up_to(uow, reader, TERMINAL, last).snapshot_block is None
        monkeypatch.setattr(folded_state, "FOLD_VERSION", 99)
        assert fold_state_up_to(uow, reader, CRYNUX, last).snapshot_block is None


def test_snapshots_restore_groups_under_the_terminal_close_rule(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    rebuild_state(
        synced_indexer.store, EventFolder(TERMINAL, synced_indexer.folder.reader), MANNER
    )
    source = create_snapshot_source(synced_indexer, TERMINAL)
    assert make_all_snapshots(source) > 2
    assert len(check_every_block(synced_indexer.store, source, fake_chain.head.number)) > 2


def test_rebuild_and_rewind_delete_snapshots(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    make_all_snapshots(source)
    made_by = compute_snapshot_version(source.reader, CRYNUX)
    rewind_to_block(
        synced_indexer.source,
        synced_indexer.store,
        synced_indexer.folder,
        fake_chain.head.number - 4,
        MANNER,
    )
    with synced_indexer.store.read_transaction() as uow:
        assert uow.snapshots.find_newest_block_and_log_count(10**9, made_by) is not None
    rewind_to_block(synced_indexer.source, synced_indexer.store, synced_indexer.folder, 40, MANNER)
    with synced_indexer.store.read_transaction() as uow:
        assert uow.snapshots.count_snapshots_and_bytes() == (0, 0)
    make_all_snapshots(source)
    check_every_block(synced_indexer.store, source, 40)


def test_damaged_snapshot_is_ignored(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    make_all_snapshots(source)
    with synced_indexer.store.transaction() as uow:
        uow._connection.execute(update(state_snapshot).values(body=b"damaged"))
    assert check_every_block(synced_indexer.store, source, fake_chain.head.number) == {None}


def test_sample_check_reports_a_damaged_node_row(
    synced_indexer: Indexer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    make_all_snapshots(source)
    with synced_indexer.store.transaction() as uow:
        address = max(
            uow.nodes.iterate_all(), key=lambda node_state: node_state.changed_at
        ).address
        uow._connection.execute(
            update(node).where(node.c.address == bytes.fromhex(address[2:])).values(base=7)
        )
    sample_check = check_state_sample(source, "none")
    assert sample_check is not None
    assert sample_check.differing == (f"node {address}",)


def test_fold_without_a_nearby_snapshot_is_rejected(
    synced_indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 5)
    source = create_snapshot_source(synced_indexer)
    last = fake_chain.head.number
    with (
        synced_indexer.store.read_transaction() as uow,
        pytest.raises(NoNearbySnapshotError, match="more than 30 logs"),
    ):
        fold_state_up_to(uow, source.reader, CRYNUX, last, max_logs=30)
    make_all_snapshots(source)
    with synced_indexer.store.read_transaction() as uow:
        assert (
            fold_state_up_to(uow, source.reader, CRYNUX, last, max_logs=60).snapshot_block
            is not None
        )


def test_older_snapshots_are_thinned_out_within_the_size_limit():
    chance = random.Random(1)  # noqa: S311  places to be drawn again
    places = [
        SnapshotInfo(number, 5_000 * number, chance.randint(900, 1_100))
        for number in range(1, 400)
    ]
    gone = set(choose_snapshots_to_delete(places, 60_000))
    kept_snapshots = [place for place in places if place.block not in gone]
    assert sum(place.size_bytes for place in kept_snapshots) <= 60_000
    assert kept_snapshots[-MIN_KEPT_SNAPSHOTS:] == places[-MIN_KEPT_SNAPSHOTS:]
    gaps = [after.logs - before.logs for before, after in pairwise(kept_snapshots)]
    middle = len(gaps) // 2
    assert max(gaps[middle:]) < max(gaps[:middle])
    assert sorted(gaps, reverse=True)[: middle // 2][0] < 400 * 5_000 // 4
