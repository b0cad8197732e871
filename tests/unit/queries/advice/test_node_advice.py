"""The advice for a node's owner, on the page and in the API, comes from the same rows."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from oracle.chain.profiles.profile import Token
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.unit.queries.advice.records import race


@pytest.fixture
def client(new_sqlite_store):
    """Return a client; A is near a kickout, B is not, C has no score."""
    history = History().joins("A", "B", "C").scores("B", 10, 5)
    history.scores("A", *[10] * 12, *[0] * 26).after(3_600)
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(history).client()


def test_kickout_forecast_is_shown_in_the_api_and_on_the_page(client: TestClient):
    advice = client.get(f"/v1/nodes/{make_node_address('A')}/advice").json()

    # After 15 more zeros, three of the twelve first places have left the pool.
    assert advice["kickout"]["scores"] == 15
    assert advice["kickout"]["recent_scores"] == 20
    assert (advice["kickout"]["first_places"], advice["kickout"]["second_places"]) == (1, 2)
    assert advice["kickout"]["seconds"] % 15 == 0
    page = client.get(f"/nodes/{make_node_address('A')}").text
    assert "<h1>At this rate a kickout is due in 15 scored tasks" in page
    assert "one first place or two second places in these tasks would avoid the kickout" in page
    assert "if they go like its last 20 scores" in page


@pytest.mark.parametrize("name", ["B", "C"])
def test_healthy_node_has_no_kickout_forecast(client: TestClient, name: str):
    assert client.get(f"/v1/nodes/{make_node_address(name)}/advice").json()["kickout"] is None
    assert "At this rate" not in client.get(f"/nodes/{make_node_address(name)}").text


def test_advice_shows_amounts_in_network_token(new_sqlite_store):
    history = History().joins("A", "B", "C", stake=400 * 10**18)
    for number in range(3):
        race(history, str(number), {"A": 20 + number, "B": 18, "C": None})
    with new_sqlite_store() as store:
        source = replace(IndexedHistory(store).whole(history).source, token=Token("CNX", 0))
        client = TestClient(create_read_api(source, streams=ApiSection()))
        advice = client.get(f"/v1/nodes/{make_node_address('A')}/advice").json()
        view = client.get(f"/v1/nodes/{make_node_address('A')}").json()
        page = client.get(f"/nodes/{make_node_address('A')}").text

    as_it_is, faster = advice["what_if"]["rows"]
    assert (as_it_is["qos"], as_it_is["rank"]) == (view["row"]["qos"], view["row"]["place"])
    assert (as_it_is["mean_score"][:4], faster["mean_score"][:4]) == ("5.00", "10.0")
    assert 0 < float(as_it_is["chance"]) < float(faster["chance"]) < 1
    assert advice["money"]["earned"] == str(3 * 113)
    assert "QoS 1.00 instead of 0.50" in page
    assert f'data-label="Lost">{3 * 113} CNX</td>' in page
    assert f"As of block {advice['as_of']['block']}." in page


def test_departed_node_has_no_what_if(new_sqlite_store):
    history = History().joins("A").scores("A", 10).quits("A")
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(history).client()
        advice = client.get(f"/v1/nodes/{make_node_address('A')}/advice").json()
        assert (advice["what_if"], advice["kickout"]) == (None, None)
        assert 'id="what-if"' not in client.get(f"/nodes/{make_node_address('A')}").text


def test_rank_after_change_counts_only_other_nodes(new_sqlite_store):
    history = History().joins("A", "B", "C")
    race(history, "1", {"A": None, "B": 9, "C": 20}).after(7_200)
    for number in range(3):
        race(history, f"n{number}", {"A": 30, "B": 9, "C": 20}).after(3_600)
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(history).client()
        advice = client.get(f"/v1/nodes/{make_node_address('A')}/advice").json()
    what_if = advice["what_if"]
    # Its reliability has recovered, so its QoS of the day is below its QoS now.
    assert float(what_if["reliability"]) < float(what_if["reliability_now"])
    assert what_if["rows"][0]["rank"] == 3
