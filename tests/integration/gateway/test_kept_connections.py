"""A listener with keep-alive connections enforces the same limits as one without."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oracle.daemon.config.listener_section import ListenerSection
from oracle.daemon.web.acceptor import MAX_HEAD_BYTES
from oracle.daemon.web.http_server import serve_app
from oracle.telemetry.service_metrics import HTTP_REFUSED
from tests.integration.daemon.test_slow_clients import (
    PATIENCE_SECONDS,
    open_socket,
    read_refused_connections,
    read_until_closed,
)

LENGTH = 8


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serve_echo(
    *, body_bytes: int = LENGTH, max_answers: int = 64, **limits: float
) -> Iterator[str]:
    class LimitedListenerSection(ListenerSection):
        section_name = "gateway"

    LimitedListenerSection.body_bytes, LimitedListenerSection.max_answers = body_bytes, max_answers
    section = LimitedListenerSection.model_validate({"requests_per_second": 1000.0, **limits})
    with serve_app(echo, section, 0) as url:
        yield url


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(sock: socket.socket, length: int = LENGTH) -> bytes:
    """Return one response, whose body has this length."""
    received = b""
    while b"\r\n\r\n" not in received or len(received.partition(b"\r\n\r\n")[2]) < length:
        part = sock.recv(65_536)
        assert part, received
        received += part
    return received.partition(b"\r\n\r\n")[2]


def test_kept_connection_serves_sequential_requests():
    with serve_echo() as url, open_socket(url) as sock:
        for number in range(20):
            body = str(number).encode().rjust(LENGTH)
            sock.sendall(post(body))
            assert answer(sock) == body


def test_responses_are_sent_with_tcp_nodelay(monkeypatch: pytest.MonkeyPatch):
    nodelay_flags: list[int] = []
    before = HttpToolsProtocol.connection_made

    def noting(self: HttpToolsProtocol, transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        nodelay_flags.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        before(self, transport)

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", noting)
    with serve_echo() as url, open_socket(url, post(b"x" * LENGTH)) as sock:
        assert answer(sock) == b"x" * LENGTH
    assert nodelay_flags == [1]


def test_pipelined_requests_are_answered_in_order():
    with (
        serve_echo() as url,
        open_socket(url, b"".join(post(b"%8d" % n) for n in range(5))) as sock,
    ):
        received = b""
        while b"%8d" % 4 not in received:
            received += sock.recv(65_536)
    places = [received.index(b"%8d" % n) for n in range(5)]
    assert places == sorted(places)


def test_body_of_maximum_length_is_accepted():
    body = bytes(range(256)) * 4096
    with serve_echo(body_bytes=len(body)) as url, open_socket(url) as sock:
        for _ in range(2):
            sock.sendall(post(body))
            assert answer(sock, len(body)) == body


@pytest.mark.parametrize(
    "sent",
    [
        post(b"x" * (LENGTH + 1)),
        b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ],
)
def test_body_that_is_too_long_or_has_no_length_returns_413(sent: bytes):
    with serve_echo() as url, open_socket(url, sent) as sock:
        assert b" 413 " in read_until_closed(sock).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
    ],
)
def test_malformed_request_returns_400_and_closes_connection(sent: bytes):
    with serve_echo() as url, open_socket(url, sent) as sock:
        assert b" 400 " in read_until_closed(sock).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"CONNECT here:443 HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: here\r\n\r\n",
        post(b"0\r\n\r\n", "Transfer-Encoding: chunked"),
        b"GET / HTTP/1.1\r\nHost: here\r\nNo colon at all\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: here\r\n\r\n",
    ],
)
def test_malformed_request_closes_only_its_connection(sent: bytes):
    with serve_echo() as url:
        with open_socket(url, sent) as sock:
            assert b" 4" in read_until_closed(sock).split(b"\r\n")[0]
        with open_socket(url, post(b"x" * LENGTH)) as sock:
            assert answer(sock) == b"x" * LENGTH


def test_upgrade_request_is_answered_and_connection_closed():
    upgrade = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with serve_echo() as url, open_socket(url, upgrade) as sock:
        assert b" 200 " in read_until_closed(sock).split(b"\r\n")[0]


def test_upgrade_request_with_body_returns_400():
    upgrade = post(b"x" * LENGTH, "Connection: HTTP2-Settings, Upgrade", "Upgrade: h2c")
    with serve_echo() as url, open_socket(url, upgrade) as sock:
        assert b" 400 " in read_until_closed(sock).split(b"\r\n")[0]


@pytest.mark.parametrize("awaited", [1, 0])
def test_connection_with_unfinished_headers_is_closed(awaited: int):
    before = cut_off()
    patient = serve_echo(response_timeout_seconds=60.0, header_timeout_seconds=60.0)
    with patient as url, open_socket(url, post(b"x" * LENGTH)) as sock:
        assert [answer(sock) for _ in range(awaited)] == [b"x" * LENGTH] * awaited
        sock.sendall(b"POST / HTTP/1.1\r\nHost: here\r\n")
        assert sent_until_cut_off(sock)
    assert cut_off() == before + 1


def cut_off() -> float:
    return float(HTTP_REFUSED.labels("gateway", "large")._value.get())


def sent_until_cut_off(sock: socket.socket) -> bool:
    """Send a header that does not end; return False if the server accepted more than the limit."""
    try:
        for number in range(1024):
            sock.sendall(b"X-%d: " % number + b"x" * MAX_HEAD_BYTES)
    except ConnectionError:
        return True
    return False


def test_connection_with_slow_request_body_is_closed():
    before = read_refused_connections("deadline")
    with serve_echo(response_timeout_seconds=0.3) as url:
        half = post(b"x" * LENGTH)[:-1]
        with open_socket(url, half) as sock:
            assert read_until_closed(sock) == b""
        with open_socket(url, post(b"y" * LENGTH)) as sock:
            assert answer(sock) == b"y" * LENGTH
            # A second request on the connection is treated in the same way.
            sock.sendall(half)
            assert read_until_closed(sock) == b""
    assert read_refused_connections("deadline") >= before


@pytest.mark.slow
def test_idle_connection_is_closed_between_requests():
    with (
        serve_echo(header_timeout_seconds=1.0) as url,
        open_socket(url, post(b"x" * LENGTH)) as sock,
    ):
        assert answer(sock) == b"x" * LENGTH
        assert read_until_closed(sock) == b""


def test_longest_idle_connections_are_closed_at_the_limit():
    with serve_echo(
        max_connections=16, max_connections_per_address=4, header_timeout_seconds=60.0
    ) as url:
        socks = []
        for _ in range(8):
            socks.append(open_socket(url, post(b"x" * LENGTH)))
            answer(socks[-1])
        assert [read_until_closed(sock) for sock in socks[:4]] == [b""] * 4
        socks[-1].sendall(post(b"y" * LENGTH))
        assert answer(socks[-1]) == b"y" * LENGTH
        for sock in socks:
            sock.close()


def test_many_connections_serve_many_requests_concurrently():
    answered = []

    def ask(url: str) -> None:
        with open_socket(url) as sock:
            for _ in range(20):
                sock.sendall(post(b"x" * LENGTH))
                answered.append(answer(sock))

    with serve_echo(max_answers=1024) as url:
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert answered == [b"x" * LENGTH] * 320
