"""A chaos proxy forwards everything, and draws its moods from a seed."""

import socket

import msgspec
import pytest

from devnet.fakechain.faults.chaos import ChaosEndpoint
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.upstream import UpstreamProxy
from tests.unit.devnet.networks import Caller, grown

ALL_BLOCKS = {"fromBlock": "0x0", "toBlock": "latest"}


@pytest.fixture
def true():
    provider = Provider(grown())
    with serve_endpoint(provider) as served:
        yield provider, served.url


def test_proxy_without_faults_forwards_responses_unchanged(true):
    provider, url = true
    upstream = UpstreamProxy(url)
    with serve_endpoint(upstream) as served, Caller(served.url) as ask:
        assert ask("eth_getLogs", ALL_BLOCKS) == provider.handle_call("eth_getLogs", [ALL_BLOCKS])
        assert ask("eth_nonsense")["code"] == -32601
        answers = ask.batch(("eth_chainId",), ("eth_getBlockByNumber", "0x9", False))
    upstream.close()
    assert [answer["result"] for answer in answers] == ["0x7a69", None]


def test_unreachable_upstream_returns_502(true):
    _, url = true
    upstream = UpstreamProxy(url.rpartition(":")[0] + ":1")
    with serve_endpoint(upstream) as served, Caller(served.url) as ask:
        answered = ask.session.post(
            served.url, data=b'{"id":1,"method":"eth_chainId"}', timeout=99
        )
    upstream.close()
    assert answered.status_code == 502


def moods(url, seed, requests):
    """Return the moods of a proxy with this seed, one for each request."""
    received: list[str] = []
    chaos = ChaosEndpoint(url, seed, received.append)
    for _ in range(requests):
        chaos.select_faults()
    chaos.close()
    return received


def test_seed_determines_the_faults_of_a_chaos_endpoint(true):
    _, url = true
    assert moods(url, 1, 500) == moods(url, 1, 500) != moods(url, 2, 500)


def test_chaos_endpoint_is_mostly_honest(true):
    _, url = true
    struck = sum(int(mood.split()[-2]) for mood in moods(url, 3, 2_000))
    assert 60 < struck < 400


@pytest.mark.slow
def test_chaos_endpoint_can_serve_every_fault_kind(true):
    _, url = true
    chaos = ChaosEndpoint(url, 0)
    calls = [
        ("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x5"}),
        ("eth_getBlockByNumber", "latest", False),
        ("eth_getBlockByNumber", "finalized", False),
        ("eth_getBlockReceipts", "0x2"),
        ("eth_blockNumber",),
    ]
    with serve_endpoint(chaos) as served:
        for _name, fault in chaos._fault_by_mood:
            chaos._mood = (_name, fault)
            chaos._remaining_requests = 10_000
            for question in ([call] for call in calls):
                body = ask_raw(served.url, question)
                assert body.startswith(b"HTTP/1.1 ")
            assert ask_raw(served.url, calls).startswith(b"HTTP/1.1 ")
    struck = {name for name, fault in chaos._fault_by_mood if fault.hit_count}
    chaos.close()
    assert struck == {name for name, _ in chaos._fault_by_mood}


def ask_raw(url, calls):
    """Return the received bytes, complete or not: many of them are deliberately not HTTP."""
    body = msgspec.json.encode(
        [{"id": place, "method": call[0], "params": call[1:]} for place, call in enumerate(calls)]
    )
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        line.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return line.recv(65_536)
