"""What every request of a listener has to pass before a function answers it."""

import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.web.listener import ListenerLimits
from oracle.daemon.web.rate_limit import ClientBuckets, network_of
from oracle.daemon.web.refusals import Refusals

_TOO_MANY, _TOO_LARGE, _NO_UPGRADE = 429, 413, 400
# Whoever is refused is not listened to any further.
_CLOSE = {"connection": "close"}
# Of a length that is read at all.
_MOST_DIGITS = 12
# So many seconds' worth of requests may come at once.
_SECONDS_AT_ONCE = 5
# Who watches the daemon hears that it lives, whoever else asks from behind the same address.
_ALWAYS = frozenset({"/livez"})


class RequestLimits:
    """An ASGI application in front of another: so many requests a second, of so many bytes."""

    def __init__(
        self,
        web: ASGIApp,
        limits: ListenerLimits,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._web = web
        self._refusals = refusals
        self._body_bytes = limits.body_bytes
        per_second = limits.requests_per_second
        at_once = max(1, round(_SECONDS_AT_ONCE * per_second))
        self._buckets = ClientBuckets(per_second, at_once, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 400, 429 or 413, or let the application answer."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._web)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if "upgrade" in headers and headers.get("content-length", "0") != "0":
            # The parser takes the body for another protocol's: half a request would be answered.
            words = "there is nothing to upgrade to: send plain HTTP/1.1, without Upgrade"
            return JSONResponse({"error": words}, _NO_UPGRADE, _CLOSE)
        if not self._has_body(headers):
            most = self._body_bytes
            words = f"at most {most} bytes, told first" if most else "nothing is taken in here"
            return JSONResponse({"error": words}, _TOO_LARGE, _CLOSE)
        # A proxy on this machine says for whom it asks; see docs/how-to/run-several-reporters.md.
        client = scope.get("client")
        address = "" if client is None else client[0]
        if scope["path"] in _ALWAYS or self._buckets.try_acquire(address):
            return None
        self._refusals.note("rate", network_of(address))
        return JSONResponse({"error": "too many requests"}, _TOO_MANY, _CLOSE)

    def _has_body(self, headers: Headers) -> bool:
        """Tell whether as much may come as is announced; what is announced is not exceeded."""
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return False
        return len(length) <= _MOST_DIGITS and int(length) <= self._body_bytes
