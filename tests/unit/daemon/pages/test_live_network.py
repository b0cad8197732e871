"""The live network page: where its event stream continues, and the phases of a demo."""

import re

import pytest

from oracle.daemon.web.demo_phase import DemoPhase
from oracle.daemon.web.pages import network_page
from oracle.daemon.web.pages.network_page import merge_consecutive_reports
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.queries.api.records.event_feed import (
    EventCursor,
    FeedEvent,
    NumberedEvent,
    get_newest_event_cursor,
    load_events_since,
    load_newest_events,
)
from oracle.queries.api.source import ApiSnapshot, open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.unit.daemon.pages.test_every_page import a_network


def test_event_stream_continues_after_last_event_of_page(new_sqlite_store):
    history = a_network()
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(history)
        text = indexed.client().get("/").text
        count = len(history.events)
        (last_event,) = map(EventCursor.parse, re.findall('data-last-event="([^"]*)"', text))
        history.after(5).joins("E")
        indexed.index(history.events[count:], history.block, history.time)
        with open_snapshot(indexed.source) as snapshot:
            (joined,) = load_events_since(snapshot, last_event, 10)
        again = indexed.client().get("/").text
    assert (joined.event.kind, joined.event.node) == ("joined", make_node_address("E"))
    assert f'data-event="{joined.cursor_after}"' in again
    assert f'data-event="{joined.cursor_after}"' not in text


def test_no_action_needed_is_shown_only_if_healthy(store, monkeypatch):
    indexed = IndexedHistory(store).whole(History().joins("A"))
    shows_no_action_needed = []
    for condition in (None, Condition.NO_LEADER, Condition.BEHIND, Condition.HALTED):
        findings = () if condition is None else (HealthFinding(condition, "a detail"),)
        report = HealthReport(findings)
        monkeypatch.setattr(ApiSnapshot, "load_health_report", lambda _, report=report: report)
        shows_no_action_needed.append("No action needed" in indexed.client().get("/").text)

    assert shows_no_action_needed == [True, False, False, False]


def test_page_shows_newest_events_up_to_limit(store, monkeypatch):
    monkeypatch.setattr(network_page, "_MAX_EVENTS", 3)
    history = History()
    for name in "ABCDEFG":
        history.joins(name).after(5)
    with open_snapshot(IndexedHistory(store).whole(history).source) as snapshot:
        rows, _ = network_page.read_recent_events(snapshot)
    assert [row.event.node for row in rows] == [make_node_address(name) for name in "GFE"]


def test_older_events_are_not_read_if_new_events_fill_the_page(store, monkeypatch):
    history = History().joins("old").after(4_000)
    for number in range(30):
        history.joins(f"n{number}").after(20)
    history.after(600).scores("n1", 10)
    event_counts = []

    def load_and_record(snapshot, since, limit):
        events, newest = load_newest_events(snapshot, since, limit)
        event_counts.append(len(events))
        return events, newest

    monkeypatch.setattr(network_page, "load_newest_events", load_and_record)
    with open_snapshot(IndexedHistory(store).whole(history).source) as snapshot:
        rows, newest = network_page.read_recent_events(snapshot)
        rows_of_hour, newest_of_hour = read_events_of_hour(snapshot)
    assert event_counts == [10]
    assert (rows, newest) == (rows_of_hour, newest_of_hour)
    assert len(rows) == 9


def read_events_of_hour(snapshot):
    """Return the newest rows of an hour whose events are all read, and the cursor after them."""
    events, newest = load_newest_events(snapshot, snapshot.cursor.time - 3_600, 5_000)
    return merge_consecutive_reports(reversed(events))[:9], newest


@pytest.mark.parametrize("event_count", [0, 8, 9, 10])
def test_short_event_list_is_filled_up_with_older_events(store, event_count):
    history = History()
    for number in range(12):
        history.joins(f"old{number}").after(20)
    history.after(600)
    for number in range(event_count):
        history.joins(f"new{number}")
    with open_snapshot(IndexedHistory(store).whole(history).source) as snapshot:
        rows, newest = network_page.read_recent_events(snapshot)
        rows_of_hour, newest_of_hour = read_events_of_hour(snapshot)
        assert newest == get_newest_event_cursor(snapshot)
    assert (rows, newest) == (rows_of_hour, newest_of_hour)
    assert len(rows) == 9


def test_consecutive_reports_are_merged_into_one_row():
    kinds = ["report_accepted"] * 3 + ["timed_out", "report_accepted"]
    rows = merge_consecutive_reports(
        NumberedEvent(
            EventCursor(0, 0, n, 1),
            FeedEvent(kind=kind, time=n, block=n, node=None, text="so it is"),
        )
        for n, kind in enumerate(kinds)
    )
    assert [(row.event.kind, row.earlier) for row in rows] == [
        ("report_accepted", 2),
        ("timed_out", 0),
        ("report_accepted", 0),
    ]


def test_demo_act_is_hidden_outside_demo(new_sqlite_store):
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(a_network()).client()
        assert "Demo, phase" not in client.get("/").text


def test_new_demo_act_is_shown_without_new_block(new_sqlite_store):
    phases = [
        DemoPhase("1 of 2: nodes work", "they do"),
        DemoPhase("2 of 2: the end", "it is over"),
    ]
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(a_network()).client(get_phase=lambda: phases[0])
        before = client.get("/")
        phases.pop(0)
        after = client.get("/", headers={"if-none-match": before.headers["etag"]})
    assert "<b>Demo, phase 1 of 2: nodes work.</b> They do." in before.text
    assert "<b>Demo, phase 2 of 2: the end.</b> It is over." in after.text
