"""The list of nodes: filtered by GPU and by a list of addresses, with each node's trend."""

import re

import pytest

from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address


@pytest.fixture
def client(new_sqlite_store):
    history = History().joins("A", "B", gpu_name="NVIDIA RTX 4090", gpu_vram=24)
    history.joins("C", gpu_name="NVIDIA H100", gpu_vram=80).after(5)
    for score in (10, 2, 5):
        history.scores("A", score).after(60)
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(history).client()


def find_listed_nodes(text: str) -> set[str]:
    return set(re.findall(r'href="/nodes/(0x[0-9a-f]{40})"', text))


def test_gpu_filter_matches_part_of_name_in_any_case(client):
    query = {"gpu": "rtx"}
    assert {make_node_address("A"), make_node_address("B")} <= find_listed_nodes(
        client.get("/nodes", params=query).text
    )
    assert make_node_address("C") not in find_listed_nodes(client.get("/nodes", params=query).text)
    rows = client.get("/v1/nodes", params={"gpu": "h100"}).json()["nodes"]
    assert [row["node"] for row in rows] == [make_node_address("C")]


def test_node_list_is_filtered_by_addresses_in_url(client):
    text = client.get(
        "/nodes", params={"of": f"{make_node_address('C')},{make_node_address('A')}"}
    ).text
    assert find_listed_nodes(text) == {make_node_address("A"), make_node_address("C")}
    assert "Only the two addresses in this link." in text
    # The filter is kept for every order and state of the list.
    links = re.findall(r'href="/nodes\?([^"]*)"', text.partition("Show all nodes")[2])
    assert links
    assert all("of=" in link for link in links)


@pytest.mark.parametrize("of", ["0xabc", "hello", ",".join([make_node_address("A")] * 201)])
def test_invalid_address_list_returns_422(client, of):
    assert client.get("/nodes", params={"of": of}).status_code == 422


def test_sparkline_is_shown_only_for_nodes_with_a_history(client):
    rows = re.split("<tr>", client.get("/nodes").text)
    mine = next(row for row in rows if make_node_address("A") in row)
    other_row = next(row for row in rows if make_node_address("C") in row)
    assert re.search(r'class="line-spark" d="M[\d. L]+"', mine)
    assert "line-spark" not in other_row
