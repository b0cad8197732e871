"""Answers HEAD as GET: the same status and headers, and no body, which uvicorn leaves out.

Monitors and load balancers send HEAD, and no route of an application has to declare it.
"""

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

# Their answers have no end, so HEAD must not start one.
STREAM_PATHS = frozenset({"/v1/events"})


class HeadRequests:
    """An ASGI application in front of another."""

    def __init__(self, web: ASGIApp) -> None:
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, HEAD as GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._web(scope, receive, send)
        elif scope["path"] in STREAM_PATHS:
            await Response(media_type="text/event-stream")(scope, receive, send)
        else:
            await self._web({**scope, "method": "GET"}, receive, send)
