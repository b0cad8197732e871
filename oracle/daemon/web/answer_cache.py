"""Caches responses until the index changes, and shares them between equal requests.

During a backfill the index changes many times per second. A cached response is then used for ten
seconds (docs/reference/read-api.md#response-cache).
"""

import gzip
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from fastapi import Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from oracle.daemon.web.demo_phase import DemoPhase
from oracle.daemon.web.rate_limit import ConcurrencyLimit
from oracle.queries.answers import AsOf
from oracle.queries.api.source import ApiSource, open_snapshot

# For responses whose path contains the digest of their bytes, which therefore never change.
CACHE_FOREVER = "public, max-age=31536000, immutable"

T = TypeVar("T")


@dataclass(slots=True)
class _PendingAnswer(Generic[T]):
    """An answer that is being computed; `answer` stays None if the computation fails."""

    finished: threading.Event = field(default_factory=threading.Event)
    answer: T | None = None


class SingleFlight(Generic[T]):
    """Computes each answer once for all threads that request the same key at the same time.

    At most `max_answers` different answers are computed concurrently. A thread waits at most
    `patience_seconds` for the answer of another thread.
    """

    def __init__(self, max_answers: int, patience_seconds: float) -> None:
        self._limit = ConcurrencyLimit(max_answers)
        self._max_wait_seconds = patience_seconds
        self._lock = threading.Lock()
        self._pending_by_key: dict[str, _PendingAnswer[T]] = {}

    def get_or_make(self, key: str, make: Callable[[], T]) -> T | None:
        """Return the result of `make`, shared by all threads that request the same key.

        The result is None if too many answers are being computed. Errors of `make` are raised. If
        the `make` of another thread fails, the thread that waited for it calls its own `make`.
        """
        with self._lock:
            pending_answer = self._pending_by_key.get(key)
            is_first = pending_answer is None
            if pending_answer is None:
                pending_answer = self._pending_by_key[key] = _PendingAnswer()
        if is_first:
            try:
                pending_answer.answer = self._make_within_limit(make)
            finally:
                with self._lock:
                    del self._pending_by_key[key]
                pending_answer.finished.set()
            return pending_answer.answer
        pending_answer.finished.wait(self._max_wait_seconds)
        return (
            pending_answer.answer
            if pending_answer.answer is not None
            else self._make_within_limit(make)
        )

    def _make_within_limit(self, make: Callable[[], T]) -> T | None:
        with self._limit.try_enter() as is_admitted:
            return make() if is_admitted else None


# A response contains the age of the index, so it is recomputed once the age has grown by this
# much.
_LAG_STEP_SECONDS = 30
# An index this far behind the head counts as backfilling.
_HISTORY_LAG_SECONDS = 60
# During a backfill, a cached response is used for this long even if the index has changed.
_HISTORY_FRESH_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_MIN_COMPRESSED_BYTES = 1_000
_GZIP_LEVEL = 5


class CachedResponse(NamedTuple):
    """A response, and the block and demonstration phase for which it is valid."""

    response: Response
    as_of: AsOf
    phase: DemoPhase | None = None


class _CachedAnswer(NamedTuple):
    tag: str
    body: bytes
    gzipped_body: bytes | None
    media_type: str | None
    # The monotonic time until which the response is used without checking the index.
    fresh_until: float

    @property
    def size(self) -> int:
        return len(self.body) + len(self.gzipped_body or b"")


