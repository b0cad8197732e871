"""What every request of a listener has to pass before a function answers it."""

import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.web.rate_limit import ClientBuckets, network_of
from oracle.daemon.web.refusals import Refusals

_TOO_MANY, _TOO_LARGE = 429, 413
# So many seconds' worth of requests may come at once.
_SECONDS_AT_ONCE = 5
# Who watches the daemon hears that it lives, whoever else asks from behind the same address.
_ALWAYS = frozenset({"/livez"})


class RequestLimits:
    """An ASGI application in front of another: so many requests a second, and none with a body."""

    def __init__(
        self,
        web: ASGIApp,
        per_second: float,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`per_second`: requests from one address, on average."""
        self._web = web
        self._refusals = refusals
        at_once = max(1, round(_SECONDS_AT_ONCE * per_second))
        self._buckets = ClientBuckets(per_second, at_once, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429 or 413, or let the application answer."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._web)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return JSONResponse({"error": "nothing is taken in here"}, _TOO_LARGE)
        # A proxy on this machine says for whom it asks; see docs/how-to/run-several-reporters.md.
        client = scope.get("client")
        address = "" if client is None else client[0]
        if scope["path"] in _ALWAYS or self._buckets.take(address):
            return None
        self._refusals.note("rate", network_of(address))
        return JSONResponse({"error": "too many requests"}, _TOO_MANY)
