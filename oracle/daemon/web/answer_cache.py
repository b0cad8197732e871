"""Caches responses by request until the index changes: one response serves all clients.

During a backfill the index changes many times a second; a response is then served for ten seconds
(docs/explanation/read-api.md#one-answer-for-all).
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

from oracle.daemon.web.played_act import PlayedAct
from oracle.daemon.web.rate_limit import ConcurrencyLimit
from oracle.queries.answers import AsOf
from oracle.queries.api.source import ApiSource, looking

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """An answer that is being made; None at the end means that it failed."""

    over: threading.Event = field(default_factory=threading.Event)
    made: T | None = None


class SingleFlight(Generic[T]):
    """Makes one answer for all threads that request the same key at the same time.

    At most `max_answers` different answers are made at once; no thread waits for another's answer
    longer than `patience_seconds`.
    """

    def __init__(self, seats: int, patience_seconds: float) -> None:
        self._seats = ConcurrencyLimit(seats)
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight[T]] = {}

    def fly(self, question: str, make: Callable[[], T]) -> T | None:
        """Return the result of `make`, or of another thread's `make` for the same key.

        The result is None if too many answers are being made. Raises what `make` raises; a thread
        that waited for a failed answer makes its own.
        """
        with self._lock:
            flight = self._flights.get(question)
            is_first = flight is None
            if flight is None:
                flight = self._flights[question] = _Flight()
        if is_first:
            try:
                flight.made = self._seated(make)
            finally:
                with self._lock:
                    del self._flights[question]
                flight.over.set()
            return flight.made
        flight.over.wait(self._patience)
        return flight.made if flight.made is not None else self._seated(make)

    def _seated(self, make: Callable[[], T]) -> T | None:
        with self._seats.one() as is_seated:
            return make() if is_seated else None


# The age in a cached response is at most this much out of date.
_LAG_STEP_SECONDS = 30
# An index that is this far behind is in a backfill, not at the head of the chain.
_HISTORY_LAG_SECONDS = 60
# During a backfill a response is served for this time without a check whether the index has
# changed.
_HISTORY_KEPT_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_LEAST_COMPRESSED = 1_000
_GZIP_LEVEL = 5


class CachedResponse(NamedTuple):
    """A response with the block and the demonstration act for which it is valid."""

    response: Response
    as_of: AsOf
    act: PlayedAct | None = None


class _Kept(NamedTuple):
    tag: str
    plain: bytes
    packed: bytes | None
    media_type: str | None
    # Monotonic seconds: until then the response is served without a check of the index.
    fresh_until: float

    @property
    def size(self) -> int:
        return len(self.plain) + len(self.packed or b"")


class AnswerCache:
    """A thread-safe cache; beyond `max_bytes` the least recently used response is evicted."""

    def __init__(
        self,
        source: ApiSource,
        most_bytes: int,
        act: Callable[[], PlayedAct | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._act = act
        self._clock = clock
        self._numbers = count()
        self._lock = threading.Lock()
        self._bytes = 0
        self._by_question: OrderedDict[str, _Kept] = OrderedDict()

    def answer(
        self, request: Request, make: Callable[[], CachedResponse], flights: "Flights"
    ) -> Response | None:
        """Return the cached response to a GET, or the result of `make`; 304 if the client has it.

        Only responses with status 200 are cached. The result is None if too many answers are being
        made. Raises what `looking` and `make` raise.
        """
        question = _question(request.scope)
        kept = self._known(question)
        if kept is None:
            with looking(self._source) as look:
                tag = _tag(look.as_of, self._act())
            if _is_known_to(request, tag):
                return _not_modified(tag)
            kept = self._known(question, tag)
        if kept is None:
            made = flights.fly(question, lambda: self._made_anew(question, make()))
            if made is None or isinstance(made, Response):
                return made
            kept = made
        return _sent(kept, request)

    def fresh(self, scope: Scope) -> Response | None:
        """Return the response to a GET that needs no check of the database; never blocks."""
        kept = self._known(_question(scope))
        return None if kept is None else _sent(kept, Request(scope))

    def once(
        self, request: Request, make: Callable[[], CachedResponse], flights: "Flights"
    ) -> Response | None:
        """Return the result of `make` for a POST, which is not shared between clients.

        The result is None if too many answers are being made.
        """
        question = f"{request.method} {next(self._numbers)}"
        made = flights.fly(question, lambda: _packed(make(), 0.0))
        return _sent(made, request) if isinstance(made, _Kept) else made

    def _made_anew(self, question: str, made: CachedResponse) -> "_Kept | Response":
        if made.response.status_code != HTTPStatus.OK:
            return made.response
        fresh_until = self._clock() + _HISTORY_KEPT_SECONDS if is_history(made.as_of) else 0.0
        kept = _packed(made, fresh_until)
        with self._lock:
            self._forget(question)
            self._by_question[question] = kept
            self._bytes += len(question) + kept.size
            while self._bytes > self._most_bytes:
                self._forget(next(iter(self._by_question)))
        return kept

    def _known(self, question: str, tag: str | None = None) -> _Kept | None:
        """Return the response cached under a tag; without a tag, one that is still fresh."""
        with self._lock:
            kept = self._by_question.get(question)
            if kept is None:
                return None
            if kept.tag != tag if tag is not None else kept.fresh_until <= self._clock():
                return None
            self._by_question.move_to_end(question)
            return kept

    def _forget(self, question: str) -> None:
        gone = self._by_question.pop(question, None)
        if gone is not None:
            self._bytes -= len(question) + gone.size


class FreshAnswers:
    """ASGI middleware that serves fresh responses without a route and a thread."""

    def __init__(self, web: ASGIApp, *kept: Callable[[Scope], ASGIApp | None]) -> None:
        """Store the application; each lookup returns a fresh response, or None."""
        self._web = web
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a fresh response, or call the application."""
        answer = self._web
        if scope["type"] == "http" and scope["method"] == "GET":
            found = (kept(scope) for kept in self._kept)
            answer = next((one for one in found if one is not None), answer)
        await answer(scope, receive, send)


