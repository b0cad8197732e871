"""Headers that arrive byte by byte, each in time: the client still gives up."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.quorum.peer_client import Peer
from oracle.quorum.wire_format import ReportMessage
from oracle.rpc.client import JsonRpcClient
from oracle.signing.key_locations import RemoteKey
from oracle.signing.remote import RemoteSigner
from oracle.signing.signer import Fees, TransactionRequest
from tests.integration.signers.test_mutual_tls import made
from tests.pools import caller_of

pytestmark = pytest.mark.slow

ADDRESS = Address("0x" + 40 * "1")
CALL = TransactionRequest(31337, 7, ADDRESS, "0x", 21_000, Fees(9, 2))
SECONDS = 0.3
# Hundreds of times as long: the limit of a hanging request, not of a slow one.
PATIENCE = 120.0
ASKS: dict[str, Callable[[str], object]] = {
    "a signer": lambda url: RemoteSigner(
        RemoteKey(url, ADDRESS, timeout_seconds=SECONDS)
    ).sign_transaction(CALL),
    "an endpoint that is sent to": lambda url: caller_of(url, SECONDS).request("eth_chainId"),
    "an endpoint that is read": lambda url: JsonRpcClient(url, timeout_seconds=SECONDS).call(
        "eth_chainId", [], str
    ),
}


@contextmanager
def serve_endless_header(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server that sends an endless header to every client."""
    is_over = threading.Event()

    def drip(caller: socket.socket) -> None:
        with suppress(OSError), behind(caller) as connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not is_over.wait(SECONDS / 10):
                connection.sendall(b"x")

    def behind(caller: socket.socket) -> socket.socket:
        return caller if tls is None else tls.wrap_socket(caller, server_side=True)

    def let_in() -> None:
        with suppress(OSError):
            while True:
                caller, _ = listening.accept()
                threading.Thread(target=drip, args=(caller,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=let_in, daemon=True).start()
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
        is_over.set()


def get_request_error(ask: Callable[[], object]) -> type[BaseException] | None:
    """Return the error of a request; None: it does not end."""
    ends: list[type[BaseException]] = []

    def make_request() -> None:
        try:
            ask()
        except BaseException as error:  # noqa: BLE001  whatever it is, it is compared
            ends.append(type(error))

    thread = threading.Thread(target=make_request, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return ends[0] if ends else None


@pytest.mark.parametrize("service", ASKS)
def test_request_is_aborted_when_response_headers_never_end(service: str):
    with serve_endless_header() as url:
        ended = get_request_error(lambda: ASKS[service](url))
    assert ended is not None
    assert issubclass(ended, TransientError)


def test_peer_with_endless_response_headers_returns_no_statements():
    with serve_endless_header() as url:
        peer = Peer(url, SECONDS)
        fetched_statements = list[list[ReportMessage]]()
        assert (
            get_request_error(lambda: fetched_statements.append(peer.fetch_statements(7))) is None
        )
        peer.close()
    assert fetched_statements == [[]]


def test_request_over_tls_is_aborted_when_response_headers_never_end(tmp_path: Path):
    own = made(tmp_path, "host")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    with serve_endless_header(tls) as url:
        place = RemoteKey(url, ADDRESS, timeout_seconds=SECONDS, ca_file=own.certificate)
        signer = RemoteSigner(place)
        ended = get_request_error(lambda: signer.sign_transaction(CALL))
    assert ended is not None
    assert issubclass(ended, TransientError)
