"""Requests to the service: authentication, and responses to invalid ones."""

import json
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from gateway.gateway_app import GatewayApp
from gateway.gateway_calls import GatewayCalls
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckedNode, CheckRules, NodeChecks, ProbeAnswer
from gateway.selection_service import SelectionService
from oracle.store.database import Store
from tests.unit.gateway.relays import CHAIN, T0

TOKEN = "a-token-of-a-gateway"  # noqa: S105  made for this test
SELECTION_REQUEST = {"chain": CHAIN, "session": "s", "candidates": ["a", "b"]}
BAD_ROW = {"node": "a", "chain": CHAIN, "t_ms": T0, "ok": True}
ROW = {**BAD_ROW, "latency_ms": 61.2}


@pytest.fixture
def service(sqlite_url: str) -> Iterator[SelectionService]:
    rules = CheckRules(chain_id=1, allows_degraded_draw=False)
    checks = {CHAIN: NodeChecks(rules, {"a": CheckedNode(), "b": CheckedNode()})}
    with Store.open(sqlite_url) as store:
        yield SelectionService(store, GatewayRules(), checks, lambda: None, lambda: T0)


@pytest.fixture
def client(service: SelectionService) -> TestClient:
    client = TestClient(GatewayApp(GatewayCalls(service, lambda: T0), TOKEN))
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    return client


def outcomes(*rows: dict[str, object]) -> dict[str, object]:
    return {"outcomes": list(rows)}


def test_reported_outcomes_determine_selection(client: TestClient):
    slow = {**ROW, "node": "b", "latency_ms": 600}
    assert client.post("/v1/outcomes", json=outcomes(ROW, slow)).json()["taken"] == 2
    selection = client.post("/v1/select", json=SELECTION_REQUEST).json()
    assert selection["tickets"] == {"a": 10, "b": 1}
    assert selection["nodes"][0] in {"a", "b"}
    assert not selection["degraded"]


def test_explain_returns_rows_and_prove_returns_commitment(client: TestClient):
    selection = client.post(
        "/v1/select", json={**SELECTION_REQUEST, "explain": True, "prove": True}
    ).json()
    assert [row["reason"] for row in selection["rows"]] == ["untested", "untested"]
    epochs = client.get("/v1/epochs").json()["epochs"]
    assert selection["proof"]["commitment"] == epochs[0]["commitment"]
    assert "seed" not in epochs[0]


@pytest.mark.parametrize(
    "header",
    [None, "", TOKEN, f"Basic {TOKEN}", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
     "Bearer \u00e9\u00e9\u00e9"],
)  # fmt: skip
def test_request_without_valid_token_returns_401(client: TestClient, header: str | None):
    del client.headers["Authorization"]
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    for path in ("/v1/select", "/v1/outcomes", "/metrics", "/v1/nodes/a", "/x"):
        answer = client.post(path, headers=headers, json=SELECTION_REQUEST)  # type: ignore[arg-type]
        assert answer.status_code == 401, path
        assert TOKEN not in answer.text, path


def test_epochs_and_health_need_no_token(client: TestClient):
    del client.headers["Authorization"]
    assert client.get("/v1/epochs").status_code == 200
    assert client.get("/healthz").json()["ready"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/select", 405),
        ("POST", "/v1/checks", 405),
        ("DELETE", "/v1/nodes/a", 405),
        ("GET", "/v1", 404),
        ("GET", "/v1/select/", 404),
    ],
)
def test_wrong_path_or_method_returns_error(
    client: TestClient, method: str, path: str, status: int
):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_batch_with_an_invalid_row_is_rejected_as_a_whole(client: TestClient):
    answer = client.post("/v1/outcomes", json=outcomes(ROW, BAD_ROW))
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "latency_ms is required for a success",
        "row": 1,
        "field": "latency_ms",
    }
    assert client.get("/v1/nodes/a").json() == {}


def test_select_returns_503_when_no_node_passes_checks(
    client: TestClient, service: SelectionService
):
    service.apply_probe_answers(CHAIN, {node: ProbeAnswer(2, 5) for node in ("a", "b")})
    assert client.post("/v1/select", json=SELECTION_REQUEST).status_code == 503
    check = client.get("/v1/checks").json()[CHAIN]["a"]
    assert (check["passed"], check["reason"]) == (False, "wrong_chain")


def test_misconfigured_outcome_triggers_an_immediate_check(
    client: TestClient, service: SelectionService
):
    check_requests: list[None] = []
    service.request_checks = lambda: check_requests.append(None)
    row = {**BAD_ROW, "ok": False, "kind": "misconfigured"}
    client.post("/v1/outcomes", json=outcomes(row))
    client.post("/v1/checks/run")
    assert len(check_requests) == 2


def test_every_ranking_has_a_new_seed(client: TestClient):
    rankings = [client.post("/v1/rankings", json=SELECTION_REQUEST).json() for _ in range(2)]
    assert rankings[0]["seed"] != rankings[1]["seed"]
    assert rankings[0]["chances"] == [["a", 10], ["b", 10]]


def test_database_failure_makes_healthz_return_503(client: TestClient, service: SelectionService):
    service.writer.failure = "the disk is full"
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "the disk is full")


def test_metrics_change_with_reported_outcomes(client: TestClient):
    before = client.get("/metrics").text
    client.post("/v1/outcomes", content=json.dumps(outcomes(ROW)))
    after = client.get("/metrics").text
    assert before != after
    # The alerts of a daemon have no metrics here.
    assert {line.split("_")[1] for line in after.splitlines() if line.startswith("oracle_")} <= {
        "gateway", "http", "rpc",
    }  # fmt: skip
