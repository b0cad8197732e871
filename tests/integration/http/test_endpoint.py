"""A single endpoint: its responses, its failures, and the secrecy of its URL."""

import socket
import traceback
from typing import Any

import pytest

from oracle.errors import InputError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.responses import BlockResponse, Quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from tests.support.chain.memory_chain import MemoryRpcError
from tests.support.chain.server import Fault, Http, Request, Served


def answering(http: Http) -> Fault:
    return lambda _: http


def failing(code: int, message: str) -> Fault:
    def fault(request: Request) -> None:
        raise MemoryRpcError(code, message)

    return fault


def call_and_catch_error(served: Served) -> RpcError:
    """Return the error of a request for the block number."""
    with pytest.raises(RpcError) as caught:
        JsonRpcClient(served.url).call("eth_blockNumber", [], Quantity)
    return caught.value


def test_response_is_decoded_to_the_requested_type(served: Served):
    endpoint = JsonRpcClient(served.url)

    block = endpoint.call("eth_getBlockByNumber", ["0x3", False], BlockResponse)

    assert block is not None
    assert block.hash == served.chain.blocks[3].hash


def test_null_response_returns_none(served: Served):
    endpoint = JsonRpcClient(served.url)

    assert endpoint.call("eth_getBlockByNumber", ["0x9999", False], BlockResponse) is None


def test_shuffled_batch_response_is_sorted_into_request_order(served: Served):
    post = served.post

    def shuffled(body: bytes) -> Http:
        answer = post(body)
        parts = answer.body[1:-1].replace(b'},{"jsonrpc"', b'}\n{"jsonrpc"').split(b"\n")
        return Http(body=b"[" + b",".join(reversed(parts)) + b"]")

    served.post = shuffled  # type: ignore[method-assign]  # the fault of this test
    asked_for = [[hex(n), False] for n in range(10)]

    blocks = JsonRpcClient(served.url).call_batch("eth_getBlockByNumber", asked_for, BlockResponse)

    assert [block and block.number for block in blocks] == [hex(n) for n in range(10)]


def test_failed_batch_item_is_retried_on_its_own(served: Served):
    refused: list[Any] = []

    def once(request: Request) -> None:
        if request["params"] == ["0x2", False] and not refused:
            refused.append(request)
            raise MemoryRpcError(-32000, "busy")

    served.faults.append(once)

    blocks = JsonRpcClient(served.url).call_batch(
        "eth_getBlockByNumber", [[hex(n), False] for n in range(4)], BlockResponse
    )

    assert [block and block.number for block in blocks] == ["0x0", "0x1", "0x2", "0x3"]


def test_batch_size_stays_reduced_after_a_refusal(served: Served):
    served.most_in_batch = 7
    endpoint = JsonRpcClient(served.url)
    parameters = [[hex(n), False] for n in range(30)]

    assert len(endpoint.call_batch("eth_getBlockByNumber", parameters, BlockResponse)) == 30

    before = len(served.received_requests)
    endpoint.call_batch("eth_getBlockByNumber", parameters, BlockResponse)
    assert len(served.received_requests) - before == 30


