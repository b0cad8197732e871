"""Reporters with other databases, restarts and reorganisations cut the same reviewed leaves."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import DomainEvent, NodeResumed
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import KickoutReview, find_hold_reason
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from oracle.domain.roots.node_leaves import build_node_leaf
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.indexer import folded_state, kickout_reviews, snapshots
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.folder import EventFolder
from oracle.indexer.kickout_reviews import (
    build_folded_scoring_context,
    load_kickout_review,
    review_folded_kickout,
)
from oracle.indexer.loop import IngestState
from oracle.indexer.rebuild import RebuildOptions, rebuild_state, retry_dead_letters
from oracle.indexer.snapshots import make_next_snapshot
from oracle.reporting.recompute import build_report
from oracle.reporting.report_cutter import ReportCutter
from oracle.store.database import Store, UnitOfWork
from oracle.store.report_repository import ReportState
from tests.support.examples import examples
from tests.support.histories import History, make_group_key, make_node_address, make_task_key
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import ANCHOR_WINDOW, DOMAIN, RULES, SETTINGS, Follower
from tests.unit.systems.legacy.networks import rules_with

# A kickout is held if more than half of its scores come from one creator.
HELD = replace(RULES, pool_size=2, kick_creator_share=UNIT // 2)
SPREAD = replace(HELD, pool_size=3)
RESTARTED = replace(HELD, restarts=(1_250, 1_600), reseed_copies=1)
LEGACY = rules_with(kickout_tasks=2, kickout_below=9 * UNIT)
# Some events cannot be decoded, so that dead letters lie between the scores.
UNREADABLE = (NodeResumed,)


def recompute_report(
    store: Store, reader: EventReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> Report:
    """Return the report as of a block that any reporter with the same rules hash would compute.

    Only stored logs are read, no folded state, and nothing is written.
    """
    with store.read_transaction() as uow:
        folded = fold_state_up_to(uow, reader, rules, as_of.number)
        return build_report(uow, reader, folded, as_of, rules, settings)


def folder_of(
    rules: Rules,
    unreadable: tuple[type[DomainEvent], ...] = UNREADABLE,
    *,
    holds_kickouts: bool = False,
) -> EventFolder:
    reader = ScriptedReader(unreadable)
    reader.holds_kickouts = holds_kickouts
    cutter = ReportCutter(reader, rules, SETTINGS, DOMAIN, anchor_window=ANCHOR_WINDOW)
    return EventFolder(rules, reader, [cutter])


def restart(follower: Follower) -> None:
    """Continue as another process would, with nothing but the database."""
    follower.folder = folder_of(follower.folder.rules)
    follower.ingest = IngestState()


def kept_reports(store: Store) -> list[Report]:
    with store.read_transaction() as uow:
        return [
            stored.report
            for stored in uow.reports.list_newest(1000)
            if stored.state is not ReportState.MISSED
        ]


def leaf_as_of(follower: Follower, name: str, as_of: BlockRef) -> NodeLeaf:
    """Return a node's leaf as of a block, folded in memory."""
    rules, reader = follower.folder.rules, follower.folder.reader
    with follower.store.read_transaction() as uow:
        state = fold_state_up_to(uow, reader, rules, as_of.number)
        policy = KickoutPolicy(rules, reader.holds_kickouts)
        context = build_folded_scoring_context(uow, state, as_of.time, policy)
        return build_node_leaf(
            state.fold.ledger.nodes[make_node_address(name)], ZERO_ADDRESS, context, keccak
        )


def follow(store: Store, events: Iterable[DomainEvent], **options: Any) -> Follower:
    """Follow a chain with one event in each block, and some empty blocks at the end."""
    chain = ScriptedChain(seconds_per_block=60)
    for event in events:
        chain.mine(event)
    chain.mine_many(3)
    follower = Follower(chain, store, folder=folder_of(HELD, **options))
    follower.catch_up()
    return follower


def check_reports(follower: Follower) -> None:
    """Check that the reports cut from the database equal those folded in memory."""
    reports = kept_reports(follower.store)
    assert reports
    reader, rules = follower.folder.reader, follower.folder.rules
    for report in reports:
        assert recompute_report(follower.store, reader, rules, SETTINGS, report.as_of) == report


def two_low_scores(*creators: str | None) -> History:
    """Return a member with two scores that make its kickout due, on tasks of these creators."""
    history = History().joins("A", "B", "C")
    for number, creator in enumerate(creators):
        names = [f"{number}{runner}" for runner in "ABC"]
        if creator is not None:
            history.creates(*names, creator=make_node_address(creator))
        for name, runner in zip(names, "ABC", strict=True):
            history.starts(name, runner)
        history.submits(names[1]).submits(names[2]).closes(f"group {number}", *names)
    return history


