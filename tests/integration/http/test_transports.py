"""The transports of one endpoint and of several: order of requests, valid responses, redaction."""

from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError, TransientError
from oracle.rpc.endpoints.rate_limiter import Backoff
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError, RpcError
from tests.pools import caller_of, pool_of

Json = Any


class Endpoint:
    """A server whose responses the test sets: a body, or a function of the request."""

    def __init__(self) -> None:
        self.url = ""
        self.response: Json = "0x1"
        self.status = 200
        self.headers: dict[str, str] = {}
        # The `Date` header; None for the time of this machine.
        self.date: str | None = None
        self.received_requests: list[Json] = []
        # While a test holds the lock, every response is delayed.
        self.busy = Lock()

    def body(self, raw_body: bytes) -> bytes:
        payload = msgspec.json.decode(raw_body)
        self.received_requests.append(payload)
        with self.busy:
            return self._body(payload)

    def _body(self, payload: Json) -> bytes:
        if isinstance(self.response, bytes):
            return self.response
        many = payload if isinstance(payload, list) else [payload]
        answers = [
            {"jsonrpc": "2.0", "id": request["id"], **self._build_result()} for request in many
        ]
        return msgspec.json.encode(answers if isinstance(payload, list) else answers[0])

    def _build_result(self) -> dict[str, Json]:
        return self.response if isinstance(self.response, dict) else {"result": self.response}