class Flights(SingleFlight["_Kept | Response"]):
    """The answers that are being made, at most `max_answers`."""

    def __init__(self, seats: int) -> None:
        super().__init__(seats, _PATIENCE_SECONDS)


def is_history(as_of: AsOf) -> bool:
    """Return whether the index is so far behind that it is in a backfill."""
    return as_of.lag_seconds > _HISTORY_LAG_SECONDS


def _question(scope: Scope) -> str:
    return f"{scope['path']}?{scope['query_string'].decode('latin-1')}"


def _packed(made: CachedResponse, fresh_until: float) -> _Kept:
    plain = bytes(made.response.body)
    is_long = len(plain) >= _LEAST_COMPRESSED
    packed = gzip.compress(plain, _GZIP_LEVEL, mtime=0) if is_long else None
    media_type = made.response.headers.get("content-type")
    return _Kept(_tag(made.as_of, made.act), plain, packed, media_type, fresh_until)


def _tag(as_of: AsOf, act: PlayedAct | None) -> str:
    """Return the weak entity tag of all responses as of a cursor, during this act."""
    played = 0 if act is None else zlib.crc32(act.title.encode())
    age = as_of.lag_seconds // _LAG_STEP_SECONDS
    return f'W/"{as_of.epoch}-{as_of.head}-{age}-{played}"'


def _is_known_to(request: Request, tag: str) -> bool:
    return tag in request.headers.get("if-none-match", "")


def _sent(kept: _Kept, request: Request) -> Response:
    if _is_known_to(request, kept.tag):
        return _not_modified(kept.tag)
    headers = _headers(kept.tag)
    if kept.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(kept.packed, headers=headers, media_type=kept.media_type)
    return Response(kept.plain, headers=headers, media_type=kept.media_type)


def _not_modified(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=_headers(tag))


def _headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