@pytest.mark.slow
@examples(30)
@given(
    st.integers(0, 10**6),
    st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from([0, 0, 0, 2, 5]), st.booleans()),
        min_size=3,
        max_size=12,
    ),
    st.sampled_from([HELD, SPREAD, RESTARTED, LEGACY]),
)
def test_roots_of_followed_chain_equal_recomputed_roots(new_sqlite_store, seed, steps, rules):
    traffic = Traffic(seed, creators=4)
    chain = ScriptedChain()
    with new_sqlite_store() as store:
        follower = Follower(chain, store, folder=folder_of(rules))
        for block_count, fork_depth, is_restarted in steps:
            if fork_depth and len(chain.blocks) > fork_depth:
                chain.fork(fork_depth)
            for events in traffic.blocks(block_count):
                chain.mine(*events)
            follower.catch_up()
            if is_restarted:
                restart(follower)
        reader = follower.folder.reader
        reports = kept_reports(store)
        recomputed = [
            recompute_report(store, reader, rules, SETTINGS, report.as_of) for report in reports
        ]

    assert recomputed == reports


@pytest.mark.parametrize("rules", [SPREAD, LEGACY], ids=["pool", "window"])
def test_kickout_reviews_are_equal_from_database_snapshot_and_fold(
    new_sqlite_store, monkeypatch: pytest.MonkeyPatch, rules
):
    monkeypatch.setattr(snapshots, "SNAPSHOT_LOGS", 40)
    monkeypatch.setattr(snapshots, "_KEPT_INTERVALS", 0)
    chain = ScriptedChain()
    policy = KickoutPolicy(rules)
    reviews = Counter[str]()
    used = set[int | None]()
    for events in Traffic(7, creators=5).blocks(90):
        chain.mine(*events)
    with new_sqlite_store() as store:
        follower = Follower(chain, store, folder=folder_of(rules))
        follower.catch_up()
        reader = follower.folder.reader
        source = EventArchive(store, reader, rules)
        while make_next_snapshot(source, RebuildOptions()) is not None:
            pass
        with store.read_transaction() as uow:
            for number in range(30, 91, 5):
                from_snapshot = fold_state_up_to(uow, reader, rules, number)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(folded_state, "MAX_SNAPSHOTS_TRIED", 0)
                    from_start = fold_state_up_to(uow, reader, rules, number)
                used.add(from_snapshot.snapshot_block)
                for due_node in from_start.fold.ledger.nodes.values():
                    if due_node.kickout_due_since is None:
                        continue
                    review = review_folded_kickout(uow, from_start, due_node, policy)
                    assert review_folded_kickout(uow, from_snapshot, due_node, policy) == review
                    # The database is ahead, at block 90.
                    assert load_kickout_review(uow, due_node, policy) == review
                    reviews["free" if review.hold_reason is None else "held"] += 1
                    reviews["dead letter" if review.has_dead_letter else "complete"] += 1

    assert len(used) > 2
    assert set(reviews) == {"held", "free", "dead letter", "complete"}


def test_leaf_flags_a_kickout_caused_by_one_creator_as_held(new_sqlite_store):
    with new_sqlite_store() as store:
        follower = follow(store, two_low_scores("mallory", "mallory").events)
        held = leaf_as_of(follower, "A", follower.chain.newest)
        check_reports(follower)
    with new_sqlite_store() as store:
        follower = follow(store, two_low_scores("mallory", "alice").events)
        free = leaf_as_of(follower, "A", follower.chain.newest)
        check_reports(follower)

    assert held.kickout_due_since == free.kickout_due_since > 0
    assert (held.flags, free.flags) == (LeafFlag.MEMBER | LeafFlag.HELD, LeafFlag.MEMBER)


def test_creator_recorded_later_does_not_change_the_leaf(new_sqlite_store):
    history = two_low_scores(None, "mallory")
    due_count = len(history.events)
    history.creates("0A", creator=make_node_address("mallory")).joins("D").pauses("D")
    with new_sqlite_store() as store:
        follower = follow(store, history.events, unreadable=())
        before = leaf_as_of(follower, "A", follower.chain.blocks[due_count].ref)
        after = leaf_as_of(follower, "A", follower.chain.newest)
        with store.read_transaction() as uow:
            creators = [
                task.creator for task in uow.tasks.get_many([make_task_key("0A")]).values()
            ]
        check_reports(follower)

    assert creators == [make_node_address("mallory")]
    assert before.kickout_due_since > 0
    assert LeafFlag.HELD not in before.flags
    assert after == before