def standing() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = endpoint.body(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(endpoint.status)
            for name, value in {**endpoint.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(body)

        @override
        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(timestamp) if endpoint.date is None else endpoint.date

        @override
        def log_message(self, *args: object) -> None:
            """Drop the access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v3/s3cretkey"
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()


first_endpoint = pytest.fixture(standing, name="first_endpoint")
other = pytest.fixture(standing, name="other")


@pytest.fixture
def caller(first_endpoint: Endpoint) -> Iterator[EndpointCaller]:
    opened = caller_of(first_endpoint.url)
    yield opened
    opened.endpoint.close()


@pytest.fixture
def pool_view(first_endpoint: Endpoint, other: Endpoint) -> Iterator[PoolView]:
    pool = pool_of(first_endpoint.url, other.url)
    yield pool.create_view()
    pool.close()


def error(message: str, code: int = -32000, data: Json = None) -> dict[str, Json]:
    return {"error": {"code": code, "message": message, "data": data}}


REFUSALS = [
    error("Too many requests", 429),
    error("limit", -32005),
    error("rate limit exceeded"),
    error("the method eth_call does not exist/is not available", -32601),
    error("missing trie node"),
    error("internal error", -32603),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda response: response["error"]["message"])
def test_call_reverted_by_one_endpoint_is_sent_to_the_next(
    pool_view: PoolView, first_endpoint: Endpoint, other: Endpoint, refusal: dict[str, Json]
):
    first_endpoint.response, other.response = refusal, "0x2a"
    assert pool_view.request("eth_call", {}, "latest") == "0x2a"
    assert (len(first_endpoint.received_requests), len(other.received_requests)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b"slow down"),
        (500, b"oops"),
        (502, b"<html>Bad Gateway</html>"),
        (200, b"<!doctype html>"),
        (200, b""),
        (200, b'{"jsonrpc":"2.0","id":1,"resu'),
        (200, b'{"jsonrpc":"2.0","id":999,"result":"0x1"}'),
        (200, b'{"jsonrpc":"2.0","id":true,"result":"0x1"}'),
        (200, b'{"jsonrpc":"2.0","id":1}'),
        (200, b'"0x1"'),
        (302, b""),
    ],
)
def test_malformed_response_falls_back_to_the_next_endpoint(
    pool_view: PoolView, first_endpoint: Endpoint, other: Endpoint, status: int, body: bytes
):
    first_endpoint.status, first_endpoint.response, other.response = status, body, "0x2a"
    assert pool_view.request("eth_blockNumber") == "0x2a"
    with pytest.raises(RpcError):
        pool_view.callers[0].request("eth_blockNumber")


REVERTS = [
    error("execution reverted", 3, "0x1234"),
    error("execution reverted: rate limit exceeded", 3),
    error("VM execution error.", -32015, "Reverted 0x1234"),
    error("VM Exception while processing transaction: revert", -32000, {"result": "0x1234"}),
    error("out of gas"),
]


@pytest.mark.parametrize("revert", REVERTS, ids=lambda response: response["error"]["message"])
def test_revert_counts_only_if_no_endpoint_returns_a_result(
    pool_view: PoolView, first_endpoint: Endpoint, other: Endpoint, revert: dict[str, Json]
):
    first_endpoint.response, other.response = revert, "0x2a"
    assert pool_view.request("eth_call", {}, "latest") == "0x2a"

    other.response = revert
    with pytest.raises(RevertError) as raised:
        pool_view.request("eth_call", {}, "latest")
    has_output = revert["error"]["data"] is not None
    assert raised.value.data == ("0x1234" if has_output else None)
    assert pool_view.callers[0].endpoint.health.backoff.get_remaining_seconds() == 0


def format_date(seconds_from_now: float) -> str:
    return formatdate(unix_seconds() + seconds_from_now, usegmt=True)


@pytest.mark.parametrize(
    ("dates", "offset"),
    [
        ((0, 0), 0),
        ((90, 300), -90),
        ((-300, -90), 90),
        # The machine's clock cannot be wrong if one endpoint is ahead of it and one behind.
        ((-90, 90), 0),
        ((None, -300), 300),
    ],
)
def test_smallest_clock_offset_is_used_if_all_signs_agree(
    first_endpoint: Endpoint, other: Endpoint, dates: tuple[int | None, int], offset: int
):
    for endpoint, seconds in zip((first_endpoint, other), dates, strict=True):
        endpoint.date = "" if seconds is None else format_date(seconds)
    pool = pool_of(first_endpoint.url, other.url)
    for queried in pool:
        queried.client.call("eth_blockNumber", [], str)
    assert pool.compute_clock_offset(unix_seconds()) == pytest.approx(offset, abs=3)
    pool.close()


@pytest.mark.parametrize(
    "date",
    ["soon", "Mon, 01 Jan 99999999999999 00:00:00 GMT", "Mon, 32 Foo 2026 99:99:99 +9999", ","],
)
def test_malformed_date_header_gives_no_clock_offset(
    first_endpoint: Endpoint, caller: EndpointCaller, date: str
):
    first_endpoint.date = date
    client = caller.endpoint.client
    assert client.call("eth_blockNumber", [], str) == "0x1"
    assert client.server_start_time is None


def test_error_is_raised_if_the_other_endpoint_returns_nothing(
    pool_view: PoolView, first_endpoint: Endpoint, other: Endpoint
):
    first_endpoint.response = b""
    other.response = error("no such block")
    with pytest.raises(CallRefusedError, match="no such block"):
        pool_view.request("eth_call", {}, "latest")


def test_endpoint_receives_no_request_before_retry_after(first_endpoint: Endpoint):
    now = [0.0]
    caller = caller_of(first_endpoint.url, clock=lambda: now[0])
    first_endpoint.status = 429
    first_endpoint.headers = {"Retry-After": "40"}
    first_endpoint.response = b"slow down"
    for _ in range(3):
        with pytest.raises(RpcError):
            caller.request("eth_blockNumber")
    assert len(first_endpoint.received_requests) == 1

    now[0], first_endpoint.status, first_endpoint.response = 40.5, 200, "0x1"
    assert caller.request("eth_blockNumber") == "0x1"
    caller.endpoint.close()


def test_timeouts_increase_the_backoff_of_an_endpoint(first_endpoint: Endpoint):
    now = [0.0]
    caller = caller_of(first_endpoint.url, 0.05, lambda: now[0])
    rests = []
    with first_endpoint.busy:
        for _ in range(3):
            with pytest.raises(RpcError, match="no response in time"):
                caller.request("eth_blockNumber")
            rests.append(caller.endpoint.health.backoff.get_remaining_seconds())
            with pytest.raises(RpcError, match="backoff"):
                caller.request("eth_blockNumber")
            now[0] += caller.endpoint.health.backoff.get_remaining_seconds()
    # 1, 2 and 4 s, half of which is random.
    assert [
        0.5 <= backoff_seconds / 2**place <= 1 for place, backoff_seconds in enumerate(rests)
    ] == 3 * [True]
    caller.endpoint.close()


def test_backoff_is_capped_at_five_minutes():
    backoff = Backoff(lambda: 0.0, lambda: 0.0)
    backoff.start(86_400.0)
    assert backoff.get_remaining_seconds() == 300
    backoff.reset()
    backoff.start(None)
    # Half of it is random.
    assert backoff.get_remaining_seconds() == 0.5


def test_gas_limit_error_with_any_code_is_not_treated_as_rate_limit(
    caller: EndpointCaller, first_endpoint: Endpoint
):
    first_endpoint.response = error("Transaction gas limit exceeds block gas limit", -32005)
    with pytest.raises(CallRefusedError):
        caller.request("eth_sendRawTransaction", "0x")
    assert caller.endpoint.health.backoff.get_remaining_seconds() == 0


def test_endpoint_that_refuses_batches_gets_single_requests(
    caller: EndpointCaller, first_endpoint: Endpoint
):
    first_endpoint.response = (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}'
    )
    calls = [("eth_blockNumber", ()), ("eth_chainId", ())]
    with pytest.raises(CallRefusedError, match="no batches"):
        caller.request_all(calls)
    assert len(first_endpoint.received_requests) == 1

    first_endpoint.response = "0x1"
    assert caller.request_all(calls) == ["0x1", "0x1"]
    assert [isinstance(question, dict) for question in first_endpoint.received_requests[1:]] == [
        True,
        True,
    ]


def test_oversized_response_is_rejected(caller: EndpointCaller, first_endpoint: Endpoint):
    caller.endpoint.client._wire.http.max_bytes = 1_000
    first_endpoint.response = "0x" + 2_000 * "0"
    with pytest.raises(RpcError, match="too large"):
        caller.request("eth_call")


def test_errors_and_repr_show_only_host_of_endpoint(
    caller: EndpointCaller, first_endpoint: Endpoint
):
    texts = [repr(caller)]
    for response in (
        error(f"no: see {first_endpoint.url}"),
        b"<html>",
        error("used up s3cretkey", 429),
    ):
        first_endpoint.response = response
        with pytest.raises(TransientError) as raised:
            caller.request("eth_call")
        texts += [str(raised.value), repr(raised.value)]
    assert [text for text in texts if "s3cretkey" in text] == []
    assert "127.0.0.1" in texts[0]


def test_invalid_endpoint_url_is_rejected_without_being_shown():
    with pytest.raises(InputError) as raised:
        caller_of("ftp://user:s3cret@host/key")
    assert "s3cret" not in str(raised.value)


def test_chain_id_is_cached_until_a_failure(caller: EndpointCaller, first_endpoint: Endpoint):
    first_endpoint.response = "0x7a69"
    assert caller.serves_chain(31337)
    assert caller.serves_chain(31337)
    assert len(first_endpoint.received_requests) == 1

    first_endpoint.response = b""
    with pytest.raises(RpcError):
        caller.request("eth_blockNumber")
    first_endpoint.response = "0x1"
    assert not caller.serves_chain(31337)


@pytest.mark.parametrize("where", ["http://127.0.0.1:1", "http://[::1", "\xff://"])
def test_redirect_is_not_followed(first_endpoint: Endpoint, caller: EndpointCaller, where: str):
    first_endpoint.status = 302
    first_endpoint.headers = {"Location": where}
    with pytest.raises(RpcError):
        caller.request("eth_chainId")
