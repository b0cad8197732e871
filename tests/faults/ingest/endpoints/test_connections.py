"""Case 56: connections that fail for lack of a name, a route, or a valid certificate."""

import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.responses import Quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle
from tests.support.ingest.fake_chain import FakeChain


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def get_unreachable_message(url: str) -> str:
    """Return the message for an endpoint that cannot be reached."""
    with pytest.raises(RpcError) as caught:
        JsonRpcClient(url).call("eth_blockNumber", [], Quantity)
    assert caught.value.kind is ErrorKind.UNREACHABLE
    return caught.value.detail


@pytest.fixture
def unresolvable_url(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a host whose name no longer resolves."""
    real_getaddrinfo = socket.getaddrinfo

    def look_up(host: Any, *more: Any, **named: Any) -> Any:
        if host == "rpc.example.test":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real_getaddrinfo(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return "http://rpc.example.test:8545"


@pytest.fixture
def unreachable_ipv6_url(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a host whose name resolves to an unreachable address."""
    real_getaddrinfo = socket.getaddrinfo
    away = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 1, 0, 0))

    def look_up(host: Any, *more: Any, **named: Any) -> Any:
        return [away] if host == "v6.example.test" else real_getaddrinfo(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return "http://v6.example.test:8545"


@pytest.fixture
def expired_certificate_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a server whose certificate is valid except that it has expired."""
    pem = str(Path(__file__).with_name("expired.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the handshake fails, as it must
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("unresolvable_url", "no connection: unknown host name"),
        ("unreachable_ipv6_url", "no connection: connection refused"),
        ("expired_certificate_url", "TLS failed: certificate has expired"),
    ],
)
def test_case_56_connection_failure_causes_failover(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    request: pytest.FixtureRequest,
    address: str,
    words: str,
):
    url = request.getfixturevalue(address)
    assert get_unreachable_message(url) == words

    clock = VirtualClock()
    indexer = open_indexer(url, fake_chain.urls[0], clock=clock)

    assert follow_until_idle(indexer, clock) == 0
    assert indexer.canonical_logs() == fake_chain.logs()
