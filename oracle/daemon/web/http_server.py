"""Serves an application on a listener with uvicorn, in a thread, behind this package's acceptor.

A connection stays open between requests (HTTP keep-alive) until the client closes it, until it has
been idle for `header_timeout_seconds`, or until another connection needs its place. Clients that
send a request slowly wait in the acceptor, and clients that read slowly are disconnected. HEAD is
handled as GET without the body.
"""

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import IPPROTO_TCP, TCP_NODELAY, socket
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oracle.daemon.config.listener_section import ListenerSection
from oracle.daemon.web.acceptor import MAX_HEAD_BYTES, Acceptor, ConnectionTable, PendingConnection
from oracle.daemon.web.listener import (
    build_tls_context,
    get_max_concurrent_requests,
    get_max_pending_connections,
    open_listening_socket,
)
from oracle.daemon.web.rate_limit import ClientBuckets, Refusals, get_client_network
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two

_TOO_MANY, _TOO_LARGE, _NO_UPGRADE = 429, 413, 400
# This header closes the connection after a refused request.
_CLOSE = {"connection": "close"}
# The maximum number of digits of `content-length`.
_MAX_LENGTH_DIGITS = 12
# A burst may contain as many requests as are permitted in this many seconds.
_BURST_SECONDS = 5
# These paths are not rate-limited, so that monitoring always gets a liveness response.
_UNLIMITED_PATHS = frozenset({"/livez"})


