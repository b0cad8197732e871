"""A second fold beside the state equals the real one, and the one of other rules equals `replay`.

See docs/how-to/change-the-rules.md#preview-other-rules.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.scoring.rules import Rules
from oracle.indexer import shadow_fold
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.shadow_fold import ShadowFold, ShadowStage, advance_shadow_fold
from oracle.indexer.stored_events import export_events
from oracle.queries.api.rules_preview import RulesPreview, compute_rules_preview
from oracle.queries.replay import replay_events
from oracle.store.bulk import Row
from oracle.store.database import UnitOfWork
from oracle.store.state.node_repository import encode_node_row
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer

OTHER = replace(CRYNUX, tau_seconds=900, penalty=UNIT // 4, pool_size=5)
TERMINAL = replace(CRYNUX, name="terminal", close="terminal")


@pytest.fixture
def settled_indexer(synced_indexer: Indexer, fake_chain: FakeChain) -> Indexer:
    """Return an indexer whose newest block is final up to its last event."""
    fake_chain.mine_empty(2 * FINALITY)
    synced_indexer.index()
    return synced_indexer


def get_final_block_number(synced_indexer: Indexer) -> int:
    with synced_indexer.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.final_number is not None
    return cursor.final_number


def fold_all(synced_indexer: Indexer, rules: Rules) -> ShadowFold:
    reader = synced_indexer.folder.reader
    last_block = get_final_block_number(synced_indexer)
    return advance_shadow_fold(synced_indexer.store, reader, ShadowFold.start(rules), last_block)


def list_folded_node_rows(shadow: ShadowFold) -> list[Row]:
    return sorted(map(encode_node_row, shadow.fold.ledger.nodes.values()))


def list_stored_node_rows(uow: UnitOfWork) -> list[Row]:
    return sorted(map(encode_node_row, uow.nodes.iterate_all()))


def compute_preview(synced_indexer: Indexer, rules: Rules, time: int) -> RulesPreview:
    now, then = (fold_all(synced_indexer, fold_rules).fold for fold_rules in (CRYNUX, rules))
    return compute_rules_preview(now, then, get_final_block_number(synced_indexer), time)


def test_shadow_fold_with_the_same_rules_equals_the_stored_state(settled_indexer: Indexer):
    shadow = fold_all(settled_indexer, CRYNUX)

    with settled_indexer.store.read_transaction() as uow:
        assert list_folded_node_rows(shadow) == list_stored_node_rows(uow)
        assert shadow.fold.last == uow.last_event.get()
    assert len(list_folded_node_rows(shadow)) > 2


@pytest.mark.parametrize("rules", [OTHER, TERMINAL, RELAY], ids=["other", "terminal", "relay"])
def test_shadow_fold_with_other_rules_equals_a_replay(settled_indexer: Indexer, rules: Rules):
    last_block = get_final_block_number(settled_indexer)
    with settled_indexer.store.read_transaction() as uow:
        lines = list(export_events(uow, settled_indexer.folder.reader, BlockRange(0, last_block)))
    replayed = json.loads(replay_events(lines, rules, None, None))
    expected = {
        row["node"]: (row["qos"], row["excluded"], row["kickout_due"]) for row in replayed["nodes"]
    }

    preview = compute_preview(settled_indexer, rules, int(replayed["as_of"]["time"]))

    figures = {
        entry.node: (
            None if entry.qos_then is None else format_decimal(entry.qos_then),
            entry.excluded_then,
            entry.kickout_due_then,
        )
        for entry in preview.nodes
    }
    assert figures == expected


@pytest.mark.parametrize("rules", [CRYNUX, OTHER, TERMINAL], ids=["same", "other", "terminal"])
@pytest.mark.parametrize("kept_logs", [1, 7, 10_000])
def test_resumed_shadow_fold_equals_an_uninterrupted_one(
    synced_indexer: Indexer,
    fake_chain: FakeChain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rules: Rules,
    kept_logs: int,
):
    monkeypatch.setattr(shadow_fold, "LOGS_PER_STEP", 5)
    monkeypatch.setattr(shadow_fold, "KEPT_LOGS", kept_logs)
    stage = ShadowStage(tmp_path / "previews", synced_indexer.folder.reader)
    continued = 0
    for _ in range(4):
        last_block = get_final_block_number(synced_indexer)
        with synced_indexer.store.read_transaction() as uow:
            shadow = stage.load(uow, rules, last_block)
            continued += shadow.block >= 0
        shadow = advance_shadow_fold(synced_indexer.store, stage.reader, shadow, last_block)
        stage.save(shadow, 0)
        with synced_indexer.store.read_transaction() as uow:
            unbroken = fold_state_up_to(uow, stage.reader, rules, last_block).fold
        assert list_folded_node_rows(shadow) == sorted(
            map(encode_node_row, unbroken.ledger.nodes.values())
        )
        assert shadow.fold.last == unbroken.last
        # Blocks above the final one change; the folded state stays.
        fake_chain.live(15, on=fake_chain.back(3))
        synced_indexer.index()
    assert continued == 3


def test_event_of_a_dropped_task_restarts_the_shadow_fold(
    settled_indexer: Indexer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shadow_fold, "LOGS_PER_STEP", 1)
    monkeypatch.setattr(shadow_fold, "KEPT_LOGS", 1)
    monkeypatch.setattr(
        ShadowFold, "drop_ended_tasks", lambda shadow, _: shadow.fold.ledger.tasks.clear()
        if not shadow.keeps_all
        else None,
    )  # fmt: skip

    shadow = fold_all(settled_indexer, CRYNUX)

    assert shadow.keeps_all
    with settled_indexer.store.read_transaction() as uow:
        assert list_folded_node_rows(shadow) == list_stored_node_rows(uow)


def test_outdated_or_damaged_shadow_file_is_ignored(settled_indexer: Indexer, tmp_path: Path):
    stage = ShadowStage(tmp_path, settled_indexer.folder.reader)
    last_block = get_final_block_number(settled_indexer)
    stage.save(fold_all(settled_indexer, CRYNUX), 0)
    (path,) = tmp_path.glob("*.state")

    def loaded_block(rules: Rules = CRYNUX, last: int = last_block) -> int:
        with settled_indexer.store.read_transaction() as uow:
            return stage.load(uow, rules, last).block

    assert loaded_block() == last_block
    assert loaded_block(last=last_block - 1) == -1
    assert loaded_block(OTHER) == -1
    rebuild_state(settled_indexer.store, settled_indexer.folder, RebuildOptions())
    assert loaded_block() == -1
    stage.save(fold_all(settled_indexer, CRYNUX), 1)
    assert loaded_block() == last_block
    path.write_bytes(path.read_bytes()[:-1])
    assert loaded_block() == -1


def test_shadow_files_of_other_rules_are_deleted(settled_indexer: Indexer, tmp_path: Path):
    stage = ShadowStage(tmp_path, settled_indexer.folder.reader)
    for rules in (CRYNUX, OTHER):
        stage.save(fold_all(settled_indexer, rules), 0)

    stage.delete_other_shadow_files([OTHER])

    assert len(list(tmp_path.glob("*.state"))) == 1


def test_preview_does_not_write_to_database(settled_indexer: Indexer):
    digest = settled_indexer.digest()
    fold_all(settled_indexer, OTHER)
    assert settled_indexer.digest() == digest
