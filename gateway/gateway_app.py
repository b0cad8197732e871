"""The HTTP application of the service: authorization, routing and error responses.

Each request is handled from memory in the server's event loop. A request that reports outcomes
gets its response once they are stored (docs/how-to/run-a-gateway.md#http-api).
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

from gateway import gateway_metrics
from gateway.gateway_calls import AcceptedBatch, GatewayCalls, NotReadyResponse
from gateway.gateway_records import TooManyRecordsError
from gateway.request_bodies import BodyError
from gateway.session_selector import NoCandidatePassesError

_JSON_HEADER = (b"content-type", b"application/json")
_TEXT_HEADER = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
# This field closes the connection after a request that was rejected before its body was read.
_CLOSE_HEADER = (b"connection", b"close")
_NODES_PATH = "/v1/nodes/"
# If storing the outcomes takes longer than this, the response has status 202. The outcomes already
# count, and they will be written later.
_STORED_SECONDS = 2.0


class _Response(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON_HEADER,)


# The public paths need no token, because anyone may verify past draws.
GATEWAY_PATHS: Mapping[str, Callable[[GatewayCalls, bytes], object]] = MappingProxyType(
    {
        "POST /v1/select": GatewayCalls.select_nodes,
        "POST /v1/outcomes": GatewayCalls.record_outcomes,
        "POST /v1/rankings": GatewayCalls.get_ranking,
        "GET /v1/checks": GatewayCalls.list_checks,
        "POST /v1/checks/run": GatewayCalls.request_checks,
        "GET /v1/nodes/": GatewayCalls.get_node_stats,
        "GET /v1/epochs": GatewayCalls.list_epochs,
        "GET /healthz": GatewayCalls.get_health,
        "GET /metrics": GatewayCalls.get_metrics,
    }
)
_PUBLIC_PATHS = frozenset({"/v1/epochs", "/healthz"})


class _Route(NamedTuple):
    method: str
    call: Callable[[GatewayCalls, bytes], object]


# Status and text of the response for each error that a handler may raise.
_STATUS_BY_ERROR: dict[type[Exception], tuple[int, str]] = {
    TooManyRecordsError: (429, "too many nodes, sessions or ids; the batch was rejected"),
    NoCandidatePassesError: (503, "no candidate passes the checks of its chain"),
}


class GatewayApp:
    """The ASGI application of the selection service.

    Requests must contain `token`, which is kept only as a hash.
    """

    def __init__(self, calls: GatewayCalls, token: str) -> None:
        self._calls = calls
        self._token_hash = sha256(token.encode()).digest()
        self._routes = {
            path: _Route(method, call)
            for (method, path), call in (
                (name.split(" "), call) for name, call in GATEWAY_PATHS.items()
            )
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answer = await self._handle_request(scope, receive)
        length_header = (b"content-length", str(len(answer.body)).encode())
        headers = [*answer.headers, length_header]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _handle_request(self, scope: Scope, receive: Receive) -> _Response:
        path = scope["path"]
        name = None
        if path.startswith(_NODES_PATH):
            path, name = _NODES_PATH, path.removeprefix(_NODES_PATH)
        if path not in _PUBLIC_PATHS and not self._is_authorized(scope):
            return _build_error_response(
                401,
                "missing or invalid token; expected Authorization: Bearer ...",
                close_connection=True,
            )
        route = self._routes.get(path)
        if route is None:
            return _build_error_response(404, "path not found", close_connection=True)
        if scope["method"] != route.method:
            return _build_error_response(
                405, f"method not allowed; expected {route.method}", close_connection=True
            )
        body = await _read_body(receive)
        if body is None:
            return _build_error_response(400, "request body incomplete", close_connection=True)
        return await self._call_route(
            route, body if name is None else name.encode("utf-8", "replace")
        )

    async def _call_route(self, route: _Route, body: bytes) -> _Response:
        try:
            call_result = route.call(self._calls, body)
        except BodyError as error:
            return _build_error_response(400, error.build_payload())
        except (TooManyRecordsError, NoCandidatePassesError) as error:
            return _build_error_response(*_STATUS_BY_ERROR[type(error)])
        if isinstance(call_result, bytes):
            return _Response(200, call_result, (_TEXT_HEADER,))
        if isinstance(call_result, AcceptedBatch):
            is_stored = await _wait_until_stored(call_result.stored)
            payload = msgspec.json.encode({**call_result.payload, "stored": is_stored})
            return _Response(200 if is_stored else 202, payload)
        if isinstance(call_result, NotReadyResponse):
            return _Response(503, msgspec.json.encode(call_result.payload))
        return _Response(200, msgspec.json.encode(call_result))

    def _is_authorized(self, scope: Scope) -> bool:
        """Return whether the request has the right token.

        The comparison takes constant time.
        """
        authorization = Headers(scope=scope).get("authorization", "")
        scheme, _, token = authorization.partition(" ")
        is_token_valid = hmac.compare_digest(
            sha256(token.encode("latin-1")).digest(), self._token_hash
        )
        return is_token_valid and scheme.lower() == "bearer"


def _build_error_response(
    status: int, error: object, *, close_connection: bool = False
) -> _Response:
    gateway_metrics.REFUSED.labels(str(status)).inc()
    body = msgspec.json.encode({"error": error} if isinstance(error, str) else error)
    return _Response(
        status, body, (_JSON_HEADER, _CLOSE_HEADER) if close_connection else (_JSON_HEADER,)
    )


async def _wait_until_stored(stored_future: "Future[bool]") -> bool:
    """Wait for outcomes to be stored, and return whether this succeeded in time.

    The wait takes up to `_STORED_SECONDS`.
    """
    try:
        return await asyncio.wait_for(asyncio.wrap_future(stored_future), _STORED_SECONDS)
    except TimeoutError:
        return False


async def _read_body(receive: Receive) -> bytes | None:
    """Read the request's body, or return None if the client disconnected.

    The listener limits the size of the body.
    """
    body_parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body_parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(body_parts)
