"""Serves a fake endpoint over HTTP/1.1 with keep-alive, in one thread per connection.

This small server is used because the server of the standard library takes ten times as long per
request.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from threading import Lock, Thread
from typing import BinaryIO

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.requests import HttpResponse

_HOST = "127.0.0.1"
_MAX_LINE_BYTES = 65_536
_CLOSE_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServedEndpoint:
    """A fake endpoint while it is served, with its URL."""

    url: str
    provider: FakeEndpoint


@contextmanager
def serve_endpoint(provider: FakeEndpoint, *, port: int = 0) -> Iterator[ServedEndpoint]:
    """Serve an endpoint on a local port within the context.

    By default any free port is used.
    """
    server = _Server(provider, port)
    try:
        yield ServedEndpoint(f"http://{_HOST}:{server.port}", provider)
    finally:
        server.stop()


@contextmanager
def serve_endpoints(*providers: FakeEndpoint) -> Iterator[list[str]]:
    """Serve several endpoints, and yield their URLs in the same order."""
    with ExitStack() as stack:
        yield [stack.enter_context(serve_endpoint(provider)).url for provider in providers]


class _Server:
    def __init__(self, provider: FakeEndpoint, port: int) -> None:
        self._provider = provider
        self._lock = Lock()
        self._thread_by_connection: dict[socket.socket, Thread] = {}
        self._is_stopping = False
        self._listener = socket.create_server((_HOST, port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._accept_thread = Thread(
            target=self._accept_connections, daemon=True, name="fakechain"
        )
        self._accept_thread.start()

    def stop(self) -> None:
        """Close every connection, and wait for the threads to end."""
        self._is_stopping = True
        # The thread waits in `accept`. A new connection wakes it.
        with suppress(OSError):
            socket.create_connection((_HOST, self.port), timeout=_CLOSE_TIMEOUT_SECONDS).close()
        self._accept_thread.join()
        self._listener.close()
        with self._lock:
            open_connections = dict(self._thread_by_connection)
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in open_connections.values():
            thread.join(_CLOSE_TIMEOUT_SECONDS)

    def _accept_connections(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._is_stopping:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = Thread(
                target=self._handle_connection, args=(connection,), daemon=True, name="fakechain"
            )
            with self._lock:
                self._thread_by_connection[connection] = thread
            thread.start()

    def _handle_connection(self, connection: socket.socket) -> None:
        # A client may disconnect before it has received the response.
        with suppress(OSError), connection, connection.makefile("rb") as request_stream:
            while (body := _read_request_body(request_stream)) is not None:
                response = self._provider.handle_post(body) if body else HttpResponse(405)
                connection.sendall(_encode_response(response))
                if response.content_length is not None or response.is_reset:
                    if response.is_reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                    break
        with self._lock:
            self._thread_by_connection.pop(connection, None)


# With a linger time of zero, closing the connection makes the kernel send RST.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def _read_request_body(request_stream: BinaryIO) -> bytes | None:
    """Read and return the body of one request.

    Return None at the end of the connection, and empty bytes if the request is not a POST.
    """
    request_line = request_stream.readline(_MAX_LINE_BYTES)
    if not request_line:
        return None
    content_length = 0
    while (header_line := request_stream.readline(_MAX_LINE_BYTES)) not in {b"\r\n", b"\n", b""}:
        name, _, value = header_line.partition(b":")
        if name.strip().lower() == b"content-length":
            content_length = int(value)
    body = request_stream.read(content_length)
    if len(body) < content_length:
        return None
    return body if request_line.startswith(b"POST ") else b""


def _encode_response(response: HttpResponse) -> bytes:
    content_length = (
        len(response.body) if response.content_length is None else response.content_length
    )
    headers: Mapping[str, object] = {
        # A real endpoint sends this field, too. The daemon compares the time with its own clock.
        "Date": formatdate(usegmt=True),
        "Content-Type": "application/json",
        "Content-Length": content_length,
        **response.headers,
    }
    header_text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {response.status} -\r\n{header_text}\r\n".encode("latin-1") + response.body
