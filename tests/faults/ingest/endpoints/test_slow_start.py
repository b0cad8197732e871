"""An endpoint that sends its responses byte by byte delays neither the start nor the windows."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

import pytest

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.start_check import check_endpoints
from oracle.errors import TransientError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.pool import EndpointPool
from oracle.rpc.responses import Quantity
from oracle.rpc.rpc_errors import RpcTimeoutError
from tests.support.chain.network_logs import ORACLE
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, CONTRACTS

_DRIP_SECONDS = 0.05
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"


class Dripping:
    """Responds to each of its `request_count` requests with an endless series of blanks."""

    def __init__(self) -> None:
        self.request_count = 0
        self.is_over = Event()
        self._lock = Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.is_over.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._drip, args=(client,), daemon=True).start()

    def _drip(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if not client.recv(65_536):
                return
            with self._lock:
                self.request_count += 1
            client.sendall(_HEAD)
            while not self.is_over.wait(_DRIP_SECONDS):
                client.sendall(b" ")


@contextmanager
def _run_dripping_server() -> Iterator[Dripping]:
    server = Dripping()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def dripping_server() -> Iterator[Dripping]:
    with _run_dripping_server() as server:
        yield server


@pytest.mark.parametrize("place", [0, 1, 2])
def test_dripping_endpoint_does_not_delay_startup(
    fake_chain: FakeChain, dripping_server: Dripping, place: int
):
    urls = list(fake_chain.urls)
    urls.insert(place, dripping_server.url)
    pool = EndpointPool.from_urls(urls, CHAIN_ID)
    reader = EventReader.from_profile("reference", CONTRACTS, ORACLE)

    check_endpoints(pool, reader, grace_seconds=0.2)
    workers = {pool.run_with_endpoint(lambda endpoint: endpoint.name) for _ in range(3)}

    # Its only response is still pending, and no step has waited for it.
    assert (dripping_server.request_count, dripping_server.is_over.is_set()) == (1, False)
    assert workers == {fake_chain.urls[0]}
    pool.close()


def test_startup_times_out_if_all_endpoints_drip(
    dripping_server: Dripping,
):
    pool = EndpointPool.from_urls([dripping_server.url], CHAIN_ID, timeout_seconds=0.3)
    reader = EventReader.from_profile("reference", CONTRACTS, ORACLE)

    with pytest.raises(TransientError, match=r"no endpoint answers.*no response in time"):
        check_endpoints(pool, reader)
    pool.close()


def test_dripping_response_body_times_out(dripping_server: Dripping):
    client = JsonRpcClient(dripping_server.url, timeout_seconds=0.3)

    with pytest.raises(RpcTimeoutError):
        client.call("eth_chainId", [], Quantity)
