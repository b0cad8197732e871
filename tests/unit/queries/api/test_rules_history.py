"""Announced and past changes of the rules, in the read API and on the rules page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    OperationCancelled,
    OperationSalted,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
    SettingEvent,
)
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.report import ReportSettings, format_rules_id
from oracle.queries.api.records.event_feed import EventCursor, load_events_since
from oracle.queries.api.source import open_snapshot
from oracle.queries.rules_texts import hash_reason, hash_rules_text
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import GENESIS_TIME, History

SETTINGS = ReportSettings(60, 3600, 100, 600, 2000, requires_proof=True)
OLD = format_rules_id(CRYNUX, "reference 1", SETTINGS)
NEW = format_rules_id(replace(CRYNUX, tau_seconds=900), "reference 1", SETTINGS)
REASON = "Half the memory.\nhttps://example.org/42"
OPERATION = Hash("0x" + "12" * 32)
READY_AT = 5_000_000_000


def at(block: int, log: int = 0) -> Position:
    return Position(block, 0, log)


DEPLOYED = RulesSet(at(1), 10, hash_rules_text(OLD))
SCHEDULED = RulesScheduled(at(2), 20, OPERATION, hash_rules_text(NEW), READY_AT)
SALTED = OperationSalted(at(2, 1), 20, OPERATION, hash_reason(REASON))


@pytest.fixture
def indexed(new_sqlite_store, tmp_path: Path):
    with new_sqlite_store() as store:
        history = IndexedHistory(store).whole(History().joins("n1").after(10))
        history.source = replace(history.source, rules_id=OLD, announced_folder=tmp_path)
        yield history


def store_events(indexed: IndexedHistory, *events: SettingEvent) -> None:
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(settings=[*events]))


def publish(folder: Path) -> None:
    (folder / f"{hash_rules_text(NEW)}.json").write_bytes(NEW.encode())
    (folder / f"{hash_reason(REASON)}.txt").write_bytes(REASON.encode())


def test_announcement_shows_time_reason_and_changed_rules(indexed, tmp_path):
    store_events(indexed, DEPLOYED, SCHEDULED, SALTED)
    publish(tmp_path)

    answer = indexed.client().get("/v1/rules/history").json()

    announced, deployed = answer["changes"]
    assert answer["in_force"] == deployed["rules_hash"] == hash_rules_text(OLD)
    assert (announced["state"], announced["ready_at"]) == ("scheduled", READY_AT)
    assert announced["reason"] == "Half the memory. https://example.org/42"
    assert announced["differences"] == [{"name": "tau_seconds", "before": "1800", "after": "900"}]
    assert (deployed["state"], deployed["is_in_force"]) == ("set", True)


def test_cancelled_announcement_is_not_shown_as_upcoming(indexed, tmp_path):
    publish(tmp_path)
    store_events(indexed, DEPLOYED, SCHEDULED, OperationCancelled(at(3), 30, OPERATION))
    client = indexed.client()

    assert client.get("/v1/rules/history").json()["changes"][0]["state"] == "cancelled"
    page = client.get("/rules").text
    assert "Cancelled" in page
    assert "Not before" not in page


def test_executed_change_is_in_force_and_lists_its_differences(indexed, tmp_path):
    new_hash = hash_rules_text(NEW)
    made = (RulesSet(at(4), 40, new_hash), RulesExecuted(at(4, 1), 40, OPERATION, new_hash))
    publish(tmp_path)
    store_events(indexed, DEPLOYED, SCHEDULED, *made)

    answer = indexed.client().get("/v1/rules/history").json()

    newest, deployed = answer["changes"]
    assert answer["in_force"] == new_hash
    assert (newest["is_in_force"], newest["set_block"]) == (True, 4)
    assert [difference["name"] for difference in newest["differences"]] == ["tau_seconds"]
    assert (deployed["is_in_force"], deployed["differences"]) == (False, None)


def test_unpublished_rules_are_shown_as_unpublished(indexed):
    store_events(indexed, DEPLOYED, SCHEDULED, SALTED)
    client = indexed.client()

    announced = client.get("/v1/rules/history").json()["changes"][0]

    assert (announced["has_rules"], announced["differences"], announced["reason"]) == (
        False,
        None,
        None,
    )
    assert announced["reason_hash"] == hash_reason(REASON)
    assert "not published on this host" in client.get("/rules").text
    assert client.get(f"/v1/rules/{hash_rules_text(NEW)}").status_code == 404


def test_published_rules_are_returned_byte_for_byte(indexed, tmp_path):
    publish(tmp_path)
    answer = indexed.client().get(f"/v1/rules/{hash_rules_text(NEW)}").json()
    assert answer["rules_id"] == NEW
    assert json.loads(answer["rules_id"])["rules"]["tau_seconds"] == 900


def test_rules_file_with_mismatching_hash_is_not_published(indexed, tmp_path):
    store_events(indexed, DEPLOYED, SCHEDULED, SALTED)
    (tmp_path / f"{hash_rules_text(NEW)}.json").write_bytes(NEW.encode() + b"\n")
    (tmp_path / f"{hash_reason(REASON)}.txt").write_bytes(REASON.encode() + b"!")

    announced = indexed.client().get("/v1/rules/history").json()["changes"][0]

    assert (announced["has_rules"], announced["reason"]) == (False, None)


def test_bidi_control_characters_in_reason_are_escaped(indexed, tmp_path):
    reason = "fine \u202eenif"
    salted = replace(SALTED, salt=hash_reason(reason))
    store_events(indexed, DEPLOYED, SCHEDULED, salted)
    (tmp_path / f"{hash_reason(reason)}.txt").write_bytes(reason.encode())

    assert "\u202e" not in indexed.client().get("/rules").text


def test_event_stream_reports_announcements_and_cancellations(indexed):
    time = GENESIS_TIME + 1
    scheduled = replace(SCHEDULED, time=time)
    cancelled = OperationCancelled(at(3), time, OPERATION)
    store_events(indexed, DEPLOYED, scheduled, cancelled)
    with open_snapshot(indexed.source) as snapshot:
        numbered = load_events_since(snapshot, EventCursor(0, 0, 0, 0), 100)

    announcements = [
        (entry.event.kind, entry.event.text)
        for entry in numbered
        if entry.event.kind in {"rules_announced", "rules_cancelled"}
    ]
    rules = hash_rules_text(NEW)
    assert announcements == [
        ("rules_announced", f"rules {rules} were announced"),
        ("rules_cancelled", f"rules {rules} were announced, but will not come: cancelled"),
    ]
