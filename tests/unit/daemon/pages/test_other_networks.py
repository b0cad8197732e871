"""Pages and /v1 of other networks: under legacy rules, and with a relay feed."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import FeedRow, is_feed_position
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address, make_task_key
from tests.unit.systems.legacy.networks import RULES, ran


def of_2024() -> History:
    """Return tasks on three nodes each: two are decided by speed, one has a silent node."""
    history = History().joins("A", "B", "C", gpu_name="RTX", gpu_vram=24)
    for name in ("A", "B", "C"):
        history.updates(name, timeout=120)
    for turn in ("1", "2"):
        history.creates(turn).after(2)
        ran(history, turn, "ABC", "BAC").after(60)
    history.creates("3").after(2)
    return ran(history, "3", "AB", "AB", silent="C").after(60)


def of_a_feed() -> History:
    """Return a group from a relay's feed, whose rows have positions that no chain has."""
    history = History().joins("A", "B", "C")
    names = ("0A", "0B", "0C")
    history.creates(*names, of="g").after(2)
    for name in names:
        history.starts(name, name[1])
    for name in names:
        history.after(5).submits(name)
    history.validates(names[0])
    history.closes("g", *names).after(60)
    history.creates("late").after(1).starts("late", "C").after(30).times_out("late")
    history.events = [
        replace(event, at=FeedRow(row, "", "", "", "", block=event.at.block).position)
        for row, event in enumerate(history.events)
    ]
    return history.after(10)


def client_of(store: Store, history: History, rules=None):
    indexed = IndexedHistory(store) if rules is None else IndexedHistory(store, rules)
    return indexed.whole(history).client()


PATHS = ("/", "/nodes", "/rounds", "/signers", "/kickouts", "/draws", "/health", "/rules")


@pytest.fixture(scope="module", params=["2024", "feed"])
def client(request, new_sqlite_database):
    """Return a client that only reads, shared by the tests of this module."""
    with Store.open(new_sqlite_database()) as store:
        if request.param == "2024":
            yield client_of(store, of_2024(), RULES)
        else:
            yield client_of(store, of_a_feed())


def test_every_page_of_another_network_returns_200(client):
    for path in PATHS:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_every_node_page_of_another_network_returns_200(client, name):
    address = make_node_address(name)
    for path in (f"/nodes/{address}", f"/v1/nodes/{address}", f"/v1/nodes/{address}/explain"):
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
    history = client.get(f"/v1/nodes/{address}/history")
    assert history.status_code == 200, history.text


def test_page_of_node_under_legacy_rules_shows_its_factors(new_sqlite_store):
    with new_sqlite_store() as store:
        client = client_of(store, of_2024(), RULES)
        page = client.get(f"/nodes/{make_node_address('A')}").text
        body = client.get(f"/v1/nodes/{make_node_address('A')}").json()
    assert "<h1>R 1.00, P 0.00, B 1.00: its timeout costs it most.</h1>" in page
    assert "Reliability" not in page.partition("What changed")[0]
    assert "No answer" not in page
    assert body["row"]["legacy"]["tasks"] == body["kickout"]["scores"] == 3


def test_task_page_of_another_network_returns_200_or_404(client):
    status_codes = [
        client.get(f"/tasks/{make_task_key(name)}").status_code for name in ("1", "0A")
    ]
    assert sorted(status_codes) == [200, 404]


def test_events_from_a_feed_are_marked_as_unproven(new_sqlite_store):
    assert is_feed_position(of_a_feed().events[0].at)
    assert not is_feed_position(Position(1, 0, 0))
    with new_sqlite_store() as store:
        client = client_of(store, of_a_feed())
        page = client.get(f"/tasks/{make_task_key('0A')}").text
        body = client.get(f"/v1/nodes/{make_node_address('C')}/history").json()
    assert "of the feed, which has no proof" in page
    assert body["marks"]
