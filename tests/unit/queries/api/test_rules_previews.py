"""Nodes under announced rules and shadow sets, as the read API and the pages show them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from oracle.daemon.rules_previews import build_rule_loss_notices
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    OperationCancelled,
    RulesScheduled,
    SettingEvent,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.report import ReportSettings, format_rules_id
from oracle.domain.scoring.rules import Rules
from oracle.queries.api.rules_preview import (
    PREVIEW_FOLDER,
    OtherRules,
    build_preview_path,
    compute_rules_preview,
    encode_preview,
)
from oracle.queries.api.rules_preview_view import build_preview_view
from oracle.queries.rules_texts import hash_rules_text
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.support.scripted_reader import Unread

# A timeout costs nearly all of H, so an excluded node does not recover within the history.
HARSH = replace(CRYNUX, penalty=UNIT // 100)
PROFILE = Unread.identity
TEXT = format_rules_id(HARSH, PROFILE, ReportSettings())
RULES_HASH = hash_rules_text(TEXT)
OPERATION = Hash("0x" + "12" * 32)
READY_AT = 5_000_000_000
SCHEDULED = RulesScheduled(Position(2, 0, 0), 20, OPERATION, RULES_HASH, READY_AT)
CANCELLED = OperationCancelled(Position(3, 0, 0), 30, OPERATION)


def history() -> History:
    events = History().joins("late", "good").creates("1").starts("1", "late").after(300)
    return events.times_out("1").after(10)


def fold(rules: Rules) -> Fold:
    folded = Fold(rules)
    folded.fold_events(history().events)
    return folded


@pytest.fixture
def indexed(new_sqlite_store, tmp_path: Path):
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(history())
        indexed.source = replace(indexed.source, announced_folder=tmp_path)
        yield indexed


@pytest.fixture
def preview(tmp_path: Path):
    """Return the preview of the harsh rules and their text, as files."""
    (tmp_path / f"{RULES_HASH}.json").write_bytes(TEXT.encode())
    folder = tmp_path / PREVIEW_FOLDER
    folder.mkdir()
    computed = compute_rules_preview(fold(CRYNUX), fold(HARSH), history().block, history().time)
    build_preview_path(folder, HARSH).write_bytes(encode_preview(computed))
    return computed


def store_events(indexed: IndexedHistory, *events: SettingEvent) -> None:
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(settings=[*events]))


def test_node_is_shown_under_announced_rules(indexed, preview):
    store_events(indexed, SCHEDULED)
    client = indexed.client()

    (listed,) = client.get(f"/v1/nodes/{make_node_address('late')}/rules").json()["previews"]

    assert (listed["rules"], listed["ready_at"]) == (RULES_HASH, READY_AT)
    figures = listed["figures"]
    assert (figures["excluded_now"], figures["excluded_then"]) == (False, True)
    assert float(figures["qos_then"]) < float(figures["qos_now"])
    assert float(figures["chance_now"]) > float(figures["chance_then"]) == 0
    assert "It would be excluded." in client.get(f"/nodes/{make_node_address('late')}").text


def test_preview_without_rank_changes_counts_no_rising_or_falling_node(indexed, preview):
    store_events(indexed, SCHEDULED)
    client = indexed.client()

    (listed,) = client.get("/v1/rules/previews").json()["previews"]

    assert (listed["members"], listed["rising"], listed["falling"]) == (2, 0, 0)
    assert "Of 2 members, 0 would rise and 0 would fall." in client.get("/rules").text


def test_preview_probabilities_sum_to_one_under_both_rule_sets(preview):
    chance_pairs = [(entry.chance_now, entry.chance_then) for entry in preview.nodes]
    for chances in zip(*chance_pairs, strict=True):
        assert UNIT - len(chances) <= sum(chances) <= UNIT


def test_preview_rank_correlation_ranges_from_1_to_minus_1(preview):
    same = compute_rules_preview(fold(CRYNUX), fold(CRYNUX), history().block, history().time)
    first, second = same.nodes
    reversed_nodes = (
        msgspec.structs.replace(first, qos_then=second.qos_now),
        msgspec.structs.replace(second, qos_then=first.qos_now),
    )
    other = OtherRules("any", CRYNUX)

    assert build_preview_view(other, same).rank_correlation == UNIT
    turned = msgspec.structs.replace(same, nodes=reversed_nodes)
    assert build_preview_view(other, turned).rank_correlation == -UNIT


def test_members_that_swap_ranks_are_counted_as_rising_and_falling(preview):
    same = compute_rules_preview(fold(CRYNUX), fold(CRYNUX), history().block, history().time)
    first, second = same.nodes
    swapped_nodes = (
        msgspec.structs.replace(first, rank_then=second.rank_now),
        msgspec.structs.replace(second, rank_then=first.rank_now),
    )
    view = build_preview_view(
        OtherRules("any", CRYNUX), msgspec.structs.replace(same, nodes=swapped_nodes)
    )

    better, worse = sorted(same.nodes, key=lambda entry: entry.rank_now or 0)
    assert (view.members, view.rising, view.falling) == (2, 1, 1)
    assert [entry.node for entry in view.winners] == [worse.node]
    assert [entry.node for entry in view.losers] == [better.node]


def test_preview_of_cancelled_announcement_is_not_shown(indexed, preview):
    store_events(indexed, SCHEDULED, CANCELLED)
    client = indexed.client()

    assert client.get("/v1/rules/previews").json()["previews"] == []
    assert "Under other rules" not in client.get(f"/nodes/{make_node_address('late')}").text


def test_preview_based_on_outdated_rules_is_not_shown(indexed, preview, tmp_path):
    store_events(indexed, SCHEDULED)
    old_base = fold(replace(CRYNUX, tau_seconds=900))
    stale = compute_rules_preview(old_base, fold(HARSH), history().block, history().time)
    path = build_preview_path(tmp_path / PREVIEW_FOLDER, HARSH)
    path.write_bytes(encode_preview(stale))

    assert indexed.client().get("/v1/rules/previews").json()["previews"] == []


def test_shadow_rule_set_is_not_shown_as_announced(indexed, preview):
    indexed.source = replace(indexed.source, shadow_rules={"harsh": HARSH})
    client = indexed.client()

    (listed,) = client.get("/v1/rules/previews").json()["previews"]

    assert (listed["rules"], listed["ready_at"]) == ("harsh", None)
    page = client.get(f"/nodes/{make_node_address('late')}").text
    assert "Under the shadow set harsh, which is not announced," in page


def test_announced_rules_of_another_profile_have_no_preview(indexed, preview, monkeypatch):
    store_events(indexed, SCHEDULED)
    monkeypatch.setattr(Unread, "identity", "another")
    assert indexed.client().get("/v1/rules/previews").json()["previews"] == []


def test_node_that_loses_under_announced_rules_gets_one_notice(indexed, preview):
    other = OtherRules(RULES_HASH, HARSH, READY_AT)
    with indexed.store.transaction() as uow:
        first = build_rule_loss_notices(uow, other, preview)
        uow.notices.append(first)
        second = build_rule_loss_notices(uow, other, preview)

    assert [(notice.kind, notice.node) for notice in first] == [
        ("rules_hit_you", make_node_address("late"))
    ]
    assert first[0].body["excluded"] is True
    assert second == []
