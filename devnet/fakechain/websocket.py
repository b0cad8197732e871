"""Serves `eth_subscribe` over WebSocket, with faults on demand.

The notifications are about new heads of a provider (`Provider.head`). All other requests are
answered as over HTTP.
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

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.requests import FakeRpcError

_HOST = "127.0.0.1"
_GOING_AWAY = 1001

Send = Callable[[dict[str, Any]], None]


@dataclass
class PushServer:
    """A WebSocket server with faults that may be changed at any time.

    While `is_silent` is set, the connection stays open, but no heads are sent. If `sends_twice` is
    set, each head is sent twice. If `reverses_pairs` is set, the second of two heads is sent
    first. After `remaining_heads` heads, the server closes its connections.
    """

    url: str
    is_silent: bool = False
    sends_twice: bool = False
    reverses_pairs: bool = False
    remaining_heads: int | None = None
    # Number of subscriptions since the start.
    subscription_count: int = 0
    _held_headers: list[dict[str, Any]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _server: Server | None = None

    def close_connections(self) -> None:
        """Close every connection, as a restarting server does."""
        if self._server is not None:
            for connection in self._server.connections:
                connection.close(_GOING_AWAY)

    def push_header(self, header: dict[str, Any], send: Send) -> None:
        """Send a new head, subject to the current faults."""
        if self.is_silent:
            return
        with self._lock:
            headers_to_push = self._reorder_header(header)
            for head in headers_to_push * (2 if self.sends_twice else 1):
                send(head)
            if self.remaining_heads is None:
                return
            self.remaining_heads -= len(headers_to_push)
            is_exhausted = self.remaining_heads <= 0
        if is_exhausted:
            self.remaining_heads = None
            self.close_connections()

    def _reorder_header(self, header: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.reverses_pairs:
            return [header]
        self._held_headers.append(header)
        if len(self._held_headers) == 1:
            return []
        held_headers = self._held_headers[::-1]
        self._held_headers.clear()
        return held_headers


@contextmanager
def serve_websocket(provider: FakeEndpoint, *, port: int = 0) -> Iterator[PushServer]:
    """Serve WebSocket on a local port within the context.

    By default any free port is used.
    """
    push_server = PushServer("")
    subscription_ids = itertools.count(1)

    def handle_connection(connection: ServerConnection) -> None:
        _WebSocketConnection(provider, push_server, connection, subscription_ids).handle_requests()

    with serve(handle_connection, _HOST, port, compression=None, close_timeout=1) as server:
        push_server.url = f"ws://{_HOST}:{server.socket.getsockname()[1]}"
        push_server._server = server  # noqa: SLF001 - it is made here
        thread = Thread(target=server.serve_forever, daemon=True, name="fakechain-push")
        thread.start()
        try:
            yield push_server
        finally:
            server.shutdown()
            thread.join()


class _WebSocketConnection:
    """A connection and its subscriptions."""

    def __init__(
        self,
        provider: FakeEndpoint,
        push_server: PushServer,
        connection: ServerConnection,
        subscription_ids: Iterator[int],
    ) -> None:
        self._provider = provider
        self._push_server = push_server
        self._connection = connection
        self._subscription_ids = subscription_ids
        self._unsubscribe_by_id: dict[str, Callable[[], None]] = {}

    def handle_requests(self) -> None:
        try:
            for message in self._connection:
                self._send(
                    self._handle_request(
                        message if isinstance(message, bytes) else message.encode()
                    )
                )
        except ConnectionClosed:
            # A client may disconnect without a proper close.
            pass
        finally:
            for unsubscribe in self._unsubscribe_by_id.values():
                unsubscribe()

    def _handle_request(self, message: bytes) -> bytes:
        request = msgspec.json.decode(message)
        method = request.get("method") if isinstance(request, dict) else None
        if method == "eth_subscribe":
            return self._subscribe(request)
        if method == "eth_unsubscribe":
            unsubscribe = self._unsubscribe_by_id.pop(request["params"][0], None)
            if unsubscribe is not None:
                unsubscribe()
            return _encode_reply(request, result=unsubscribe is not None)
        return self._provider.handle_post(message).body

    def _subscribe(self, request: dict[str, Any]) -> bytes:
        if request.get("params") != ["newHeads"]:
            return _encode_reply(
                request, error=FakeRpcError(-32602, "no such subscription").to_json()
            )
        subscription_id = hex(next(self._subscription_ids))

        def send(header: dict[str, Any]) -> None:
            notification = {"subscription": subscription_id, "result": header}
            message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": notification}
            with suppress(ConnectionClosed):
                self._send(msgspec.json.encode(message))

        try:
            self._unsubscribe_by_id[subscription_id] = self._provider.subscribe_new_heads(
                lambda header: self._push_server.push_header(header, send)
            )
        except FakeRpcError as error:
            return _encode_reply(request, error=error.to_json())
        self._push_server.subscription_count += 1
        return _encode_reply(request, result=subscription_id)

    def _send(self, message: bytes) -> None:
        self._connection.send(message.decode())


def _encode_reply(request: dict[str, Any], **outcome: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request.get("id"), **outcome})
