"""Timeouts in an incident are marked wherever they are shown, and other timeouts are not."""

from dataclasses import replace

import pytest

from oracle.chain.profiles.profile import DEFAULT_TOKEN
from oracle.cli.inspect.explain_full import render_full_explanation
from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.queries.api.records.event_feed import EventCursor, load_events_since
from oracle.queries.api.source import open_snapshot
from oracle.queries.explain import Explanation, explain_score
from oracle.store.state.cursor_repository import Cursor
from tests.support.answers import build_explanation_json
from tests.support.api import IndexedHistory, make_block
from tests.support.histories import History, make_node_address
from tests.support.task_traffic import build_burst_history

# The node `n0` times out in the burst, and once more on its own after it.
NODE = make_node_address("n0")
BURST = make_node_address("burst")


def burst_and_own_timeout() -> History:
    history = build_burst_history()
    return history.creates("own").starts("own", "n0").after(300).times_out("own").after(10)


@pytest.fixture
def indexed(new_sqlite_store):
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(burst_and_own_timeout())


@pytest.fixture
def open_incident(new_sqlite_store):
    """Index the network up to the last timeout of the burst, while the incident is open."""
    events = build_burst_history().events[:-2]
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store)
        indexed.index(events, events[-1].at.block, events[-1].time)
        yield indexed


def get_cursor(indexed: IndexedHistory) -> Cursor:
    with indexed.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    return cursor


def explain(indexed: IndexedHistory, address: Address = NODE) -> Explanation:
    cursor = get_cursor(indexed)
    return explain_score(indexed.source.archive, address, make_block(cursor.number, cursor.time))


def test_explanation_links_only_the_timeout_in_the_burst_to_an_incident(indexed):
    answer = build_explanation_json(explain(indexed))
    changes = [change for change in answer["reliability"]["changes"] if "timed" in change["cause"]]
    assert [change["incident"] for change in changes] == [1, None]
    (incident,) = answer["incidents"]
    assert (incident["kind"], incident["creator"]) == ("application", BURST)
    assert incident["since"] <= changes[0]["time"] <= incident["until"] < changes[1]["time"]
    assert incident["over_time"] is not None


def test_full_explanation_shows_incident_below_its_timeout(indexed):
    lines = list(render_full_explanation(explain(indexed), DEFAULT_TOKEN))
    marks = [line for line in lines if "probably not its fault" in line]
    assert marks == [
        f"     probably not its fault: incident 1, burst of timeouts of the application {BURST}"
    ]


def test_node_without_timeout_has_no_incident_timeouts(indexed):
    cursor = get_cursor(indexed)
    history = History().joins("late-comer")
    event = replace(history.events[0], at=Position(cursor.number + 1, 0, 0), time=cursor.time)
    indexed.index([event], cursor.number + 1, cursor.time)
    answer = build_explanation_json(explain(indexed, make_node_address("late-comer")))
    assert answer["incidents"] == []


def test_history_markers_refer_to_the_open_incident(open_incident):
    client = open_incident.client()
    answer = client.get(f"/v1/nodes/{NODE}/history").json()
    assert [mark["incident"] for mark in answer["marks"] if mark["cause"] == "timed_out"] == [1]
    assert [incident["over_time"] for incident in answer["incidents"]] == [None]


def test_incidents_are_paginated_newest_first(indexed):
    client = indexed.client()
    page = client.get("/v1/incidents").json()
    assert [incident["number"] for incident in page["incidents"]] == [1]
    assert page["next"] is None
    assert page["incidents"][0]["nodes"] == 12
    assert client.get("/v1/incidents?before=1").json()["incidents"] == []


def test_node_page_shows_incident_and_hollow_marker(indexed):
    client = indexed.client()
    text = client.get(f"/nodes/{NODE}").text
    assert "One of its timeouts was probably not its fault" in text
    assert "all on tasks of one creator" in text
    assert 'class="mark-timeout by-incident"' in text
    assert 'class="mark-timeout"' in text
    assert "Timed out, probably not its fault, " in text
    assert '<a href="#incidents">incident 1</a>' in text


def test_page_of_an_unaffected_node_lists_no_incident_timeouts(new_sqlite_store):
    with new_sqlite_store() as store:
        text = (
            IndexedHistory(store)
            .whole(History().joins("A").scores("A", 0))
            .client()
            .get(f"/nodes/{make_node_address('A')}")
            .text
        )
    assert "not its fault" not in text
    assert 'id="incidents"' not in text
    assert "timeout in an incident" not in text


def test_event_stream_reports_begin_and_end_of_incident(indexed):
    with open_snapshot(indexed.source) as snapshot:
        events = [
            numbered.event
            for numbered in load_events_since(snapshot, EventCursor(0, 0, 0, 0), 500)
            if "incident" in numbered.event.kind
        ]
        (incident,) = snapshot.uow.incidents.list_newest(9)
    assert [(event.kind, event.time) for event in events] == [
        ("incident_began", incident.found_time),
        ("incident_over", incident.over_time),
    ]
    assert events[0].text == f"incident 1 began: burst of timeouts of the application {BURST}"
