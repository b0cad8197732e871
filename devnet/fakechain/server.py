"""Serves a fake endpoint over HTTP/1.1: keep-alive, one thread per connection.

This small server is used because the standard library's takes ten times as long per request.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import BinaryIO

from devnet.fakechain.answering import Answering
from devnet.fakechain.requests import Http

_HOST = "127.0.0.1"
_LONGEST_LINE = 65_536
_LEAVING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Served:
    """An endpoint with its URL."""

    url: str
    provider: Answering


@contextmanager
def serving(provider: Answering, *, port: int = 0) -> Iterator[Served]:
    """Serve an endpoint on a local port, by default any free one, within the context."""
    server = _Server(provider, port)
    try:
        yield Served(f"http://{_HOST}:{server.port}", provider)
    finally:
        server.stop()


@contextmanager
def serving_all(*providers: Answering) -> Iterator[list[str]]:
    """Serve several endpoints and yield their URLs, in order."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving(provider)).url for provider in providers]


class _Server:
    def __init__(self, provider: Answering, port: int) -> None:
        self._provider = provider
        self._lock = Lock()
        self._open: dict[socket.socket, Thread] = {}
        self._is_stopping = False
        self._door = socket.create_server((_HOST, port), backlog=128)
        self.port: int = self._door.getsockname()[1]
        self._accepting = Thread(target=self._accept, daemon=True, name="fakechain")
        self._accepting.start()

    def stop(self) -> None:
        """Close every connection and join the threads."""
        self._is_stopping = True
        # The thread blocks in `accept`; a connection wakes it.
        with suppress(OSError):
            socket.create_connection((_HOST, self.port), timeout=_LEAVING_SECONDS).close()
        self._accepting.join()
        self._door.close()
        with self._lock:
            still = dict(self._open)
        for caller in still:
            with suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)
        for thread in still.values():
            thread.join(_LEAVING_SECONDS)

    def _accept(self) -> None:
        while True:
            caller, _ = self._door.accept()
            if self._is_stopping:
                caller.close()
                return
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = Thread(target=self._talk, args=(caller,), daemon=True, name="fakechain")
            with self._lock:
                self._open[caller] = thread
            thread.start()

    def _talk(self, caller: socket.socket) -> None:
        # A client that disconnects in the middle is no error.
        with suppress(OSError), caller, caller.makefile("rb") as said:
            while (body := _request(said)) is not None:
                answer = self._provider.post(body) if body else Http(405)
                caller.sendall(_written(answer))
                if answer.promised is not None or answer.is_reset:
                    if answer.is_reset:
                        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HARD)
                    break
        with self._lock:
            self._open.pop(caller, None)


# A linger time of zero makes the kernel send RST.
_HARD = struct.pack("ii", 1, 0)


def _request(said: BinaryIO) -> bytes | None:
    """Read one request body.

    Return None at the end of a connection, and empty bytes for anything but a POST.
    """
    line = said.readline(_LONGEST_LINE)
    if not line:
        return None
    size = 0
    while (header := said.readline(_LONGEST_LINE)) not in {b"\r\n", b"\n", b""}:
        name, _, value = header.partition(b":")
        if name.strip().lower() == b"content-length":
            size = int(value)
    body = said.read(size)
    if len(body) < size:
        return None
    return body if line.startswith(b"POST ") else b""


def _written(answer: Http) -> bytes:
    size = len(answer.body) if answer.promised is None else answer.promised
    headers: Mapping[str, object] = {
        "Content-Type": "application/json",
        "Content-Length": size,
        **answer.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} -\r\n{head}\r\n".encode("latin-1") + answer.body
