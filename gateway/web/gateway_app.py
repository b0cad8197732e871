"""The HTTP application of the service: authorization, routing and error responses.

A plain ASGI application: each request is handled in the server's loop, from memory; outcomes are
answered when they are stored (docs/how-to/run-a-gateway.md#what-it-answers).
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gateway.gateway_records import TooManyRecordsError
from gateway.session_selector import NobodyPassesError
from gateway.web.gateway_calls import AcceptedBatch, GatewayCalls, Unready
from gateway.web.request_bodies import BodyError
from oracle.telemetry import gateway_metrics

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
# The connection is closed if a request is refused before its body was read.
_CLOSE = (b"connection", b"close")
_NODES = "/v1/nodes/"
# After this time, outcomes that are not stored are answered with 202: they count, and are written
# later.
_STORED_SECONDS = 2.0


class _Answer(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)


# The handler of each path, and the paths that need no token: anyone may verify past draws.
GATEWAY_PATHS: Mapping[str, Callable[[GatewayCalls, bytes], object]] = MappingProxyType(
    {
        "POST /v1/select": GatewayCalls.select,
        "POST /v1/outcomes": GatewayCalls.outcomes,
        "POST /v1/rankings": GatewayCalls.rankings,
        "GET /v1/checks": GatewayCalls.checks,
        "POST /v1/checks/run": GatewayCalls.run_checks,
        "GET /v1/nodes/": GatewayCalls.node,
        "GET /v1/epochs": GatewayCalls.epochs,
        "GET /healthz": GatewayCalls.health,
        "GET /metrics": GatewayCalls.metrics,
    }
)
_OPEN = frozenset({"/v1/epochs", "/healthz"})


class _Route(NamedTuple):
    method: str
    call: Callable[[GatewayCalls, bytes], object]


# The response to each error that a handler may raise.
_STATUS: dict[type[Exception], tuple[int, str]] = {
    TooManyRecordsError: (429, "too many nodes, sessions or ids; nothing was taken"),
    NobodyPassesError: (503, "no candidate passes the checks of its chain"),
}


class GatewayApp:
    """The ASGI application; `token` is what requests must bear, and is kept as a hash."""

    def __init__(self, calls: GatewayCalls, token: str) -> None:
        self._calls = calls
        self._token = sha256(token.encode()).digest()
        self._routes = {
            path: _Route(method, call)
            for (method, path), call in (
                (name.split(" "), call) for name, call in GATEWAY_PATHS.items()
            )
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answer = await self._answer(scope, receive)
        length = (b"content-length", str(len(answer.body)).encode())
        headers = [*answer.headers, length]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        path, name = scope["path"], None
        if path.startswith(_NODES):
            path, name = _NODES, path.removeprefix(_NODES)
        if path not in _OPEN and not self._is_known(scope):
            return _refused(401, "a token is wanted: Authorization: Bearer ...", closes=True)
        route = self._routes.get(path)
        if route is None:
            return _refused(404, "there is no such path", closes=True)
        if scope["method"] != route.method:
            return _refused(405, f"takes {route.method}", closes=True)
        body = await _body(receive)
        if body is None:
            return _refused(400, "ended too early", closes=True)
        return await self._done(route, body if name is None else name.encode("utf-8", "replace"))

    async def _done(self, route: _Route, body: bytes) -> _Answer:
        try:
            said = route.call(self._calls, body)
        except BodyError as error:
            return _refused(400, error.answer())
        except (TooManyRecordsError, NobodyPassesError) as error:
            return _refused(*_STATUS[type(error)])
        if isinstance(said, bytes):
            return _Answer(200, said, (_TEXT,))
        if isinstance(said, AcceptedBatch):
            is_stored = await _await_stored(said.stored)
            told = msgspec.json.encode({**said.told, "stored": is_stored})
            return _Answer(200 if is_stored else 202, told)
        if isinstance(said, Unready):
            return _Answer(503, msgspec.json.encode(said.told))
        return _Answer(200, msgspec.json.encode(said))

    def _is_known(self, scope: Scope) -> bool:
        """Return whether the token is right, compared in constant time."""
        told = Headers(scope=scope).get("authorization", "")
        kind, _, token = told.partition(" ")
        is_right = hmac.compare_digest(sha256(token.encode("latin-1")).digest(), self._token)
        return is_right and kind.lower() == "bearer"


def _refused(status: int, told: object, *, closes: bool = False) -> _Answer:
    gateway_metrics.REFUSED.labels(str(status)).inc()
    body = msgspec.json.encode({"error": told} if isinstance(told, str) else told)
    return _Answer(status, body, (_JSON, _CLOSE) if closes else (_JSON,))


async def _await_stored(stored: "Future[bool]") -> bool:
    """Return whether outcomes are stored; False if that is unknown in time."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(stored), _STORED_SECONDS)
    except TimeoutError:
        return False


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body, whose size the listener limits, or None if the client left."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
