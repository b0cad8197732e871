"""Limits how often clients post to a path, before the request is routed or its body is parsed.

A dependency of FastAPI could refuse requests as well. However, FastAPI reads and parses the body
before it calls a dependency, so such a refusal would cost the server ten times as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.web.api.answering import build_problem_response
from oracle.daemon.web.rate_limit import ClientBuckets, TokenBucket


@dataclass(frozen=True, slots=True)
class PostLimit:
    """The limits of posts to one path, for each client network and for all clients together.

    `detail` is the reason that refused clients get. Bodies longer than `max_body_bytes` are
    refused as well.
    """

    client_buckets: ClientBuckets
    common_bucket: TokenBucket
    detail: str
    max_body_bytes: int


class PostLimits:
    """ASGI middleware that refuses posts over the limit of their path with status 413 or 429."""

    def __init__(self, app: ASGIApp, limit_by_path: Mapping[str, PostLimit]) -> None:
        self._app = app
        self._limit_by_path = limit_by_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request with a problem document, or call the application."""
        limit = None
        if scope["type"] == "http" and scope["method"] == "POST":
            limit = self._limit_by_path.get(scope["path"])
        app = self._app if limit is None else self._choose_app(limit, scope)
        await app(scope, receive, send)

    def _choose_app(self, limit: PostLimit, scope: Scope) -> ASGIApp:
        if int(Headers(scope=scope).get("content-length", "0")) > limit.max_body_bytes:
            return build_problem_response(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"request body: expected at most {limit.max_body_bytes} bytes",
            )
        client = scope.get("client")
        address = "" if client is None else client[0]
        if limit.client_buckets.try_acquire(address) and limit.common_bucket.try_acquire():
            return self._app
        return build_problem_response(HTTPStatus.TOO_MANY_REQUESTS, limit.detail)
