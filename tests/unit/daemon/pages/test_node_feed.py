"""The Atom feed of a node, parsed like a feed reader."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from fastapi.testclient import TestClient

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

ATOM = "{http://www.w3.org/2005/Atom}"
LABEL = "<b>rack & 3</b>"


@pytest.fixture
def client(new_sqlite_store):
    history = History().joins("A", "B", "C")
    history.creates("late").after(1).starts("late", "A").after(30).times_out("late")
    history.pauses("B").after(5)
    with new_sqlite_store() as store:
        source = replace(
            IndexedHistory(store).whole(history).source, labels={make_node_address("A"): LABEL}
        )
        yield TestClient(create_read_api(source, streams=ApiSection()))


def read_feed(client: TestClient, name: str) -> ET.Element:
    response = client.get(f"/nodes/{make_node_address(name)}/feed.atom")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/atom+xml; charset=utf-8"
    return ET.fromstring(response.text)  # noqa: S314 - our own response


def find_texts(element: ET.Element, path: str) -> list[str]:
    return [str(found.text) for found in element.iterfind(path)]


def test_atom_feed_lists_events_of_node_newest_first(client):
    titles = find_texts(read_feed(client, "A"), f"{ATOM}entry/{ATOM}title")
    assert [title.partition(",")[0] for title in titles] == ["Timed out", "Joined."]
    assert find_texts(read_feed(client, "B"), f"{ATOM}entry/{ATOM}title") == ["Paused.", "Joined."]


def test_atom_feed_has_required_elements(client):
    feed = read_feed(client, "A")
    for element in (feed, *feed.iterfind(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            (text,) = find_texts(element, f"{ATOM}{name}")
            assert text
    ids = find_texts(feed, f"{ATOM}entry/{ATOM}id")
    assert len(set(ids)) == len(ids)
    assert find_texts(read_feed(client, "A"), f"{ATOM}entry/{ATOM}id") == ids
    entry_times = find_texts(feed, f"{ATOM}entry/{ATOM}updated")
    assert find_texts(feed, f"{ATOM}updated") == [max(entry_times)]
    (alternate,) = feed.iterfind(f"{ATOM}link[@rel='alternate']")
    assert client.get(str(alternate.get("href"))).status_code == 200


def test_markup_in_label_is_escaped_in_atom_feed(client):
    (title,) = find_texts(read_feed(client, "A"), f"{ATOM}title")
    assert title.startswith(LABEL)


def test_node_page_links_to_its_atom_feed(client):
    page = client.get(f"/nodes/{make_node_address('A')}").text
    assert f'title="Events of this node" href="/nodes/{make_node_address("A")}/feed.atom"' in page


def test_atom_feed_of_unknown_address_returns_404(client):
    assert client.get(f"/nodes/{make_node_address('F')}/feed.atom").status_code == 404