class AnswerCache:
    """A thread-safe cache of up to `max_bytes` that evicts the least recently used response."""

    def __init__(
        self,
        source: ApiSource,
        max_bytes: int,
        get_phase: Callable[[], DemoPhase | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._get_phase = get_phase
        self._clock = clock
        self._request_numbers = count()
        self._lock = threading.Lock()
        self._byte_count = 0
        self._answer_by_key: OrderedDict[str, _CachedAnswer] = OrderedDict()

    def get_or_make_response(
        self, request: Request, make: Callable[[], CachedResponse], flights: "AnswerFlights"
    ) -> Response | None:
        """Return a cached response to a GET, a new one from `make`, or a 304 response.

        Only responses with status 200 are cached. The result is None if too many answers are being
        computed. Errors of `make`, and errors in opening the snapshot, are raised.
        """
        key = _build_cache_key(request.scope)
        cached_answer = self._find_cached_response(key)
        if cached_answer is None:
            with open_snapshot(self._source) as snapshot:
                tag = _build_entity_tag(snapshot.as_of, self._get_phase())
            if _has_current_copy(request, tag):
                return _build_not_modified_response(tag)
            cached_answer = self._find_cached_response(key, tag)
        if cached_answer is None:
            new_answer = flights.get_or_make(key, lambda: self._store_response(key, make()))
            if new_answer is None or isinstance(new_answer, Response):
                return new_answer
            cached_answer = new_answer
        return _build_response(cached_answer, request)

    def get_fresh_response(self, scope: Scope) -> Response | None:
        """Return the cached response to a GET without blocking, if it is fresh."""
        cached_answer = self._find_cached_response(_build_cache_key(scope))
        return None if cached_answer is None else _build_response(cached_answer, Request(scope))

    def make_uncached_response(
        self, request: Request, make: Callable[[], CachedResponse], flights: "AnswerFlights"
    ) -> Response | None:
        """Return the result of `make` for a POST, which is not shared between clients.

        The result is None if too many answers are being computed.
        """
        key = f"{request.method} {next(self._request_numbers)}"
        answer = flights.get_or_make(key, lambda: _pack_response(make(), 0.0))
        return _build_response(answer, request) if isinstance(answer, _CachedAnswer) else answer

    def _store_response(
        self, key: str, cached_response: CachedResponse
    ) -> "_CachedAnswer | Response":
        if cached_response.response.status_code != HTTPStatus.OK:
            return cached_response.response
        fresh_until = (
            self._clock() + _HISTORY_FRESH_SECONDS
            if is_backfilling(cached_response.as_of)
            else 0.0
        )
        cached_answer = _pack_response(cached_response, fresh_until)
        with self._lock:
            self._evict_response(key)
            self._answer_by_key[key] = cached_answer
            self._byte_count += len(key) + cached_answer.size
            while self._byte_count > self._max_bytes:
                self._evict_response(next(iter(self._answer_by_key)))
        return cached_answer

    def _find_cached_response(self, key: str, tag: str | None = None) -> _CachedAnswer | None:
        """Return the valid response cached for a key, if there is one.

        If `tag` is given, a response is valid if it has this entity tag, else while it is fresh.
        """
        with self._lock:
            cached_answer = self._answer_by_key.get(key)
            if cached_answer is None:
                return None
            if (
                cached_answer.tag != tag
                if tag is not None
                else cached_answer.fresh_until <= self._clock()
            ):
                return None
            self._answer_by_key.move_to_end(key)
            return cached_answer

    def _evict_response(self, key: str) -> None:
        evicted_answer = self._answer_by_key.pop(key, None)
        if evicted_answer is not None:
            self._byte_count -= len(key) + evicted_answer.size


class FreshAnswers:
    """ASGI middleware that serves fresh cached responses without routing and without a thread."""

    def __init__(self, web: ASGIApp, *lookups: Callable[[Scope], ASGIApp | None]) -> None:
        """Wrap an application.

        Each of `lookups` returns a fresh cached response or None.
        """
        self._web = web
        self._lookups = lookups

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a fresh cached response, or else call the application."""
        app = self._web
        if scope["type"] == "http" and scope["method"] == "GET":
            fresh_answers = (look_up(scope) for look_up in self._lookups)
            app = next(
                (fresh_answer for fresh_answer in fresh_answers if fresh_answer is not None),
                app,
            )
        await app(scope, receive, send)


class AnswerFlights(SingleFlight["_CachedAnswer | Response"]):
    """Read API answers that are being computed, at most `max_answers` at a time."""

    def __init__(self, max_answers: int) -> None:
        super().__init__(max_answers, _PATIENCE_SECONDS)


def is_backfilling(as_of: AsOf) -> bool:
    """Return whether the index is so far behind that it is backfilling."""
    return as_of.lag_seconds > _HISTORY_LAG_SECONDS


def _build_cache_key(scope: Scope) -> str:
    return f"{scope['path']}?{scope['query_string'].decode('latin-1')}"


def _pack_response(cached_response: CachedResponse, fresh_until: float) -> _CachedAnswer:
    body = bytes(cached_response.response.body)
    is_compressible = len(body) >= _MIN_COMPRESSED_BYTES
    compressed_body = gzip.compress(body, _GZIP_LEVEL, mtime=0) if is_compressible else None
    media_type = cached_response.response.headers.get("content-type")
    return _CachedAnswer(
        _build_entity_tag(cached_response.as_of, cached_response.phase),
        body,
        compressed_body,
        media_type,
        fresh_until,
    )


def _build_entity_tag(as_of: AsOf, phase: DemoPhase | None) -> str:
    """Build the weak entity tag shared by all responses at the same cursor and phase."""
    phase_checksum = 0 if phase is None else zlib.crc32(phase.title.encode())
    lag_steps = as_of.lag_seconds // _LAG_STEP_SECONDS
    return f'W/"{as_of.epoch}-{as_of.head}-{lag_steps}-{phase_checksum}"'


def _has_current_copy(request: Request, tag: str) -> bool:
    return tag in request.headers.get("if-none-match", "")


def _build_response(cached_answer: _CachedAnswer, request: Request) -> Response:
    if _has_current_copy(request, cached_answer.tag):
        return _build_not_modified_response(cached_answer.tag)
    headers = _build_headers(cached_answer.tag)
    if cached_answer.gzipped_body is not None and "gzip" in request.headers.get(
        "accept-encoding", ""
    ):
        headers["content-encoding"] = "gzip"
        return Response(
            cached_answer.gzipped_body, headers=headers, media_type=cached_answer.media_type
        )
    return Response(cached_answer.body, headers=headers, media_type=cached_answer.media_type)


def _build_not_modified_response(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=_build_headers(tag))


def _build_headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
