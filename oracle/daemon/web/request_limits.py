"""What every request of a listener has to pass before a function answers it."""

import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.web.listener import ListenerLimits
from oracle.daemon.web.rate_limit import ClientBuckets, network_of
from oracle.daemon.web.refusals import Refusals

# Of a length that is worth reading.
_MOST_DIGITS = 9
_TOO_MANY, _TOO_LARGE = 429, 413
# So many seconds' worth of requests may come at once.
_SECONDS_AT_ONCE = 5
# Who watches the daemon hears that it lives, whoever else asks from behind the same address.
_ALWAYS = frozenset({"/livez"})


class RequestLimits:
    """An ASGI application in front of another: so many requests a second, bodies so large."""

    def __init__(
        self,
        web: ASGIApp,
        limits: ListenerLimits,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits`: of them `requests_per_second` and `body_bytes`."""
        self._web = web
        self._refusals = refusals
        per_second = limits.requests_per_second
        self._body_bytes = limits.body_bytes
        at_once = max(1, round(_SECONDS_AT_ONCE * per_second))
        self._buckets = ClientBuckets(per_second, at_once, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429 or 413, or let the application answer."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._web)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers or self._is_too_large(headers):
            told = "too large" if self._body_bytes else "nothing is taken in here"
            return JSONResponse({"error": told}, _TOO_LARGE)
        # A proxy on this machine says for whom it asks; see docs/how-to/run-several-reporters.md.
        client = scope.get("client")
        address = "" if client is None else client[0]
        if scope["path"] in _ALWAYS or self._buckets.take(address):
            return None
        self._refusals.note("rate", network_of(address))
        return JSONResponse({"error": "too many requests"}, _TOO_MANY)

    def _is_too_large(self, headers: Headers) -> bool:
        length = headers.get("content-length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS
        return not is_number or int(length) > self._body_bytes
