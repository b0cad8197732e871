"""Serves `eth_subscribe` over WebSocket, with faults on demand.

The heads are those of a provider (`Provider.head`); all other requests are answered as over HTTP.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from devnet.fakechain.answering import Answering
from devnet.fakechain.requests import FakeRpcError

_HOST = "127.0.0.1"
_GOING_AWAY = 1001

Send = Callable[[dict[str, Any]], None]


@dataclass
class Pushing:
    """A WebSocket server and its faults, which may be changed at any time.

    `is_silent`: the connection stays open, but no heads are sent. `is_double`: each head is sent
    twice. `is_backwards`: of two heads, the second is sent first. `remaining_heads`: the server
    closes its connections after so many heads.
    """

    url: str
    is_silent: bool = False
    is_double: bool = False
    is_backwards: bool = False
    heads_left: int | None = None
    # Total number of subscriptions.
    subscribed: int = 0
    _held: list[dict[str, Any]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _server: Server | None = None

    def close_all(self) -> None:
        """Close every connection, as a restarting server does."""
        if self._server is not None:
            for connection in self._server.connections:
                connection.close(_GOING_AWAY)

    def tell(self, header: dict[str, Any], send: Send) -> None:
        """Send one new head, with the faults that are switched on."""
        if self.is_silent:
            return
        with self._lock:
            heads = self._turn_of(header)
            for one in heads * (2 if self.is_double else 1):
                send(one)
            if self.heads_left is None:
                return
            self.heads_left -= len(heads)
            is_over = self.heads_left <= 0
        if is_over:
            self.heads_left = None
            self.close_all()

    def _turn_of(self, header: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.is_backwards:
            return [header]
        self._held.append(header)
        if len(self._held) == 1:
            return []
        heads = self._held[::-1]
        self._held.clear()
        return heads


@contextmanager
def pushing(provider: Answering, *, port: int = 0) -> Iterator[Pushing]:
    """Serve the WebSocket on a local port, by default any free one, within the context."""
    made = Pushing("")
    numbers = itertools.count(1)

    def talk(connection: ServerConnection) -> None:
        _Line(provider, made, connection, numbers).talk()

    with serve(talk, _HOST, port, compression=None, close_timeout=1) as server:
        made.url = f"ws://{_HOST}:{server.socket.getsockname()[1]}"
        made._server = server  # noqa: SLF001 - it is made here
        thread = Thread(target=server.serve_forever, daemon=True, name="fakechain-push")
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


class _Line:
    """One connection and its subscriptions."""

    def __init__(
        self,
        provider: Answering,
        made: Pushing,
        connection: ServerConnection,
        numbers: Iterator[int],
    ) -> None:
        self._provider = provider
        self._made = made
        self._connection = connection
        self._numbers = numbers
        self._ends: dict[str, Callable[[], None]] = {}

    def talk(self) -> None:
        try:
            for said in self._connection:
                self._send(self._answer(said if isinstance(said, bytes) else said.encode()))
        except ConnectionClosed:
            # Clients may disconnect without closing the connection in order.
            pass
        finally:
            for end in self._ends.values():
                end()

    def _answer(self, said: bytes) -> bytes:
        asked = msgspec.json.decode(said)
        method = asked.get("method") if isinstance(asked, dict) else None
        if method == "eth_subscribe":
            return self._subscribe(asked)
        if method == "eth_unsubscribe":
            end = self._ends.pop(asked["params"][0], None)
            if end is not None:
                end()
            return _reply(asked, result=end is not None)
        return self._provider.post(said).body

    def _subscribe(self, asked: dict[str, Any]) -> bytes:
        if asked.get("params") != ["newHeads"]:
            return _reply(asked, error=FakeRpcError(-32602, "no such subscription").written())
        name = hex(next(self._numbers))

        def send(header: dict[str, Any]) -> None:
            told = {"subscription": name, "result": header}
            message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": told}
            with suppress(ConnectionClosed):
                self._send(msgspec.json.encode(message))

        try:
            self._ends[name] = self._provider.subscribe(
                lambda header: self._made.tell(header, send)
            )
        except FakeRpcError as error:
            return _reply(asked, error=error.written())
        self._made.subscribed += 1
        return _reply(asked, result=name)

    def _send(self, message: bytes) -> None:
        self._connection.send(message.decode())


def _reply(asked: dict[str, Any], **outcome: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.get("id"), **outcome})
