"""New heads are pushed in order, or as a fault changes them."""

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from devnet.fakechain.provider import Provider
from devnet.fakechain.websocket import serve_websocket
from tests.unit.devnet.networks import grown


@pytest.fixture
def provider():
    return Provider(grown())


@pytest.fixture
def pushed(provider):
    with serve_websocket(provider) as websocket:
        yield websocket


@pytest.fixture
def line(pushed):
    with connect(pushed.url, close_timeout=1) as connection:
        send_request(connection, "eth_subscribe", "newHeads")
        yield connection


def send_request(connection, method, *params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    connection.send(msgspec.json.encode(body).decode())
    return receive_message(connection).get("result")


def receive_message(connection):
    return msgspec.json.decode(connection.recv(timeout=120))


def head(connection):
    return int(receive_message(connection)["params"]["result"]["number"], 16)


def mine(provider, tree, blocks=1):
    for _ in range(blocks):
        provider.head = tree.mine(parent_block=provider.head)


@pytest.fixture
def tree(provider):
    """Return the block tree of the provider, to mine on it."""
    return grown()


def test_new_head_is_pushed(line, provider, tree):
    mine(provider, tree, 2)
    assert [head(line), head(line)] == [6, 7]


def test_every_head_of_a_new_fork_is_pushed(line, provider, tree):
    provider.head = tree.mine_empty_blocks(3, parent_block=tree.genesis)
    assert [head(line) for _ in range(3)] == [1, 2, 3]


def test_websocket_without_head_pushes_still_answers_requests(line, pushed, provider, tree):
    pushed.is_silent = True
    mine(provider, tree)
    assert send_request(line, "eth_blockNumber") == "0x6"


def test_heads_can_be_pushed_twice_or_in_reverse_order(line, pushed, provider, tree):
    pushed.sends_twice = True
    mine(provider, tree)
    assert [head(line), head(line)] == [6, 6]
    pushed.sends_twice, pushed.reverses_pairs = False, True
    mine(provider, tree, 2)
    assert [head(line), head(line)] == [8, 7]


def test_websocket_is_closed_after_limited_number_of_heads(line, pushed, provider, tree):
    pushed.remaining_heads = 2
    mine(provider, tree, 2)
    assert [head(line), head(line)] == [6, 7]
    with pytest.raises(ConnectionClosed):
        line.recv(timeout=120)


def test_unsubscribed_client_receives_no_head(line, pushed, provider, tree):
    assert send_request(line, "eth_unsubscribe", "0x1") is True
    mine(provider, tree)
    assert send_request(line, "eth_blockNumber") == "0x6"
    assert pushed.subscription_count == 1
