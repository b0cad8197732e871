"""A rewind below the journal restores a snapshot, and gives the same bytes as a new fold."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import update

from oracle.domain.scoring.rules import Rules
from oracle.indexer import folded_state, snapshots
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.provenance import mark_fold_stale
from oracle.indexer.rebuild import IncompleteLogsError, RebuildOptions
from oracle.indexer.reorgs.reorg import RewindResult, rewind_to_block
from oracle.indexer.rules_binding import bind_rules
from oracle.indexer.snapshots import check_state_sample, make_next_snapshot
from oracle.indexer.state_sample import SampleCheck, store_sample_result
from oracle.store.database import Store, UnitOfWork
from oracle.store.state import snapshot_repository
from oracle.store.tables.chain_tables import state_snapshot
from oracle.store.tables.log_tables import log_row
from oracle.store.tables.state_tables import end_minute, incident as incident_table
from tests.support.examples import examples
from tests.support.histories import GENESIS_TIME
from tests.support.scripted import Event, ScriptedChain
from tests.support.task_traffic import build_burst_history
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, folder, mine_blocks
from tests.support.txmgr.stores import NewStore

TERMINAL = replace(RULES, name="terminal", close="terminal")
BLOCKS = Traffic(3).blocks(100)
# Below the journal, which reaches back to the final block.
DEEP = 70


def make_snapshots(follower: Follower) -> list[int]:
    """Make a snapshot of every final block; return the blocks."""
    rules, reader = follower.folder.rules, follower.folder.reader
    source = EventArchive(follower.store, reader, rules)
    blocks = []
    while (snapshot := make_next_snapshot(source, RebuildOptions())) is not None:
        blocks.append(snapshot.block)
    return blocks


@contextmanager
def small_snapshots(logs: int, intervals: int = 2) -> Iterator[None]:
    """Make a snapshot after every few logs, so that a short history has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "SNAPSHOT_LOGS", logs)
        patch.setattr(snapshots, "_KEPT_INTERVALS", intervals)
        yield


def caught_up(store: Store, blocks: Sequence[Sequence[Event]], rules: Rules = RULES) -> Follower:
    follower = Follower(mine_blocks(blocks), store, folder=folder(rules))
    with store.transaction() as uow:
        bind_rules(uow, rules)
    follower.catch_up()
    return follower


def rewind(follower: Follower, number: int) -> RewindResult:
    return rewind_to_block(
        follower.chain, follower.store, follower.folder, number, RebuildOptions()
    )


def up_to(chain: ScriptedChain, number: int) -> ScriptedChain:
    """Return the chain as of this block."""
    shorter = chain.copy()
    del shorter.blocks[number + 1 :]
    return shorter


def fork_from(follower: Follower, number: int, blocks: Sequence[Sequence[Event]]) -> None:
    """Let the follower read a chain with other blocks above this number."""
    follower.chain = mine_blocks(blocks, up_to(follower.chain, number))
    follower.restart()
    follower.catch_up()


def fresh_dump(new_store: NewStore, chain: ScriptedChain, rules: Rules) -> list[str]:
    """Return all rows that a new fold of the chain gives."""
    with new_store() as store:
        follower = Follower(chain, store, folder=folder(rules))
        follower.catch_up()
        return follower.dump()


@pytest.mark.slow
# Generous, because other programs may use the machine.
@pytest.mark.timeout(900)
@examples(10)
@given(
    seed=st.integers(0, 2**16),
    targets=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    logs=st.sampled_from((7, 20)),
    intervals=st.integers(0, 2),
    rules=st.sampled_from((RULES, TERMINAL)),
)
def test_rewind_from_snapshot_equals_fresh_fold_on_every_fork(
    new_sqlite_store: NewStore,
    seed: int,
    targets: tuple[int, int],
    logs: int,
    intervals: int,
    rules: Rules,
):
    with new_sqlite_store() as store, small_snapshots(logs, intervals):
        follower = caught_up(store, Traffic(seed).blocks(60), rules)
        for number in targets:
            snapshot_blocks = make_snapshots(follower)
            full_dump = follower.dump()
            reports = follower.reports()

            rewound = rewind(follower, number)

            below = [block for block in snapshot_blocks if block < number]
            assert rewound.by_rebuild
            assert rewound.snapshot in below or not below
            there = follower.dump()
            assert there == fresh_dump(new_sqlite_store, up_to(follower.chain, number), rules)
            follower.catch_up()
            assert follower.dump() == full_dump
            assert follower.reports() == reports
            # Rewind, and follow other blocks from there.
            rewind(follower, number)
            assert follower.dump() == there
            fork_from(follower, number, Traffic(seed + 1).blocks(60))


def test_rewind_below_journal_folds_from_newest_snapshot(store: Store, new_store: NewStore):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        snapshot_blocks = make_snapshots(follower)

        rewound = rewind(follower, DEEP)

    assert rewound.by_rebuild
    assert rewound.snapshot == max(block for block in snapshot_blocks if block < DEEP)
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:DEEP]), RULES)
    with store.read_transaction() as uow:
        assert uow.snapshots.count_snapshots_and_bytes()[0] == sum(
            block <= DEEP for block in snapshot_blocks
        )


def test_dry_run_of_rewind_from_snapshot_changes_nothing(store: Store):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        make_snapshots(follower)
        before = follower.dump()

        options = RebuildOptions(dry_run=True)
        rewound = rewind_to_block(follower.chain, store, follower.folder, DEEP, options)

    assert rewound.snapshot is not None
    assert follower.dump() == before