class RequestLimits:
    """ASGI middleware that limits the rate and the size of requests."""

    def __init__(
        self,
        app: ASGIApp,
        section: ListenerSection,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._refusals = refusals
        self._body_bytes = section.body_bytes
        per_second = section.requests_per_second
        burst = max(1, round(_BURST_SECONDS * per_second))
        self._buckets = ClientBuckets(per_second, burst, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request with status 400, 413 or 429, or else call the application."""
        refusal = self._build_refusal_response(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _build_refusal_response(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if "upgrade" in headers and headers.get("content-length", "0") != "0":
            # The parser would treat the body as data of another protocol and pass only the head of
            # the request to the application.
            message = "upgrade not supported; use plain HTTP/1.1"
            return JSONResponse({"error": message}, _NO_UPGRADE, _CLOSE)
        if not self._is_body_allowed(headers):
            max_bytes = self._body_bytes
            message = (
                f"request body: expected a content-length of at most {max_bytes} bytes"
                if max_bytes
                else "request bodies are not accepted"
            )
            return JSONResponse({"error": message}, _TOO_LARGE, _CLOSE)
        # Behind a proxy on this machine, this is the client address that the proxy passes on (see
        # docs/how-to/run-several-reporters.md).
        client = scope.get("client")
        client_address = "" if client is None else client[0]
        if scope["path"] in _UNLIMITED_PATHS or self._buckets.try_acquire(client_address):
            return None
        self._refusals.record_refusal("rate", get_client_network(client_address))
        return JSONResponse({"error": "too many requests"}, _TOO_MANY, _CLOSE)

    def _is_body_allowed(self, headers: Headers) -> bool:
        """Return whether a request's `content-length` is acceptable.

        The check is sufficient, because the parser reads no more than the announced length.
        """
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return False
        return len(length) <= _MAX_LENGTH_DIGITS and int(length) <= self._body_bytes


# Responses of these paths are streams, which never end, so a HEAD request must not start one.
STREAM_PATHS = frozenset({"/v1/events"})


class HeadRequests:
    """ASGI middleware that handles HEAD requests as GET requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with HEAD replaced by GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
        elif scope["path"] in STREAM_PATHS:
            await Response(media_type="text/event-stream")(scope, receive, send)
        else:
            await self._app({**scope, "method": "GET"}, receive, send)


_STOP_SECONDS = 1
_TLS_SHUTDOWN_SECONDS = 1.0
_BUSY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"content-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
)


@contextmanager
def serve_app(app: ASGIApp, section: ListenerSection, port: int) -> Iterator[str]:
    """Serve the application in a thread, and yield its address as `http://host:port`.

    Port 0 uses any free port.

    Raises:
        InputError: the port is in use, the host is not an address of this machine, or a
            certificate file cannot be used.
    """
    tls_context = build_tls_context(section)
    listening_socket = open_listening_socket(section, port)
    server = _Server(app, section, listening_socket, tls_context)
    thread = threading.Thread(target=server.run, name=section.section_name, daemon=True)
    thread.start()
    scheme = "http" if tls_context is None else "https"
    try:
        yield f"{scheme}://{section.host}:{listening_socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(2 * _STOP_SECONDS)
        listening_socket.close()


class _Server(uvicorn.Server):
    """A uvicorn server that gets its connections from the acceptor, not from its own sockets."""

    def __init__(
        self,
        app: ASGIApp,
        section: ListenerSection,
        listening_socket: socket,
        tls_context: ssl.SSLContext | None,
    ) -> None:
        self.refusals = Refusals(section.section_name)
        self.section = section
        self._tls_context = tls_context
        limited_app = RequestLimits(HeadRequests(app), section, self.refusals)
        super().__init__(_build_uvicorn_config(limited_app, section))
        self._acceptor = Acceptor(
            listening_socket,
            section,
            self._register_connection,
            self.refusals.record_refusal,
            is_tls=tls_context is not None,
        )
        self._active_connections: set[PendingConnection] = set()
        # Connections between two requests. At the limit, the one that has been idle longest is
        # closed.
        self._idle_connections = ConnectionTable[PendingConnection](
            get_max_pending_connections(section), section.max_connections_per_address
        )
        self._max_active_connections = get_max_concurrent_requests(section) + section.stream_limit
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault_count = 0

    @override
    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets=[])
        asyncio.get_running_loop().set_exception_handler(self._log_event_loop_error)
        self._acceptor.start_accepting()

    @override
    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._acceptor.stop_accepting()
        await super().shutdown(sockets=[])

    def mark_request_complete(self, connection: PendingConnection) -> bool:
        """Record a complete request; return False if too many are being handled already."""
        self._acceptor.remove_pending_connection(connection)
        self._idle_connections.remove_connection(connection)
        if (
            connection not in self._active_connections
            and len(self._active_connections) >= self._max_active_connections
        ):
            self.refusals.record_refusal("answers", connection.address)
            return False
        self._active_connections.add(connection)
        return True

    def mark_connection_closed(self, connection: PendingConnection) -> None:
        self._acceptor.remove_pending_connection(connection)
        self._idle_connections.remove_connection(connection)
        self._active_connections.discard(connection)

    def mark_request_answered(self, connection: PendingConnection) -> None:
        """Record an answered request, whose connection may carry further requests."""
        self._active_connections.discard(connection)
        now = asyncio.get_running_loop().time()
        closed_connection_and_reason = self._idle_connections.add_connection(
            connection, connection.address, now
        )
        if closed_connection_and_reason is not None:
            closed_connection, reason = closed_connection_and_reason
            closed_connection.drop()
            self.refusals.record_refusal(reason, closed_connection.address)

    def _register_connection(self, connection: PendingConnection) -> None:
        if self._tls_context is None and not self.mark_request_complete(connection):
            _send_busy_response(connection.sock)
            return
        task = asyncio.get_running_loop().create_task(self._attach_protocol(connection))

        def cancel() -> None:
            task.cancel()

        connection.drop = cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attach_protocol(self, connection: PendingConnection) -> None:
        """Pass a connection to uvicorn's protocol, through TLS if a certificate is set."""
        is_tls = self._tls_context is not None
        is_connected = False
        try:
            # asyncio sets TCP_NODELAY only on connections that it accepts itself. Without it, a
            # response in several parts waits 40 ms between the parts.
            connection.sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _HttpConnection(self, connection),
                connection.sock,
                ssl=self._tls_context,
                ssl_handshake_timeout=self.section.header_timeout_seconds if is_tls else None,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_SECONDS if is_tls else None,
            )
            is_connected = True
        except OSError:
            # The TLS handshake failed or the client disconnected; there is nothing else to do.
            pass
        finally:
            if not is_connected:
                self.mark_connection_closed(connection)
                connection.sock.close()

    def _log_event_loop_error(
        self, _loop: asyncio.AbstractEventLoop, loop_context: dict[str, Any]
    ) -> None:
        """Log only the 1st, 2nd, 4th, 8th … error of the event loop, where asyncio logs all."""
        self._fault_count += 1
        if is_power_of_two(self._fault_count):
            get_logger().error(
                "http_listener_failed",
                reason=loop_context.get("message"),
                error=repr(loop_context.get("exception")),
                in_all=self._fault_count,
            )


