"""Responses that never end, or hold far more than they should: the client still gives up."""

import gzip
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from oracle.rpc import transport
from oracle.rpc.rpc_errors import RpcTimeoutError
from oracle.rpc.transport import BoundedHttp

TIMEOUT_SECONDS, TOTAL_SECONDS = 5.0, 60.0
DRIP_INTERVAL_SECONDS, MAX_PAUSE_SECONDS = 0.03, 0.5
# The server stops here, so that a client without a deadline fails the test instead of blocking it.
DRIP_SECONDS = 15.0
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP = OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
# The header of a gzip file whose name follows, up to a zero byte.
GZIP_NAME = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03"
# What arrives at once, and what is then repeated.
DRIPS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers after an interim response": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ", b"O"),
    "size of a chunk": (CHUNKED + b"1;", b"x"),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
    "name in a gzip header": (GZIP + GZIP_NAME, b"a"),
    "empty gzip members": (GZIP, gzip.compress(b"")),
    "body": (OK + b"Content-Length: 1000000\r\n\r\n{", b" "),
    "body of a redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nConnection: close\r\n\r\n",
        b"a",
    ),
}
MAX_BYTES = 1_000_000


@contextmanager
def serve(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Run a server that passes each request and its connection to `answer`."""

    def handle(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            request = b""
            while data := connection.recv(65_536):
                request += data
                if request.endswith(b"{}"):
                    answer(connection, request)
                    request = b""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("part", DRIPS)
def test_dripping_response_times_out_before_a_silent_one(
    part: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transport, "_MAX_PAUSE_SECONDS", MAX_PAUSE_SECONDS)
    beginning, repeated = DRIPS[part]
    is_over = threading.Event()

    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(beginning)
        stops_at = time.monotonic() + DRIP_SECONDS
        while time.monotonic() < stops_at and not is_over.wait(DRIP_INTERVAL_SECONDS):
            connection.sendall(repeated)
        connection.close()

    with serve(drip) as url:
        http = BoundedHttp(url, name="endpoint", max_bytes=MAX_BYTES)
        started_at = time.monotonic()
        with pytest.raises(RpcTimeoutError):
            http.post(b"{}", TIMEOUT_SECONDS, TOTAL_SECONDS)
        elapsed_seconds = time.monotonic() - started_at
        is_over.set()
    assert elapsed_seconds < TIMEOUT_SECONDS


def test_large_response_is_read_even_if_its_body_is_slow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "_MAX_PAUSE_SECONDS", MAX_PAUSE_SECONDS)
    piece, piece_count = bytes(8_192), 12

    def send_slowly(connection: socket.socket, _: bytes) -> None:
        connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % (len(piece) * piece_count))
        for pause in [TIMEOUT_SECONDS / 2, *[0.2] * (piece_count - 1)]:
            threading.Event().wait(pause)
            connection.sendall(piece)

    with serve(send_slowly) as url:
        http = BoundedHttp(url, name="endpoint", max_bytes=MAX_BYTES)
        response = http.post(b"{}", TIMEOUT_SECONDS, TOTAL_SECONDS)
    assert len(response.body) == len(piece) * piece_count


def test_redirect_with_large_body_is_read_only_up_to_limit():
    large_body = gzip.compress(bytes(100 * MAX_BYTES))
    headers = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Encoding: gzip\r\n"

    def redirect(connection: socket.socket, _: bytes) -> None:
        connection.sendall(headers + b"Content-Length: %d\r\n\r\n" % len(large_body) + large_body)

    with serve(redirect) as url:
        http = BoundedHttp(url, name="endpoint", max_bytes=MAX_BYTES)
        tracemalloc.start()
        try:
            response = http.post(b"{}", 60, 60)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (response.status, response.is_truncated) == (302, True)
    assert peak_bytes < 10 * MAX_BYTES


def test_cookies_of_response_are_not_sent_back():
    requests: list[bytes] = []

    def set_cookie(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(OK + b"Set-Cookie: name=value\r\nContent-Length: 2\r\n\r\n{}")

    with serve(set_cookie) as url:
        http = BoundedHttp(url, name="endpoint", max_bytes=MAX_BYTES)
        for _ in range(2):
            http.post(b"{}", 60, 60)
    assert not [request for request in requests if b"cookie" in request.lower()]