def test_rewind_ignores_snapshots_of_previous_fork(store: Store, new_store: NewStore):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        make_snapshots(follower)
        rewind(follower, 30)
        fork_from(follower, 30, Traffic(8).blocks(70))
        # No snapshot of this fork exists yet.
        rewound = rewind(follower, DEEP)

    assert rewound.snapshot is not None
    assert rewound.snapshot <= 30
    assert follower.dump() == fresh_dump(new_store, up_to(follower.chain, DEEP), RULES)


@pytest.mark.slow
def test_rewind_under_other_rules_does_not_use_snapshots(store: Store, new_store: NewStore):
    other_rules = replace(RULES, name="other", pool_size=2)
    with small_snapshots(7):
        make_snapshots(caught_up(store, BLOCKS))
        follower = Follower.__new__(Follower)
        follower.chain = mine_blocks(BLOCKS)
        follower.store = store
        follower.folder = folder(other_rules)

        rewound = rewind(follower, DEEP)

    assert rewound.snapshot is None
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:DEEP]), other_rules)


def test_rewind_with_another_fold_version_does_not_use_snapshots(
    store: Store, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        make_snapshots(follower)
        monkeypatch.setattr(folded_state, "FOLD_VERSION", 99)

        rewound = rewind(follower, DEEP)

    assert rewound.snapshot is None
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:DEEP]), RULES)


def damage_snapshots(uow: UnitOfWork) -> None:
    uow._connection.execute(update(state_snapshot).values(body=b"damaged"))


def note_mismatch(uow: UnitOfWork) -> None:
    store_sample_result(uow, SampleCheck(99, 1, ("node 0xa0",)))


@pytest.mark.parametrize("distrust", [damage_snapshots, note_mismatch, mark_fold_stale])
def test_rewind_ignores_snapshots_that_may_be_wrong(
    store: Store, new_store: NewStore, distrust: Callable[[UnitOfWork], None]
):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        make_snapshots(follower)
        with store.transaction() as uow:
            distrust(uow)

        rewound = rewind(follower, DEEP)

    assert rewound.snapshot is None
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:DEEP]), RULES)


def test_rewind_with_damaged_logs_below_the_snapshot_is_rejected(store: Store):
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        make_snapshots(follower)
        with store.transaction() as uow:
            uow._connection.execute(update(log_row).values(data=b"~"))
        before = follower.dump()

        with pytest.raises(IncompleteLogsError, match="resync verify"):
            rewind(follower, DEEP)

    assert follower.dump() == before


@pytest.mark.slow
def test_rewind_skips_snapshots_that_lack_a_task_of_later_blocks(
    store: Store, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
):
    real = snapshot_repository.encode_state
    # The rows of tasks are those of later blocks, as if every task had ended long before.
    monkeypatch.setattr(folded_state, "encode_state", lambda state: real(state._replace(tasks=())))
    with small_snapshots(7):
        follower = caught_up(store, BLOCKS)
        snapshot_blocks = make_snapshots(follower)
        # A task runs at one of these blocks.
        for number in range(86, 20, -6):
            rewound = rewind(follower, number)
            if rewound.snapshot != max(block for block in snapshot_blocks if block < number):
                break

    assert rewound.snapshot != max(block for block in snapshot_blocks if block < number)
    assert follower.dump() == fresh_dump(new_store, mine_blocks(BLOCKS[:number]), RULES)


def mined_burst() -> ScriptedChain:
    """Mine a burst of one application, with each moment in a separate block."""
    chain = ScriptedChain()
    time = GENESIS_TIME
    for event_time, events in groupby(build_burst_history().events, key=lambda event: event.time):
        chain.mine(*events, after=event_time - time)
        time = event_time
    chain.mine_many(chain.finality_depth)
    return chain


def test_rewind_from_snapshot_restores_every_phase_of_incident(store: Store, new_store: NewStore):
    chain = mined_burst()
    with small_snapshots(4):
        follower = Follower(chain, store, folder=folder(RULES))
        with store.transaction() as uow:
            bind_rules(uow, RULES)
        follower.catch_up()
        full_dump = follower.dump()
        snapshot_blocks = make_snapshots(follower)
        with store.read_transaction() as uow:
            (incident,) = uow.incidents.list_newest(9)
        assert incident.over_at is not None
        over, found = incident.over_at.block, incident.found_at.block
        assert any(found < block < over for block in snapshot_blocks)
        for number in (over - 1, found, found - 1):
            rewound = rewind(follower, number)
            assert rewound.snapshot is not None
            assert follower.dump() == fresh_dump(new_store, up_to(chain, number), RULES)
            follower.restart()
            follower.catch_up(restarting=True)
            assert follower.dump() == full_dump
            make_snapshots(follower)


def test_sample_check_finds_damaged_incident_rows(store: Store):
    follower = Follower(up_to(mined_burst(), 25), store, folder=folder(RULES))
    follower.catch_up()
    source = EventArchive(store, follower.folder.reader, RULES)
    check = check_state_sample(source, "0x")
    assert check is not None
    assert check.differing == ()
    with store.transaction() as uow:
        uow._connection.execute(update(incident_table).values(until=0))
        uow._connection.execute(update(end_minute).values(timeouts=0))
    check = check_state_sample(source, "0x")
    assert check is not None
    assert "incident 1" in check.differing
    assert any(row.startswith("end_minute ") for row in check.differing)
