"""Strangers who hold connections open, send slowly or take slowly: the listener goes on."""

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
WHOLE = KEPT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
LARGE_BYTES = 64 * 2**20


@contextmanager
def door(**limits: float) -> Iterator[str]:
    web = FastAPI()
    web.get("/livez")(lambda: "alive")
    web.get("/large")(lambda: Response(bytes(LARGE_BYTES)))
    section = WebSection.model_validate({"requests_per_second": 1000.0, **limits})
    with serve_app(web, section, 0) as url:
        yield url


def connected(url: str, sent: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(PATIENCE_SECONDS)
    sock.connect((host, int(port)))
    sock.sendall(sent)
    return sock


def all_of(sock: socket.socket) -> bytes:
    """What comes until the other side hangs up."""
    parts = []
    try:
        while part := sock.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        # Rejected before its whole request was read.
        pass
    return b"".join(parts)


def refused(reason: RefusalReason) -> float:
    return float(HTTP_REFUSED.labels("web", reason)._value.get())


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_complete_request_is_answered_among_incomplete_requests():
    before = refused("address")
    with door(max_connections=64, max_connections_per_address=16) as url, ExitStack() as held:
        crowd = [held.enter_context(connected(url, BEGINNING)) for _ in range(200)]
        for _ in range(5):
            assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"
        # The oldest connections were closed without a response.
        assert [all_of(connection) for connection in crowd[:100]] == 100 * [b""]
        assert refused("address") >= before + 100


def test_slow_headers_are_cut_off():
    before = refused("slow")
    with door(header_timeout_seconds=0.3) as url, connected(url, BEGINNING) as slow:
        assert all_of(slow) == b""
    assert refused("slow") == before + 1


def test_request_sent_byte_by_byte_is_answered():
    with door() as url, connected(url) as sock:
        for byte in WHOLE:
            sock.sendall(bytes([byte]))
        assert all_of(sock).startswith(b"HTTP/1.1 200")


def test_endless_headers_are_cut_off():
    before = refused("large")
    with door() as url, connected(url, BEGINNING + MAX_HEAD_BYTES * b"x") as sock:
        assert all_of(sock) == b""
    assert refused("large") == before + 1


def test_requests_on_one_connection_are_answered_in_order():
    with door() as url, connected(url, KEPT + KEPT.replace(b"livez", b"none") + WHOLE) as sock:
        answers = all_of(sock)
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answers)
    assert statuses == [b"200", b"404", b"200"]


def test_idle_connection_is_closed_after_header_timeout():
    with door(header_timeout_seconds=1) as url, connected(url, KEPT) as sock:
        assert all_of(sock).startswith(b"HTTP/1.1 200")


def test_idle_connections_are_closed_to_serve_new_request():
    with door(max_connections=64, max_connections_per_address=16) as url, ExitStack() as held:
        for _ in range(200):
            idle = held.enter_context(connected(url, KEPT))
            assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
        assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"


def test_head_request_returns_headers_of_get_without_body():
    with door() as url, requests.Session() as session:
        for path in ("livez", "large", "none"):
            head = session.head(f"{url}/{path}", timeout=PATIENCE_SECONDS)
            response = session.get(f"{url}/{path}", timeout=PATIENCE_SECONDS)
            assert head.content == b""
            assert head.status_code == response.status_code
            assert head.headers["content-length"] == response.headers["content-length"]
            assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("kept", [True, False], ids=["keep-alive", "close"])
def test_client_that_does_not_read_its_response_is_cut_off(*, kept: bool):
    before = refused("deadline")
    request = (KEPT if kept else WHOLE).replace(b"livez", b"large")
    with (
        door(response_timeout_seconds=0.5) as url,
        connected(url, request, receive_buffer=4096) as sock,
    ):
        until(lambda: refused("deadline") == before + 1)
        assert len(all_of(sock)) < LARGE_BYTES


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n"])
def test_malformed_request_is_rejected_without_log_record(
    sent: bytes, caplog: pytest.LogCaptureFixture
):
    with door() as url, connected(url, sent) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert b" 200 " not in all_of(sock)
        assert requests.get(f"{url}/livez", timeout=PATIENCE_SECONDS).json() == "alive"
    assert caplog.records == []
