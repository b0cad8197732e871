"""The read API for browsers and gateways: schema, ETags, rejected requests, CORS."""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from eth_utils.address import to_checksum_address
from fastapi.testclient import TestClient

from oracle.daemon.web.api import node_routes
from oracle.queries.api.node_view import build_node_explanation
from oracle.queries.population import load_all_nodes
from oracle.store.database import Store
from tests.support.api import LAG_SECONDS, IndexedHistory
from tests.support.histories import History, make_node_address

SCORES = {"A": (10, 10, 5), "B": (0, 0), "C": (2, 10, 0, 5)}


def index_scores(store: Store) -> IndexedHistory:
    history = History().joins(*SCORES)
    for name, scores in SCORES.items():
        history.scores(name, *scores)
    return IndexedHistory(store).whole(history.after(5))


@pytest.fixture(scope="module")
def indexed(module_database_url: str) -> Iterator[IndexedHistory]:
    """Index a history that the tests of this module only read."""
    with Store.open(module_database_url) as store:
        yield index_scores(store)


@pytest.fixture(scope="module")
def api(indexed: IndexedHistory) -> TestClient:
    return indexed.client()


def test_every_response_states_block_finality_and_lag(api, indexed):
    paths = [path for path in api.get("/v1/openapi.json").json()["paths"] if "{" not in path]
    answers = [api.get(path) for path in paths if path not in NOT_FOR_GET]
    assert {answer.status_code for answer in answers} == {200}
    with indexed.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    for answer in answers:
        as_of = answer.json()["as_of"]
        assert (as_of["block"], as_of["final"], as_of["is_final"]) == (cursor.number, None, False)
        assert as_of["lag_seconds"] == LAG_SECONDS


NOT_FOR_GET = {"/v1/select", "/v1/events"}


def test_openapi_schema_describes_every_response(api):
    schema = api.get("/v1/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert operation["operationId"]
            assert operation["responses"]["200"]["content"], path


def test_every_path_in_llms_text_responds(api):
    paths = re.findall(r"\]\((/[^)]+)\)", api.get("/llms.txt").text)
    assert "/v1/openapi.json" in paths
    assert {path: api.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)


def test_nodes_are_sorted_best_first(api, indexed):
    rows = api.get("/v1/nodes").json()["nodes"]
    page = load_all_nodes(indexed.store, indexed.rules, {}, indexed.now)
    assert page is not None
    assert rows == page.model_dump(mode="json")["nodes"]
    assert [row["place"] for row in rows if row["place"]] == list(range(1, len(SCORES) + 1))


def test_unchanged_response_returns_304(api):
    first = api.get("/v1/nodes")
    again = api.get("/v1/nodes", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_new_block_changes_etag(store):
    indexed = index_scores(store)
    api = indexed.client()
    first = api.get("/v1/nodes")
    last = indexed.fold.last
    assert last is not None
    indexed.index([], last.at.block + 9, indexed.now)
    again = api.get("/v1/nodes", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.headers["etag"] == first.headers["etag"]) == (200, False)


def test_reported_lag_grows_while_index_stalls(store):
    indexed = index_scores(store)
    api = indexed.client()
    first = api.get("/v1/network")
    indexed.now += 600
    again = api.get("/v1/network", headers={"if-none-match": first.headers["etag"]})
    assert again.json()["as_of"]["lag_seconds"] == LAG_SECONDS + 600


def test_long_responses_are_gzipped_on_request(api):
    plain = api.get("/v1/nodes", headers={"accept-encoding": "identity"})
    with api.stream("GET", "/v1/nodes", headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert (plain.headers.get("content-encoding"), answer.headers["content-encoding"]) == (
        None,
        "gzip",
    )
    assert json.loads(gzip.decompress(packed)) == plain.json()


def test_node_is_returned_for_unique_address_prefix(api):
    address = make_node_address("A")
    prefix = next(
        address[:length]
        for length in range(3, 43)
        if api.get(f"/v1/nodes/{address[:length]}").status_code == 200
    )
    answer = api.get(f"/v1/nodes/{prefix}").json()
    assert answer["row"]["node"] == address
    assert answer["pool"] == list(SCORES["A"])


def test_ambiguous_address_prefix_returns_list_of_matches(api):
    answer = api.get("/v1/nodes/0x00")
    assert answer.status_code == 300
    assert {make_node_address("A"), make_node_address("B")} <= set(answer.json()["found"])


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/select", "POST"),
        ("POST", "/v1/nodes", "GET, HEAD"),
        ("DELETE", "/v1/nodes/0xab", "GET, HEAD"),
        ("PUT", "/v1/status", "GET, HEAD"),
        ("TRACE", "/v1/status", "GET, HEAD"),
    ],
)
def test_unsupported_method_returns_405_with_allowed_methods(api, method, path, allowed):
    answer = api.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.request(method, "/v1/nothing").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nodes/0x" + "ee" * 20, 404),
        ("/v1/nodes/0xEE", 404),
        ("/v1/nodes/0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", 422),
        ("/v1/nodes/nobody", 422),
        ("/v1/nodes?limt=5", 422),
        ("/v1/nodes?limit=0", 422),
        ("/v1/nodes?cursor=abc", 400),
        ("/v1/network?span=1y", 422),
        ("/v1/nothing", 404),
    ],
)
def test_invalid_request_returns_problem_json(api, path, status):
    answer = api.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/nodes/{}", {}),
        ("/v1/nodes/{}/history", {}),
        ("/v1/nodes/{}/past", {}),
        ("/v1/nodes/{}/explain", {}),
        ("/v1/nodes", {"prefix": "{}"}),
        ("/v1/nodes", {"of": "{}"}),
        ("/nodes/{}", {}),
        ("/nodes", {"of": "{}"}),
        ("/search", {"q": "{}"}),
    ],
)
def test_address_in_any_letter_case_resolves_to_same_node(api, path, query):
    address = make_node_address("A")
    answers = [
        api.get(
            path.format(text),
            params={name: value.format(text) for name, value in query.items()},
            follow_redirects=False,
        )
        for text in (address, address.upper(), to_checksum_address(address))
    ]
    for answer in answers:
        assert answer.status_code == (303 if path == "/search" else 200)
        assert address in answer.text + answer.headers.get("location", "")
        assert answer.text == answers[0].text