def test_reorg_that_replaces_the_creator_updates_the_leaf(new_sqlite_store):
    """Both forks open the interval at the same position, and no report is cut before it."""
    chain = ScriptedChain(finality_depth=50, seconds_per_block=1)
    chain.mine(after=20)
    with new_sqlite_store() as store:
        follower = Follower(chain, store, folder=folder_of(HELD))
        leaves = list[NodeLeaf]()
        follower.catch_up()
        for creator in ("mallory", "alice"):
            if leaves:
                chain.fork(len(chain.blocks) - 2)
            for event in two_low_scores("mallory", creator).events:
                chain.mine(event)
            chain.mine(after=60)
            follower.catch_up()
            leaves.append(leaf_as_of(follower, "A", chain.newest))
            check_reports(follower)

    assert leaves[0].kickout_due_since == leaves[1].kickout_due_since > 0
    assert [LeafFlag.HELD in leaf.flags for leaf in leaves] == [True, False]


def test_reorg_does_not_repeat_reviews_of_older_kickouts(
    new_sqlite_store, monkeypatch: pytest.MonkeyPatch
):
    reviewed = list[str]()

    def record_review(uow: UnitOfWork, due_node: Node, policy: KickoutPolicy) -> KickoutReview:
        reviewed.append(due_node.address)
        return load_kickout_review(uow, due_node, policy)

    monkeypatch.setattr(kickout_reviews, "load_kickout_review", record_review)
    with new_sqlite_store() as store:
        follower = follow(store, two_low_scores("mallory", "mallory").events)
        follower.chain.mine_many(20)
        follower.catch_up()
        # The final block is stored at the end of a window, so the next window knows it.
        follower.chain.mine()
        follower.catch_up()
        follower.chain.fork(3)
        follower.chain.mine_many(5)
        follower.catch_up()
        check_reports(follower)
        assert reviewed == [make_node_address("A")]

        rebuild_state(store, follower.folder, RebuildOptions())
        follower.chain.mine_many(2)
        follower.catch_up()
        assert len(reviewed) > 1
        check_reports(follower)


def test_dead_letter_in_evidence_suspends_kickout_until_decoded(new_sqlite_store):
    history = two_low_scores("mallory", "alice")
    history.events.insert(-2, History().resumes("B").events[0])
    with new_sqlite_store() as store:
        follower = follow(store, history.events)
        newest = follower.chain.newest
        undecoded = leaf_as_of(follower, "A", newest)
        check_reports(follower)

        follower.folder = folder_of(HELD, unreadable=())
        retried = retry_dead_letters(store, follower.folder, RebuildOptions())
        decoded = leaf_as_of(follower, "A", newest)
        with store.transaction() as uow:
            (cutter,) = follower.folder.hooks
            assert isinstance(cutter, ReportCutter)
            rebuilt = cutter.build_report(uow, uow.rounds.load_contract_state(), newest)
        recomputed = recompute_report(store, follower.folder.reader, HELD, SETTINGS, newest)

    assert (undecoded.kickout_due_since, undecoded.flags) == (0, LeafFlag.MEMBER)
    assert len(retried.readable) == 1
    assert decoded.kickout_due_since > 0
    assert rebuilt == recomputed


def test_dead_letter_after_interval_opened_keeps_kickout_due(new_sqlite_store):
    history = two_low_scores("mallory", "alice").resumes("B")
    with new_sqlite_store() as store:
        follower = follow(store, history.events)
        leaf = leaf_as_of(follower, "A", follower.chain.newest)
        with store.read_transaction() as uow:
            assert uow.dead_letters.count_open() == 1
        check_reports(follower)

    assert leaf.kickout_due_since > 0


def test_every_due_leaf_is_flagged_if_profile_holds_kickouts(new_sqlite_store):
    history = two_low_scores("mallory", "alice")
    with new_sqlite_store() as store:
        follower = follow(store, history.events, holds_kickouts=True)
        leaves = [leaf_as_of(follower, name, follower.chain.newest) for name in "AB"]
        check_reports(follower)

    assert [LeafFlag.HELD in leaf.flags for leaf in leaves] == [True, False]
    assert [leaf.kickout_due_since > 0 for leaf in leaves] == [True, False]


def test_kickout_caused_by_the_mean_kept_at_a_relay_restart_is_held():
    """After a restart the pool contains copies of the truncated mean,
    which is below the real one.
    """
    entries = [
        ScoreEntry(
            make_node_address("A"),
            1,
            make_task_key("1"),
            make_group_key("1"),
            3,
            9,
            7,
            Position(1, 0, 0),
            1_000,
        )
    ]
    kickout_rules = replace(RESTARTED, kick_creator_share=UNIT)

    assert "a restart replaced" in (
        find_hold_reason(entries, {}, KickoutPolicy(kickout_rules), incident_score_count=0) or ""
    )
    assert find_hold_reason(2 * entries, {}, KickoutPolicy(kickout_rules), 0) is not None
    low_entries = [entry._replace(score=0) for entry in 2 * entries]
    assert find_hold_reason(low_entries, {}, KickoutPolicy(kickout_rules), 0) is None
