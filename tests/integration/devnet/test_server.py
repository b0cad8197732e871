"""The devnet's endpoints serve many clients over HTTP, and stop on request."""

import socket
from threading import Event, Thread

import pytest
import requests

from devnet.fakechain.faults import transport_faults as transport
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint, serve_endpoints
from tests.unit.devnet.networks import Caller, grown


@pytest.fixture
def provider():
    return Provider(grown())


@pytest.fixture
def ask(provider):
    with serve_endpoint(provider) as served, Caller(served.url) as caller:
        yield caller


def test_response_has_id_of_request(ask):
    assert ask.whole("eth_blockNumber") == {"jsonrpc": "2.0", "id": 1, "result": "0x5"}


def test_batch_is_answered_in_order_including_errors(ask):
    answers = ask.batch(("eth_chainId",), ("eth_nonsense",), ("eth_blockNumber",))
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert answers[1]["error"]["code"] == -32601
    assert answers[2]["result"] == "0x5"


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"[]", -32600), (b"7", -32600), (b'{"id":1}', -32600)]
)
def test_malformed_request_returns_error(ask, body, code):
    answer = requests.post(ask.url, data=body, timeout=120).json()
    assert (answer["id"], answer["error"]["code"]) == (None, code)


def test_invalid_parameters_return_error(ask):
    assert ask("eth_getBlockByNumber")["code"] == -32602
    assert ask("eth_getBlockByNumber", 7)["code"] == -32602


def test_requests_are_recorded(ask, provider):
    ask("eth_getBlockByNumber", "0x2", False)
    ask.batch(("eth_chainId",), ("eth_chainId",))
    assert provider.count_requests("eth_chainId") == 2
    assert provider.received_requests[0].params == ("0x2", False)
    assert provider.received_requests[0].block_range == (2, 2)


def test_concurrent_callers_are_served(provider):
    with serve_endpoint(provider) as served:
        heads: list[str] = []

        def call():
            with Caller(served.url) as caller:
                heads.extend(caller("eth_blockNumber") for _ in range(10))

        callers = [Thread(target=call) for _ in range(6)]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join()
    assert heads == ["0x5"] * 60


def test_open_connections_are_closed_when_server_stops(provider):
    with serve_endpoint(provider) as served:
        port = int(served.url.rpartition(":")[2])
        idle = socket.create_connection(("127.0.0.1", port))
    with idle:
        assert idle.recv(1) == b""
    with pytest.raises(requests.ConnectionError):
        requests.post(served.url, data=b"{}", timeout=1)


def test_held_response_does_not_block_other_requests(provider):
    gate = Event()
    provider.faults.append(transport.build_held_response_fault(gate, methods="eth_chainId"))
    with (
        serve_endpoint(provider) as served,
        Caller(served.url) as first_caller,
        Caller(served.url) as second_caller,
    ):
        waiting = Thread(target=first_caller, args=("eth_chainId",))
        waiting.start()
        assert second_caller("eth_blockNumber") == "0x5"
        assert waiting.is_alive()
        gate.set()
        waiting.join()


def test_every_provider_has_its_own_url():
    tree = grown()
    with (
        serve_endpoints(Provider(tree), Provider(tree, tree.genesis)) as urls,
        Caller(urls[0]) as first_caller,
        Caller(urls[1]) as second_caller,
    ):
        assert (first_caller("eth_blockNumber"), second_caller("eth_blockNumber")) == (
            "0x5",
            "0x0",
        )