@pytest.mark.parametrize(
    "path", ["/v1/nodes/{}", "/v1/events?node={}", "/nodes/{}", "/v1/nodes?of={}"]
)
def test_address_with_wrong_checksum_is_rejected_with_reason(api, path):
    text = to_checksum_address("0x" + 20 * "ab").swapcase().replace("X", "x")
    answer = api.get(path.format(text))
    assert answer.status_code == 422
    assert "wrong EIP-55 checksum" in answer.text


def test_task_key_in_upper_case_is_accepted_by_every_path(api):
    key = "0x" + 32 * "ab"
    for path in ("/v1/tasks/{}", "/v1/groups/{}", "/v1/draws/{}", "/tasks/{}", "/draws/{}"):
        lower, upper = (api.get(path.format(text)) for text in (key, key.upper()))
        assert lower.status_code == upper.status_code != 422
    task = {"task": key.upper(), "creator": to_checksum_address("0x" + 20 * "ab")}
    assert api.post("/v1/select", json=task).status_code == 200


def test_explanation_matches_node_response(api):
    explained = api.get(f"/v1/nodes/{make_node_address('C')}/explain").json()["explanation"]
    body = api.get(f"/v1/nodes/{make_node_address('C')}").json()
    assert explained["pool"]["scores"] == body["pool"] == list(SCORES["C"])
    assert explained["row"] == body["row"]


def test_explain_at_block_beyond_index_returns_400(api):
    assert api.get(f"/v1/nodes/{make_node_address('C')}/explain?at=99999").status_code == 400


def test_concurrent_explain_at_block_returns_503_with_retry_after(api, indexed, monkeypatch):
    is_made = threading.Event()
    may_end = threading.Event()

    def explain_when_released(*arguments):
        is_made.set()
        assert may_end.wait(60)
        return build_node_explanation(*arguments)

    monkeypatch.setattr(node_routes, "build_node_explanation", explain_when_released)
    with indexed.store.read_transaction() as uow:
        block = uow.cursor.get().number
    with ThreadPoolExecutor() as pool:
        first = pool.submit(api.get, f"/v1/nodes/{make_node_address('C')}/explain?at={block}")
        try:
            assert is_made.wait(60)
            refused = api.get(f"/v1/nodes/{make_node_address('A')}/explain?at={block}")
            # Responses that need no fold are not delayed.
            assert api.get(f"/v1/nodes/{make_node_address('A')}").status_code == 200
        finally:
            may_end.set()
        assert first.result().status_code == 200
    assert (refused.status_code, refused.json()["status"]) == (503, 503)
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["cache-control"] == "no-store"
    # The worker is free again.
    assert api.get(f"/v1/nodes/{make_node_address('A')}/explain?at={block}").status_code == 200


def test_request_before_first_block_returns_503(store):
    answer = IndexedHistory(store).client().get("/v1/network")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


def test_cors_headers_are_sent_to_configured_origins_only(indexed):
    headers = {"origin": "https://example.org"}
    closed = indexed.client().get("/v1/network", headers=headers)
    opened = indexed.client(cors=("https://example.org",)).get("/v1/network", headers=headers)
    assert "access-control-allow-origin" not in closed.headers
    assert opened.headers["access-control-allow-origin"] == "https://example.org"


def test_suggested_number_of_first_places_improves_the_rank(api, indexed):
    body = api.get(f"/v1/nodes/{make_node_address('B')}").json()
    needed = body["lift"]["first_places"]
    assert needed is not None
    assert body["lift"]["place_then"] < body["row"]["place"]


def test_control_characters_in_gpu_name_are_replaced(store):
    history = History().joins("A", gpu_name="<img src=x>\u202e\x07" + "y" * 200)
    api = IndexedHistory(store).whole(history).client()
    gpu = api.get("/v1/nodes").json()["nodes"][0]["gpu"]
    assert gpu.startswith("<img src=x>??y")
    assert len(gpu) == 64
