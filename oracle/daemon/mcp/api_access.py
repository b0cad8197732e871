"""Reads the paths of the read API, from this process or from a server."""

import asyncio
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from oracle.rpc.rpc_errors import RpcError
from oracle.rpc.transport import BoundedHttp, redact_url

# The explanation of a pool of fifty scores is about a tenth of this size.
MAX_RESPONSE_BYTES = 2**20
_TIMEOUT_SECONDS = 60
_UNAVAILABLE = 503


class ApiResponse(NamedTuple):
    """The status and the body of a response."""

    status: int
    body: bytes


class ApiAccess(Protocol):
    """Reads a path of the read API."""

    def read(self, path: str) -> ApiResponse:
        """Return the API's response, or a 503 response with the reason if there is none."""
        ...


class LocalApi:
    """The read API of this process, called without a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def read(self, path: str) -> ApiResponse:
        """Return the read API's response to a GET of this path."""
        return asyncio.run(self._call(path))

    async def _call(self, path: str) -> ApiResponse:
        status, chunks = _UNAVAILABLE, []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            chunks.append(message.get("body", b""))

        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [],
            "client": None,
            "server": None,
        }
        await self._app(scope, receive, send)
        return ApiResponse(status, b"".join(chunks))


class RemoteApi:
    """The read API of a server."""

    def __init__(self, url: str) -> None:
        """Create a client of the read API at `url`; raise InputError if it is not a URL."""
        self._name = redact_url(url, ("http", "https"), "--url")
        self._http = BoundedHttp(url, name=self._name, max_bytes=MAX_RESPONSE_BYTES)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def read(self, path: str) -> ApiResponse:
        """Return the server's response, or a 503 response if there is no complete response."""
        try:
            response = self._http.get(path, _TIMEOUT_SECONDS, _TIMEOUT_SECONDS)
        except RpcError as error:
            return ApiResponse(_UNAVAILABLE, f"{self._name}: {error}".encode())
        if response.is_truncated:
            return ApiResponse(_UNAVAILABLE, b"the response is larger than 1 MiB")
        return ApiResponse(response.status, response.body)
