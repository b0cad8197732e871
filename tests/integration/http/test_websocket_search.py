"""`init` finds the websocket of an endpoint,
and accepts only one that announces the same blocks.
"""

import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from devnet.fakechain.websocket import PushServer, serve_websocket
from oracle.rpc import new_heads
from oracle.rpc.new_heads import find_websocket_url


@pytest.fixture
def provider() -> Provider:
    return Provider(BlockTree(31337))


def to_http(server: PushServer) -> str:
    return server.url.replace("ws://", "http://")


def test_websocket_at_the_endpoint_url_is_found(provider: Provider):
    with serve_websocket(provider) as server:
        assert find_websocket_url(to_http(server), 31337) == server.url


def test_websocket_of_another_chain_is_not_used(provider: Provider):
    with serve_websocket(provider) as server:
        assert find_websocket_url(to_http(server), 1) is None


def test_websocket_without_subscriptions_is_not_used(provider: Provider):
    provider.unsupported.add("eth_subscribe")
    with serve_websocket(provider) as server:
        assert find_websocket_url(to_http(server), 31337) is None


def test_no_websocket_is_found_at_an_endpoint_without_one(provider: Provider):
    with serve_websocket(provider) as server:
        closed_url = to_http(server)
    assert find_websocket_url(closed_url, 31337) is None


@pytest.mark.parametrize(
    ("endpoint", "likely"),
    [
        ("https://eth.example.org/v2/key", ["wss://eth.example.org/v2/key",
                                            "wss://eth.example.org/ws/v2/key"]),
        ("http://10.0.0.7:8545", ["ws://10.0.0.7:8545", "ws://10.0.0.7:8545/ws",
                                  "ws://10.0.0.7:8546"]),
        ("unix:///geth.ipc", []),
    ],
)  # fmt: skip
def test_guessed_websocket_urls_use_the_host_of_the_endpoint(endpoint: str, likely: list[str]):
    assert new_heads._list_likely_websocket_urls(endpoint) == likely