class _HttpConnection(HttpToolsProtocol):
    """uvicorn's protocol with a deadline for each request, counted from its first byte."""

    def __init__(self, server: _Server, connection: PendingConnection) -> None:
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._server = server
        self._connection = connection
        self._deadline: asyncio.TimerHandle | None = None
        # True if the current deadline is for a response that the client has yet to receive.
        self._is_sent = False
        # Number of requests whose head was received and whose response is not complete.
        self._unanswered_requests = 0
        # Number of bytes received since the last complete head or part of a body. They are counted
        # because the parser buffers them without a limit.
        self._head_bytes = 0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection.drop = transport.abort
        self._start_request_deadline()
        if self._connection.head:
            self.data_received(bytes(self._connection.head))

    @override
    def data_received(self, data: bytes) -> None:
        self._start_request_deadline()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._server.refusals.record_refusal("large", self._connection.address)
            self.transport.abort()
        elif self._unanswered_requests and not self._server.mark_request_complete(
            self._connection
        ):
            self.transport.abort()

    @override
    def on_headers_complete(self) -> None:
        self._unanswered_requests += 1
        self._head_bytes = 0
        super().on_headers_complete()
        if self.parser.should_upgrade():
            # The parser reads nothing more after an upgrade request.
            self.cycle.keep_alive = False

    @override
    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    @override
    def on_response_complete(self) -> None:
        self._unanswered_requests -= 1
        self._is_sent = True
        if not self.transport.get_write_buffer_size():
            self._cancel_request_deadline()
        if not self.transport.is_closing():
            self._server.mark_request_answered(self._connection)
        # The base method also processes bytes that have arrived in the meantime.
        super().on_response_complete()
        if self._unanswered_requests and not self.transport.is_closing():
            self._start_request_deadline()
            if not self._server.mark_request_complete(self._connection):
                self.transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_request_deadline()
        self._server.mark_connection_closed(self._connection)
        super().connection_lost(exc)

    def _start_request_deadline(self) -> None:
        if self._deadline is None:
            self._is_sent = False
            seconds = self._server.section.response_timeout_seconds
            self._deadline = self.loop.call_later(seconds, self._enforce_deadline)

    def _cancel_request_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _enforce_deadline(self) -> None:
        if self._is_sent and not self.transport.get_write_buffer_size():
            # The client received the response in time. If its next request has arrived meanwhile,
            # that request gets a deadline of its own.
            self._deadline = None
            if self._unanswered_requests:
                self._start_request_deadline()
            return
        # A stream never ends, so its deadline only applies while bytes wait for the client.
        has_streaming_request = (
            self._unanswered_requests > 0 and self._server.section.stream_limit > 0
        )
        is_stream = has_streaming_request and self.scope["path"] in STREAM_PATHS
        if is_stream and not self.transport.get_write_buffer_size():
            seconds = self._server.section.response_timeout_seconds
            self._deadline = self.loop.call_later(seconds, self._enforce_deadline)
            return
        self._server.refusals.record_refusal("deadline", self._connection.address)
        self.transport.abort()


def _build_uvicorn_config(application: RequestLimits, section: ListenerSection) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        # uvicorn's warnings are not logged, because clients could cause many with invalid input.
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        # An idle connection has the same time limit as one that never sent a request.
        timeout_keep_alive=max(1, round(section.header_timeout_seconds)),
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


def _send_busy_response(sock: socket) -> None:
    try:
        sock.send(_BUSY_RESPONSE)
    except OSError:
        pass
    finally:
        sock.close()
