"""The signed statements of a reporter are public, but rate-limited."""

from fastapi import FastAPI
from fastapi.testclient import TestClient

from oracle.daemon.config.listener_section import StatementsSection, WebSection
from oracle.daemon.web.http_server import RequestLimits
from oracle.daemon.web.rate_limit import ClientBuckets, ConcurrencyLimit, Refusals, TokenBucket
from oracle.daemon.web.statements_app import create_statements_app
from oracle.quorum.wire_format import Board, decode_statements
from tests.integration.http.test_peers import signed_report


def build_statements_client(board: Board, clock=lambda: 0.0) -> TestClient:
    section = StatementsSection()
    return TestClient(
        RequestLimits(create_statements_app(board), section, Refusals("statements"), clock)
    )


def test_statement_is_served_under_its_round():
    board = Board()
    board.publish(signed_report())
    client = build_statements_client(board)

    assert decode_statements(client.get("/v1/report/7").content) == [signed_report()]
    assert client.get("/v1/report/8").status_code == 404
    assert client.get("/v1/report/x").status_code == 422
    assert client.post("/v1/report/7").status_code == 405


def test_requests_above_rate_limit_return_429():
    now = [0.0]
    statements_client = build_statements_client(Board(), lambda: now[0])
    answers = [statements_client.get("/v1/report/1").status_code for _ in range(101)]
    assert answers == [404] * 100 + [429]

    now[0] = 1.0
    assert [statements_client.get("/v1/report/1").status_code for _ in range(21)] == [404] * 20 + [
        429
    ]


def test_rate_limit_applies_per_client_address():
    buckets = ClientBuckets(20.0, 2, lambda: 0.0)
    assert [buckets.try_acquire("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert buckets.try_acquire("10.0.0.2")
    # An IPv6 address shares its limit with its whole /64.
    assert [buckets.try_acquire(f"2001:db8::{n}") for n in range(3)] == [True, True, False]
    assert buckets.try_acquire("2001:db8:0:1::1")


def test_rate_limiter_evicts_oldest_client_addresses():
    buckets = ClientBuckets(20.0, 1, lambda: 0.0)
    for number in range(3000):
        assert buckets.try_acquire(f"10.0.{number // 256}.{number % 256}")
    assert not buckets.try_acquire("10.0.11.183")
    assert buckets.try_acquire("10.0.0.0")


def test_request_with_body_returns_413():
    statements_client = build_statements_client(Board())
    assert statements_client.request("GET", "/v1/report/7", content=b"x").status_code == 413
    assert (
        statements_client.request("GET", "/v1/report/7", content=iter([b"x"])).status_code == 413
    )


def test_health_endpoint_is_exempt_from_rate_limit():
    watched = FastAPI()
    watched.get("/livez")(lambda: "yes")
    slow = WebSection(requests_per_second=1.0)
    client = TestClient(RequestLimits(watched, slow, Refusals("web"), lambda: 0.0))
    assert [client.get("/x").status_code for _ in range(6)] == [404] * 5 + [429]
    assert client.get("/livez").status_code == 200


def test_token_bucket_never_exceeds_its_capacity():
    now = [0.0]
    bucket = TokenBucket(10.0, 2, lambda: now[0])
    now[0] = 100.0
    assert [bucket.try_acquire() for _ in range(3)] == [True, True, False]


def test_released_concurrency_slot_can_be_taken_again():
    seats = ConcurrencyLimit(1)
    with seats.try_enter() as first, seats.try_enter() as second:
        assert (first, second) == (True, False)
    with seats.try_enter() as third:
        assert third
