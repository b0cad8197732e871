"""Every request to /v1 or to a page returns a response of the schema, never a server error.

The requests are generated from the OpenAPI schema, so a new path is tested from the first day.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, strategies as st

from oracle.daemon.web.pages.chain_pages import PAGES
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.examples import examples
from tests.support.histories import make_group_key, make_node_address, make_task_key
from tests.unit.daemon.pages.test_every_page import index_network
from tests.unit.daemon.pages.test_other_networks import of_2024, of_a_feed
from tests.unit.systems.legacy.networks import RULES

# The stream has no end; tests/unit/queries/api/test_event_feed.py tests it.
ENDLESS = "/v1/events"
# The statuses of the schema; 413 and 429 come from the listener, which is not used here.
PROMISED = {200, 300, 400, 404, 422}
KNOWN = [
    *(make_node_address(name) for name in "ABCD"),
    *(make_task_key(name) for name in ("0A", "late", "1", "9")),
    make_group_key("g0"),
    *("0x", "0x0", "0x" + 40 * "f", "0x" + 64 * "e", "1", "2", "3", "-1", "0", str(10**30)),
    *("qos", "-qos", "24h", "selectable", "timed_out", "%", "..", "\x00", "%2f", "'--", "é"),
]
anything = st.one_of(
    st.sampled_from(KNOWN),
    st.text(max_size=12),
    st.integers(-(2**70), 2**70).map(str),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module", params=["crynux", "2024", "feed"])
def client(request, new_sqlite_database) -> Iterator[TestClient]:
    """Return a client that only reads, shared by all examples."""
    with Store.open(new_sqlite_database()) as store:
        if request.param == "2024":
            yield IndexedHistory(store, RULES).whole(of_2024()).client()
            return
        indexed = IndexedHistory(store)
        if request.param == "crynux":
            index_network(indexed)
        else:
            indexed.whole(of_a_feed())
        yield indexed.client()


def operations(client: TestClient) -> list[tuple[str, str, dict[str, Any]]]:
    schema = client.get("/v1/openapi.json").json()
    return [
        (method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
        if path != ENDLESS
    ]


def path_with(path: str, values: list[str]) -> str:
    """Return the path with its parameters filled in; a parameter contains no slash."""
    pieces = iter(values)
    return "/".join(
        quote_path(next(pieces)) if piece.startswith("{") else piece for piece in path.split("/")
    )


def quote_path(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "replace")) or "%20"


@examples(150)
@given(data=st.data())
def test_api_never_returns_undeclared_status(client, data):
    method, path, operation = data.draw(st.sampled_from(operations(client)), label="operation")
    place = path_with(path, data.draw(st.lists(anything, min_size=3, max_size=3), label="parts"))
    names = [
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    query_strategy = st.dictionaries(st.sampled_from([*names, "strange"]), anything, max_size=4)
    query = {
        name: value.encode("utf-8", "replace") for name, value in data.draw(query_strategy).items()
    }
    body = {"json": data.draw(body_of(client))} if "requestBody" in operation else {}
    answer = client.request(method.upper(), place, params=query, **body)
    assert answer.status_code in PROMISED, (place, query, body, answer.text)
    assert "json" in answer.headers["content-type"]


def body_of(client: TestClient) -> st.SearchStrategy[Any]:
    """Return a strategy for any body, and for any value of a task's fields."""
    models = client.get("/v1/openapi.json").json()["components"]["schemas"]
    names = [name for model in models.values() for name in model.get("properties", ())]
    return json_values | st.dictionaries(st.sampled_from(names), json_values, max_size=6)


@examples(100)
@given(
    path=st.sampled_from(sorted(PAGES)),
    parts=st.lists(anything, min_size=3, max_size=3),
    query=st.dictionaries(
        st.sampled_from(["range", "sort", "state", "prefix", "cursor", "q", "of", "limit"]),
        anything,
        max_size=4,
    ),
)
def test_pages_never_return_undeclared_status(client, path, parts, query):
    encoded_query = {name: value.encode("utf-8", "replace") for name, value in query.items()}
    answer = client.get(path_with(path, parts), params=encoded_query, follow_redirects=False)
    assert answer.status_code in PROMISED | {303, 304}, (path, parts, query, answer.text)
