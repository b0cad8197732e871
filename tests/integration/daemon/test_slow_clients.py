"""The listener keeps serving while clients hold connections open, send slowly or read slowly."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import requests
from fastapi import FastAPI
from fastapi.responses import Response

from oracle.daemon.config.listener_section import WebSection
from oracle.daemon.web.acceptor import MAX_HEAD_BYTES
from oracle.daemon.web.http_server import serve_app
from oracle.telemetry.service_metrics import HTTP_REFUSED, RefusalReason
from tests.support.slow_clients import BEGINNING

# Only a client that never gets a response waits this long.
PATIENCE_SECONDS = 60
KEPT = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
CLOSING_REQUEST = KEPT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
LARGE_BYTES = 64 * 2**20


@contextmanager
def serve_limited_app(**limits: float) -> Iterator[str]:
    web = FastAPI()
    web.get("/livez")(lambda: "alive")
    web.get("/large")(lambda: Response(bytes(LARGE_BYTES)))
    section = WebSection.model_validate({"requests_per_second": 1000.0, **limits})
    with serve_app(web, section, 0) as url:
        yield url


def open_socket(url: str, sent: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(PATIENCE_SECONDS)
    sock.connect((host, int(port)))
    sock.sendall(sent)
    return sock


def read_until_closed(sock: socket.socket) -> bytes:
    """Return all bytes until the other side closes the connection."""
    parts = []
    try:
        while part := sock.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        # Rejected before its whole request was read.
        pass
    return b"".join(parts)


def read_refused_connections(reason: RefusalReason) -> float:
    return float(HTTP_REFUSED.labels("web", reason)._value.get())


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_complete_request_is_served_despite_incomplete_ones():
    before = read_refused_connections("address")
    with (
        serve_limited_app(max_connections=64, max_connections_per_address=16) as url,
        ExitStack() as held,
    ):
        crowd = [held.enter_context(open_socket(url, BEGINNING)) for _ in range(200)]
        for _ in range(5):
            assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"
        # The oldest connections were closed without a response.
        assert [read_until_closed(connection) for connection in crowd[:100]] == 100 * [b""]
        assert read_refused_connections("address") >= before + 100


def test_connection_with_slow_headers_is_closed():
    before = read_refused_connections("slow")
    with serve_limited_app(header_timeout_seconds=0.3) as url, open_socket(url, BEGINNING) as slow:
        assert read_until_closed(slow) == b""
    assert read_refused_connections("slow") == before + 1


def test_request_sent_byte_by_byte_is_served():
    with serve_limited_app() as url, open_socket(url) as sock:
        for byte in CLOSING_REQUEST:
            sock.sendall(bytes([byte]))
        assert read_until_closed(sock).startswith(b"HTTP/1.1 200")


def test_connection_with_endless_headers_is_closed():
    before = read_refused_connections("large")
    with serve_limited_app() as url, open_socket(url, BEGINNING + MAX_HEAD_BYTES * b"x") as sock:
        assert read_until_closed(sock) == b""
    assert read_refused_connections("large") == before + 1


def test_requests_on_one_connection_are_answered_in_order():
    with (
        serve_limited_app() as url,
        open_socket(url, KEPT + KEPT.replace(b"livez", b"none") + CLOSING_REQUEST) as sock,
    ):
        answers = read_until_closed(sock)
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answers)
    assert statuses == [b"200", b"404", b"200"]


def test_idle_connection_is_closed_after_header_timeout():
    with serve_limited_app(header_timeout_seconds=1) as url, open_socket(url, KEPT) as sock:
        assert read_until_closed(sock).startswith(b"HTTP/1.1 200")


def test_idle_connection_is_closed_to_serve_a_new_request():
    with (
        serve_limited_app(max_connections=64, max_connections_per_address=16) as url,
        ExitStack() as held,
    ):
        for _ in range(200):
            idle = held.enter_context(open_socket(url, KEPT))
            assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
        assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"


def test_head_request_returns_the_headers_of_get_without_a_body():
    with serve_limited_app() as url, requests.Session() as session:
        for path in ("livez", "large", "none"):
            head = session.head(f"{url}/{path}", timeout=PATIENCE_SECONDS)
            response = session.get(f"{url}/{path}", timeout=PATIENCE_SECONDS)
            assert head.content == b""
            assert head.status_code == response.status_code
            assert head.headers["content-length"] == response.headers["content-length"]
            assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("kept", [True, False], ids=["keep-alive", "close"])
def test_connection_of_non_reading_client_is_closed(*, kept: bool):
    before = read_refused_connections("deadline")
    request = (KEPT if kept else CLOSING_REQUEST).replace(b"livez", b"large")
    with (
        serve_limited_app(response_timeout_seconds=0.5) as url,
        open_socket(url, request, receive_buffer=4096) as sock,
    ):
        wait_until(lambda: read_refused_connections("deadline") == before + 1)
        assert len(read_until_closed(sock)) < LARGE_BYTES


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n"])
def test_malformed_request_is_rejected_but_not_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
):
    with serve_limited_app() as url, open_socket(url, sent) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert b" 200 " not in read_until_closed(sock)
        assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"
    assert caplog.records == []
