"""The certainty of blocks: gaps, a second endpoint, levels, dead letters; on a scripted chain."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, VerificationLevel
from oracle.domain.events.network_events import TaskCreated, TaskStarted
from oracle.domain.ids import Hash
from oracle.errors import InputError, TransientError
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.contract_counters import compare_contract_counters
from oracle.indexer.audit.reverify import VerifyResult, reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import (
    RebuildOptions,
    list_open_dead_letters,
    rebuild_state,
    retry_dead_letters,
)
from oracle.queries.index_checks import find_index_gaps
from oracle.queries.stats import compute_integrity_statistics
from oracle.store.database import Store
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.metrics import REGISTRY
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import Follower, folder, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(7).blocks(60)


@pytest.fixture
def store(new_sqlite_store: NewStore) -> Iterator[Store]:
    """Use one engine: the differences between engines are tested with the repositories."""
    with new_sqlite_store() as opened:
        yield opened


@pytest.fixture
def follower(store: Store) -> Follower:
    """Return a follower that has read 60 blocks, the last eight of them not final."""
    indexed_follower = Follower(mine_blocks(BLOCKS), store)
    indexed_follower.catch_up()
    return indexed_follower


def audit(follower: Follower, auditor: Auditor) -> AuditResult | None:
    context = RepairContext(follower.chain, follower.store, follower.folder, RebuildOptions())
    return audit_next_window(context, auditor)


def audit_all(follower: Follower, auditor: Auditor) -> list[AuditResult]:
    done = []
    while (audit_result := audit(follower, auditor)) is not None:
        done.append(audit_result)
    return done


def verify_blocks(
    follower: Follower,
    blocks: BlockRange,
    options: RebuildOptions | None = None,
    *,
    endpoint: str | None = None,
) -> VerifyResult:
    context = RepairContext(
        follower.chain, follower.store, follower.folder, options or RebuildOptions()
    )
    return reverify_blocks(context, blocks, VerificationLevel.PROVEN, endpoint)


# --- gaps ---


def test_complete_index_has_no_gap(follower: Follower):
    with follower.store.read_transaction() as uow:
        gaps = find_index_gaps(uow, follower.folder.reader)
    assert gaps is not None
    assert not gaps.has_gaps
    assert (gaps.first, gaps.last) == (0, 60)
    assert sum(gaps.levels.values()) == 61


def test_every_kind_of_gap_is_reported(follower: Follower):
    with follower.store.transaction() as uow:
        scope = follower.folder.scope.id
        uow.coverage.delete_above(29)
        uow.coverage.store_interval(
            scope, CoverageInterval(40, 60, VerificationLevel.SEAMED, "first")
        )
        there = uow.blocks.find_canonical(55)
        assert there is not None
        uow.blocks.orphan_above(57)
        log = next(log for block in follower.chain.blocks for log in block.logs)
        uow.logs.orphan(list(uow.logs.iterate_between(55, 55)))
        uow.logs.append([replace(log, block=55, block_hash=there.parent_hash)])
        gaps = find_index_gaps(uow, follower.folder.reader)
    assert gaps is not None
    assert gaps.has_gaps
    assert [(blocks.first, blocks.last) for blocks in gaps.unread] == [(30, 39)]
    assert gaps.headers == [58, 59, 60]
    assert gaps.mismatched_logs == [55]
    assert len(gaps.cursor) == 1
    assert "the newest header is 57" in gaps.cursor[0]


def test_uncovered_blocks_are_counted_in_statistics(follower: Follower):
    with follower.store.transaction() as uow:
        uow.coverage.delete_above(50)
    statistics = compute_integrity_statistics(follower.store, follower.folder)
    assert statistics is not None
    assert (statistics.uncovered_blocks, sum(statistics.block_count_by_level.values())) == (10, 51)


# --- the audit ---


def test_every_final_block_is_audited_once(follower: Follower):
    auditor = Auditor(window_blocks=20)

    audit_results = audit_all(follower, auditor)

    assert [audit_result.blocks for audit_result in audit_results] == [
        BlockRange(0, 19),
        BlockRange(20, 39),
    ]
    assert {
        (audit_result.source_endpoint, audit_result.auditor, audit_result.outcome)
        for audit_result in audit_results
    } == {("first", "second", "equal")}
    # The next process continues there.
    assert audit_all(follower, Auditor(window_blocks=20)) == []
    mine_blocks(Traffic(8).blocks(10), follower.chain)
    follower.catch_up()
    assert [audit_result.blocks for audit_result in audit_all(follower, auditor)] == [
        BlockRange(40, 59)
    ]


def test_audit_requires_a_second_endpoint(follower: Follower):
    follower.chain.names = ("first",)
    served = len(follower.chain.windows_served)
    assert audit(follower, Auditor(window_blocks=20)) is None
    assert len(follower.chain.windows_served) == served


def test_audits_run_rarely_while_the_indexer_lags():
    auditor = Auditor()
    assert [auditor.should_run(is_caught_up=False) for _ in range(40)].count(True) == 2
    assert auditor.should_run(is_caught_up=True)


def test_final_block_alone_determines_which_old_windows_are_audited(follower: Follower):
    cursor = Cursor(60, Hash("0x0a"), 1, None, None, 1)
    auditor = Auditor(window_blocks=10)
    chosen = {}
    for final in range(100, 2_100):
        at = replace(cursor, final_number=final, final_hash=Hash(f"0x{final:064x}"))
        blocks = auditor.sample_old_window(at, 0)
        # Each final block is requested once.
        assert auditor.sample_old_window(at, 0) is None
        if blocks is not None:
            chosen[final] = blocks
            assert blocks.last <= final
            assert blocks == Auditor(window_blocks=10).sample_old_window(at, 0)
    assert 10 <= len(chosen) <= 32
    assert len({blocks.first for blocks in chosen.values()}) > 5


def test_unprovable_difference_is_reported_and_left_unchanged(follower: Follower):
    before = follower.dump()
    follower.chain.most_level = VerificationLevel.SEAMED
    follower.chain.other = hide_first_logs(follower.chain)

    audit_results = audit_all(follower, Auditor(window_blocks=20))

    assert [audit_result.outcome for audit_result in audit_results] == ["unproven", "equal"]
    assert audit_results[0].difference.extra_rows
    assert follower.dump() == before
    assert follower.chain.put_away == []


def hide_first_logs(chain: ScriptedChain) -> ScriptedChain:
    """Return the same chain without the first logs of a block below 20."""
    reduced_chain = chain.copy()
    number = next(block.ref.number for block in chain.blocks if block.logs)
    reduced_chain.blocks[number] = replace(chain.blocks[number], logs=[])
    return reduced_chain


# --- verify ---


def test_verified_blocks_get_the_requested_level(follower: Follower):
    verify_blocks(follower, BlockRange(10, 49), endpoint="second")
    with follower.store.read_transaction() as uow:
        scope = follower.folder.scope.id
        later, earlier = (
            uow.coverage.list_intervals(scope, *blocks) for blocks in ((10, 49), (0, 9))
        )
        assert {span.level for span in later} == {VerificationLevel.PROVEN}
        assert min(span.level for span in earlier) == VerificationLevel.SEAMED


def test_interrupted_verification_can_be_resumed(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("oracle.indexer.audit.reverify.CHUNK", 10)

    def give_up(reached: int, _last: int) -> None:
        if reached == 19:
            raise TransientError("interrupted")

    with pytest.raises(TransientError):
        verify_blocks(follower, BlockRange(0, 49), RebuildOptions(progress=give_up))
    served = len(follower.chain.windows_served)
    verification = verify_blocks(follower, BlockRange(0, 49))

    assert verification.resumed_at == 20
    assert follower.chain.windows_served[served].first == 20
    assert verify_blocks(follower, BlockRange(0, 49)) == replace(verification, resumed_at=None)


def test_dry_run_verification_writes_nothing(follower: Follower):
    with follower.store.read_transaction() as uow:
        before = uow.coverage.list_intervals(follower.folder.scope.id)
    verification = verify_blocks(follower, BlockRange(0, 60), RebuildOptions(dry_run=True))
    with follower.store.read_transaction() as uow:
        assert uow.coverage.list_intervals(follower.folder.scope.id) == before
        assert uow.bookmarks.get("verify 0 60 4 ") is None
    assert (verification.reached_level, bool(verification.difference)) == (
        VerificationLevel.PROVEN,
        False,
    )


def test_blocks_never_indexed_cannot_be_verified(follower: Follower):
    with pytest.raises(InputError, match="only blocks 0 to 60 are indexed"):
        verify_blocks(follower, BlockRange(50, 61))


# --- dead letters ---


def test_rebuild_produces_the_same_dead_letters(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.folder.reader = ScriptedReader(unreadable=[TaskStarted])
    follower.catch_up()
    letters = list_open_dead_letters(store)
    assert letters

    assert rebuild_state(store, follower.folder, RebuildOptions()).is_same
    assert list_open_dead_letters(store) == letters


def test_decodable_dead_letters_are_applied_and_others_are_kept(
    store: Store, new_sqlite_store: NewStore
):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.folder.reader = ScriptedReader(unreadable=[TaskStarted, TaskCreated])
    follower.catch_up()
    half = folder()
    half.reader = ScriptedReader(unreadable=[TaskStarted])

    retried = retry_dead_letters(store, half, RebuildOptions())

    assert {letter.name for letter in retried.readable} == {"TaskCreated"}
    assert {letter.name for letter in retried.unreadable} == {"TaskStarted"}
    with new_sqlite_store() as other_store:
        from_the_start = Follower(mine_blocks(BLOCKS), other_store)
        from_the_start.folder.reader = half.reader
        from_the_start.catch_up()
        assert follower.dump() == from_the_start.dump()
        assert list_open_dead_letters(store) == list_open_dead_letters(other_store)


# --- counters ---


def test_counters_are_compared_at_the_newest_indexed_block(follower: Follower):
    chain = follower.chain
    heads = follower.chain.fetch_heads()
    assert compare_contract_counters(chain, follower.store, heads) is None
    chain.counts = {"members": 10_000}

    counts = compare_contract_counters(chain, follower.store, heads)

    assert counts is not None
    assert counts.block == 60
    assert counts.differing_counters == {"members": (counts.stored_counts["members"], 10_000)}
    difference = 10_000 - counts.stored_counts["members"]
    labels = {"counter": "members"}
    assert REGISTRY.get_sample_value("oracle_contract_count_difference", labels) == difference
    chain.counts = {"members": counts.stored_counts["members"], "unheard_of": 3}
    again = compare_contract_counters(chain, follower.store, heads)
    assert again is not None
    assert again.differing_counters == {}
    assert REGISTRY.get_sample_value("oracle_contract_count_difference", labels) == 0


def test_counters_are_not_compared_far_behind_the_head(follower: Follower):
    follower.chain.counts = {"members": 10_000}
    follower.chain.mine_many(100)
    assert (
        compare_contract_counters(follower.chain, follower.store, follower.chain.fetch_heads())
        is None
    )