HTML = Http(body=b"<html>Welcome</html>", headers={"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("http", "kind"),
    [
        (HTML, ErrorKind.INVALID),
        (Http(), ErrorKind.INVALID),
        (Http(body=b"{"), ErrorKind.CUT),
        (Http(body=b'{"jsonrpc":"2.0","id":1}'), ErrorKind.INVALID),
        (Http(body=b'{"jsonrpc":"2.0","id":1,"result":5}'), ErrorKind.INVALID),
        (Http(body=b'{"jsonrpc":"2.0","id":1,"result":"0x1'), ErrorKind.CUT),
        (Http(body=b'{"jsonrpc":"2.0"', promised=500), ErrorKind.CUT),
        (Http(status=302, headers={"Location": "http://127.0.0.1:1"}), ErrorKind.UNREACHABLE),
        # The library parses the redirect target, but does not follow it.
        (Http(status=302, headers={"Location": "http://[::1"}), ErrorKind.UNREACHABLE),
        (Http(status=302, headers={"Location": "\xff://"}), ErrorKind.UNREACHABLE),
        (Http(status=401), ErrorKind.REFUSED),
        (Http(status=403, body=b"{}"), ErrorKind.REFUSED),
        (Http(status=404), ErrorKind.INVALID),
        (Http(status=413), ErrorKind.TOO_LARGE),
        (Http(status=429), ErrorKind.THROTTLED),
        (Http(status=502, body=b"bad gateway"), ErrorKind.UNREACHABLE),
        (Http(status=504), ErrorKind.SLOW),
    ],
)
def test_every_http_failure_is_classified(served: Served, http: Http, kind: ErrorKind):
    served.faults.append(answering(http))

    assert call_and_catch_error(served).kind is kind


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (-32005, "daily request count exceeded, request rate limited", ErrorKind.THROTTLED),
        (-32005, "query returned more than 10000 results", ErrorKind.TOO_LARGE),
        (-32005, "", ErrorKind.TOO_LARGE),
        (429, "slow down", ErrorKind.THROTTLED),
        (-32600, "You've exceeded your capacity of 330 CUs per second", ErrorKind.THROTTLED),
        (-32602, "Log response size exceeded", ErrorKind.TOO_LARGE),
        (-32000, "block range is too wide", ErrorKind.TOO_LARGE),
        (-32000, "query timeout exceeded", ErrorKind.SLOW),
        (
            -32602,
            "BlockOutOfRangeError: block height is 3 but requested was 80",
            ErrorKind.NOT_THERE,
        ),
        (-32000, "header not found", ErrorKind.NOT_THERE),
        (-32000, "history has been pruned", ErrorKind.PRUNED),
        (-32601, "the method does not exist", ErrorKind.UNSUPPORTED),
        (-32603, "something broke", ErrorKind.UNKNOWN),
        (-32000, "内部错误", ErrorKind.UNKNOWN),
    ],
)
def test_every_rpc_error_is_classified(served: Served, code: int, message: str, kind: ErrorKind):
    served.faults.append(failing(code, message))

    assert call_and_catch_error(served).kind is kind


@pytest.mark.parametrize(
    ("message", "blocks"),
    [
        ("eth_getLogs is limited to a 10,000 range", 10_000),
        ("You can make eth_getLogs requests with up to a 500 block range", 500),
        ("exceed maximum block range: 5000", 5_000),
        ("Max range: 1000", 1_000),
        ("block range is too large, at most 800 blocks", 800),
        ("query returned more than 10000 results", None),
        ("blocks distance: 0", None),
    ],
)
def test_block_limit_is_parsed_from_the_error_message(
    served: Served, message: str, blocks: int | None
):
    served.faults.append(failing(-32000, message))

    error = call_and_catch_error(served)

    assert (error.kind, error.max_blocks) == (ErrorKind.TOO_LARGE, blocks)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        (
            {
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
            },
            30.0,
        ),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_parsed_as_seconds_and_date(
    served: Served, headers: dict[str, str], seconds: float | None
):
    served.faults.append(answering(Http(status=429, headers=headers)))

    assert call_and_catch_error(served).retry_after == seconds


def test_closed_port_is_unreachable():
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        endpoint = JsonRpcClient(f"http://127.0.0.1:{bound_socket.getsockname()[1]}")
        with pytest.raises(RpcError) as caught:
            endpoint.call("eth_blockNumber", [], Quantity)

    assert caught.value.kind is ErrorKind.UNREACHABLE


SECRETS = ("hunter2pw", "0123456789abcdefkey", "querysecret")


def with_secrets(url: str) -> str:
    return url.replace("http://", "http://me:hunter2pw@") + "/v3/0123456789abcdefkey?k=querysecret"


@pytest.mark.parametrize(
    "fault",
    [
        answering(Http(status=401)),
        answering(HTML),
        answering(Http(promised=99)),
        failing(-32000, "no project 0123456789abcdefkey at /v3/0123456789abcdefkey?k=querysecret"),
    ],
)
def test_url_secrets_are_never_shown_in_errors(served: Served, fault: Fault):
    served.faults.append(fault)
    endpoint = JsonRpcClient(with_secrets(served.url))

    with pytest.raises(RpcError) as caught:
        endpoint.call("eth_blockNumber", [], Quantity)

    printed = "".join(traceback.format_exception(caught.value)) + repr(endpoint) + endpoint.name
    assert not [secret for secret in SECRETS if secret in printed]
    assert served.url in printed


def test_url_secrets_are_not_shown_for_unreachable_endpoint():
    endpoint = JsonRpcClient(with_secrets("http://127.0.0.1:1"))

    with pytest.raises(RpcError) as caught:
        endpoint.call("eth_blockNumber", [], Quantity)

    printed = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in SECRETS if secret in printed]


@pytest.mark.parametrize(
    "url", ["", "   ", "localhost:8545", "ftp://host", "http://", "http://h:x"]
)
def test_invalid_endpoint_url_raises_input_error(url: str):
    with pytest.raises(InputError, match="endpoints"):
        JsonRpcClient(url)
