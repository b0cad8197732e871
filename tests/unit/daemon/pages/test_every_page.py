"""Each page without scripts: complete, escaped, and with links only to existing pages."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
from typing_extensions import override

import lab.page
from oracle.daemon.web.pages.chain_pages import PAGES
from oracle.daemon.web.pages.page_frame import FOLDER, HEADERS
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundsStruck
from oracle.domain.reports.contract_state import ContractChanges
from oracle.store.database import Store
from tests.support.api import IndexedHistory, make_block
from tests.support.draws import create_draw
from tests.support.histories import History, make_node_address, make_task_key
from tests.support.indexed_rounds import accuse_node, index_with_rounds

# Hostile GPU names: an element, an attribute, and a right-to-left override.
NASTY = "<img src=x onerror=alert(1)>\"\u202e'&"
WITHOUT_PARTS = sorted(path for path in PAGES if "{" not in path and path != "/search")


def a_network() -> History:
    """Return a history: three nodes in two groups, a timeout, a pause,
    one node without a score.
    """
    history = History().joins("A", "B", "C", "D", gpu_name=NASTY, gpu_vram=24, models=(NASTY,))
    for turn in range(3):
        names = [f"{turn}{name}" for name in "ABC"]
        history.creates(*names, of=f"g{turn}").after(2)
        for name in names:
            history.starts(name, name[1])
        for name in names:
            history.after(5).submits(name)
        history.validates(names[0])
        history.closes(f"g{turn}", *names).after(60)
    history.creates("late").after(1).starts("late", "C").after(30).times_out("late")
    return history.pauses("D").after(10)


def index_network(indexed: IndexedHistory) -> IndexedHistory:
    """Index the network; its contract accepted two rounds, and an accusation of C."""
    history = a_network()
    timeout = history.events[-2]
    state = index_with_rounds(indexed, history, [4, timeout.at.block])
    accuse_node(indexed, state, make_node_address("C"), timeout.at.block + 1, ready_at=10**9)
    return indexed


class Elements(HTMLParser):
    """The elements of a page, and its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self.links += [
            value for name in ("href", "src", "action") if (value := attributes.get(name))
        ]


@pytest.fixture(scope="module")
def client(new_sqlite_database):
    """Return a client that only reads, shared by the tests of this module."""
    with Store.open(new_sqlite_database()) as store:
        indexed = index_network(IndexedHistory(store))
        with store.transaction() as uow:
            uow.draws.add(
                create_draw(make_task_key("0A"), make_block(1, 1), make_node_address("B"))
            )
        yield indexed.client()


@pytest.fixture(scope="module")
def pages(client) -> dict[str, str]:
    """Return all pages that can be reached from `/`, by path."""
    text_by_path: dict[str, str] = {}
    ahead = ["/"]
    while ahead:
        path = ahead.pop()
        if path in text_by_path:
            continue
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        text_by_path[path] = answer.text if "html" in answer.headers["content-type"] else ""
        links = [
            urljoin(path, link).partition("#")[0] for link in Elements(text_by_path[path]).links
        ]
        # The search form needs a query.
        ahead += [link for link in links if link not in text_by_path and link != "/search"]
    return text_by_path


def test_every_internal_link_resolves(pages):
    assert set(WITHOUT_PARTS) <= set(pages)
    assert f"/nodes/{make_node_address('A')}" in pages
    assert f"/tasks/{make_task_key('0A')}" in pages


def test_task_page_lists_its_group_by_rank(pages):
    listed_ranks = [
        re.findall(r'data-label="Rank">([^<]+)<', text)
        for path, text in pages.items()
        if path.startswith("/tasks/")
    ]
    assert any(len(ranks) > 1 for ranks in listed_ranks)
    for ranks in listed_ranks:
        assert ranks == sorted(ranks, key=lambda rank: (not rank.isdigit(), rank))


def test_node_page_links_to_its_draws(pages):
    assert f"/draws/{make_task_key('0A')}" in pages[f"/nodes/{make_node_address('B')}"]
    assert "Drawn tasks" not in pages[f"/nodes/{make_node_address('A')}"]


def test_pages_escape_untrusted_html(pages):
    for path, text in pages.items():
        tags = {name for name, _ in Elements(text).elements}
        assert "img" not in tags, path
        assert "\u202e" not in text, path
    assert "&lt;img src=x" in pages[f"/nodes/{make_node_address('A')}"]


def test_pages_contain_no_inline_script_or_style(pages):
    """`/verify` is a single file with inline scripts;
    its policy contains their hashes (test_verify_page).
    """
    linking_pages = {path: text for path, text in pages.items() if "/verify" not in path}
    for path, text in linking_pages.items():
        for tag, attributes in Elements(text).elements:
            assert tag != "style", path
            assert tag != "script" or (attributes.get("src") or "").startswith("/static/"), path
            assert [
                name for name in attributes if name.startswith("on") or name == "style"
            ] == [], path


def test_every_page_supports_screen_reader_and_keyboard(pages):
    for path, text in pages.items():
        if not text:
            continue
        elements = Elements(text).elements
        tags = Counter(tag for tag, _ in elements)
        assert [tags[tag] for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1], path
        assert dict(elements)["html"]["lang"] == "en", path
        for tag, attributes in elements:
            named = {"aria-label", "aria-hidden"} & attributes.keys()
            assert tag != "svg" or named, (path, attributes)
            assert tag != "th" or attributes.get("scope") in {"col", "row"}, (path, attributes)
            # The order on the screen is that of the text; scrollable regions can be
            # focused.
            assert attributes.get("tabindex") in {None, "0"}, (path, attributes)
            is_named = (
                named or f'for="{attributes.get("id")}"' in text or is_in_label(text, attributes)
            )
            assert tag != "input" or attributes.get("type") == "hidden" or is_named, (
                path,
                attributes,
            )


