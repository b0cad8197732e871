"""Amounts are shown in the network's token, and addresses with the labels of the operator."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, strategies as st

from oracle.chain.profiles.profile import Token
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.pages.page_frame import get_template_environment
from oracle.queries.answers import LogPlace
from oracle.queries.text.human_numbers import format_amount
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

UNIT = 10**18
EXPLORER = "https://explorer.example"


@pytest.fixture
def client(new_sqlite_store):
    history = History().joins("A", stake=400 * UNIT).joins("B", "C").scores("A", 10)
    history.is_kicked_out("B").after(5)
    with new_sqlite_store() as store:
        source = replace(
            IndexedHistory(store).whole(history).source,
            token=Token("CNX", 18),
            labels={make_node_address("A"): "rack 3", make_node_address("B"): "rack 4"},
        )
        yield TestClient(create_read_api(source, streams=ApiSection()))


def test_stake_is_shown_in_units_of_network_token(client):
    page = client.get(f"/nodes/{make_node_address('A')}").text
    assert "<dt>Stake</dt><dd>400 CNX." in page
    assert str(400 * UNIT) not in page


def test_score_equation_is_hidden_for_unscored_node(client):
    page = client.get(f"/nodes/{make_node_address('B')}").text
    equation = page.partition('class="card equation"')[2].partition("</section>")[0]
    assert "not a member: kicked out" in equation
    assert ">=<" not in equation
    assert "\N{MULTIPLICATION SIGN}" not in equation


def test_label_is_shown_on_pages_and_in_api(client):
    assert f'title="{make_node_address("A")}">rack 3</a>' in client.get("/nodes").text
    assert "<b>rack 3</b>" in client.get(f"/nodes/{make_node_address('A')}").text
    rows = {row["node"]: row["label"] for row in client.get("/v1/nodes").json()["nodes"]}
    assert rows == {
        make_node_address("A"): "rack 3",
        make_node_address("B"): "rack 4",
        make_node_address("C"): None,
    }


@pytest.mark.parametrize(
    ("query", "status", "location"),
    [
        ("rack 3", 303, f"/nodes/{make_node_address('A')}"),
        ("RACK 4", 303, f"/nodes/{make_node_address('B')}"),
        ("rack", 300, None),
        ("shelf", 422, None),
    ],
)
def test_search_by_label_redirects_to_node(client, query, status, location):
    answer = client.get("/search", params={"q": query}, follow_redirects=False)
    assert (answer.status_code, answer.headers.get("location")) == (status, location)


@given(st.integers(0, 10**40), st.integers(0, 30))
def test_amount_is_rounded_down_to_six_decimals(units: int, decimals: int):
    text = format_amount(units, "CNX", decimals)
    assert text.endswith(" CNX")
    figure = text.removesuffix(" CNX").replace(",", "")
    if figure.startswith("<"):
        assert 0 < units * 10**6 < 10**decimals
        return
    integer_part, _, part = figure.partition(".")
    displayed = int(integer_part + f"{part:0<6}") * 10**decimals
    assert 0 <= units * 10**6 - displayed < 10**decimals


def test_address_links_to_configured_explorer(new_sqlite_store):
    with new_sqlite_store() as store:
        source = IndexedHistory(store).whole(History().joins("A").after(5)).source
        linked_source = replace(source, explorer=EXPLORER)
        page, linked_page = (
            TestClient(create_read_api(served, streams=ApiSection()))
            .get(f"/nodes/{make_node_address('A')}")
            .text
            for served in (source, linked_source)
        )
    assert f'href="{EXPLORER}/address/{make_node_address("A")}"' in linked_page
    assert EXPLORER not in page


@pytest.mark.parametrize("contact", [None, "mailto:qos@example.org"])
def test_node_page_shows_configured_contact(new_sqlite_store, contact):
    with new_sqlite_store() as store:
        source = replace(IndexedHistory(store).whole(History().joins("A")).source, contact=contact)
        client = TestClient(create_read_api(source, streams=ApiSection()))
        page = client.get(f"/nodes/{make_node_address('A')}").text
    assert ('<a href="mailto:qos@example.org">qos@example.org</a>' in page) is (
        contact is not None
    )


@pytest.mark.parametrize("explorer", [None, EXPLORER])
def test_transaction_links_to_configured_explorer(explorer):
    place = LogPlace(block=7, tx=1, log=2, feed_row=None, transaction=f"0x{'ab' * 32}")
    template = '{% from "drawings.html" import where with context %}{{ where(place) }}'
    text = get_template_environment().from_string(template).render(place=place, explorer=explorer)
    assert (f'href="{EXPLORER}/tx/{place.transaction}"' in text) is (explorer is not None)
    assert f">{place.transaction}<" in text