def is_in_label(text: str, attributes: dict[str, str | None]) -> bool:
    labels = re.findall(r"<label.*?</label>", text, re.DOTALL)
    return any(f'name="{attributes.get("name")}"' in label for label in labels)


def test_first_link_skips_navigation(pages):
    for path, text in pages.items():
        links = [attributes["href"] for tag, attributes in Elements(text).elements if tag == "a"]
        first = links[:1]
        assert first in ([], ["#main"]), path
        assert not text or 'id="main"' in text, path


def test_every_response_has_security_headers(client):
    for path in (*WITHOUT_PARTS, "/nodes/0xabc", "/nothing", "/static/0/no.js"):
        headers = client.get(path).headers
        assert {name: headers.get(name) for name in HEADERS} == HEADERS, path


def test_content_security_policy_forbids_external_and_inline_sources():
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"unsafe|\*|https?:|data:", policy)


def test_templates_never_disable_escaping():
    lab_folder = Path(lab.page.__file__).parent
    templates = [*FOLDER.glob("templates/**/*.html"), *lab_folder.glob("templates/*.html")]
    assert {"node.html", "attack.html"} <= {template.name for template in templates}
    for template in templates:
        text = template.read_text("utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup|hx-on|\bjs:", text), template.name


def test_node_page_headline_summarises_the_ranks_of_the_node(client):
    text = client.get(f"/nodes/{make_node_address('A')}").text
    assert "<h1>First of three in all of its last three tasks.</h1>" in text


def test_network_page_lists_recent_events(pages):
    feed = pages["/"].partition("Recent events")[2]
    assert re.search(
        rf'{make_node_address("C")}">[^<]*</a>\s*timed out: reliability 1\.00 to 0\.30', feed
    )


def test_round_page_shows_changed_node_and_previous_score(pages):
    text = pages["/rounds/2"]
    assert "Round 2 updated three nodes." in text
    assert re.search(rf'/nodes/{make_node_address("A")}".*?>0\.5000</td>.*?>1\.0000</td>', text)


def test_accused_node_shows_remaining_veto_time(pages):
    assert "Veto period ends in" in pages["/kickouts"]
    # Its scores are good in this history, so the accusation cannot be executed for long.
    assert "Accused, but its scores have risen" in pages[f"/nodes/{make_node_address('C')}"]
    assert "Accused on chain." in pages[f"/nodes/{make_node_address('C')}"]


def test_struck_round_page_warns_that_its_root_was_struck(new_sqlite_store):
    with new_sqlite_store() as store:
        indexed = index_network(IndexedHistory(store))
        strike = RoundsStruck(Position(9, 0, 101), 1, first=2, last=2)
        with store.transaction() as uow:
            uow.rounds.save_changes(ContractChanges(strikes=[strike]))
        client = indexed.client()
        texts = [client.get(f"/rounds/{number}").text for number in (1, 2)]
    assert ["Its root was struck" in text for text in texts] == [False, True]


def test_pending_draw_shows_its_seed(pages):
    assert "One assignment is pending." in pages["/draws"]
    assert make_block(1, 1).hash in pages["/draws"]


def test_search_by_address_redirects_to_node(client):
    response = client.get("/search", params={"q": make_node_address("A")}, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (
        303,
        f"/nodes/{make_node_address('A')}",
    )


def test_ambiguous_address_prefix_returns_list_of_matches(client):
    answer = client.get("/nodes/0x0")
    assert answer.status_code == 300
    assert {f"/nodes/{make_node_address(name)}" for name in "ABCD"} <= set(
        Elements(answer.text).links
    )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/nodes/{'0x' + 40 * 'f'}", 404),
        ("/nodes/hello", 422),
        ("/nodes?sort=luck", 422),
        ("/nodes?cursor=%21", 422),
        ("/?range=1y", 422),
        (f"/tasks/{'0x' + 64 * 'f'}", 404),
        ("/rounds/7", 404),
        ("/rounds/" + 40 * "9", 422),
        ("/v1/nothing", 404),
    ],
)
def test_invalid_page_request_returns_error_page(client, path, status):
    response = client.get(path)
    assert response.status_code == status
    assert re.search(r"[,;:]\s*\.(\s|<)", response.text) is None


def test_unchanged_page_returns_304(client):
    first = client.get("/nodes")
    again = client.get("/nodes", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/nodes").text == first.text


def test_page_changes_with_new_blocks(new_sqlite_store):
    history = History().joins("A")
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(history)
        client = indexed.client()
        before = client.get("/nodes").text
        count = len(history.events)
        history.after(5).joins("B")
        indexed.index(history.events[count:], history.block, history.time)
        after = client.get("/nodes").text
    assert "1 nodes" not in before
    assert "2 nodes, the best first." in after


def test_page_before_first_block_returns_503(new_sqlite_store):
    with new_sqlite_store() as store:
        answer = IndexedHistory(store).client().get("/")
    assert answer.status_code == 503
    assert "Nothing is indexed yet" in answer.text
