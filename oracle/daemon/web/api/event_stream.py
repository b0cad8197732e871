"""`/v1/events`: server-sent events, encoded once for all who listen, taken up again by their id.

No transaction is open while a stream waits: each look at the database is its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import structlog
from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse

from oracle.daemon.web.api.problems import problem, problem_of
from oracle.errors import OracleError
from oracle.queries.api.records.event_feed import (
    ID_PATTERN,
    EventCursor,
    FeedEvent,
    NumberedEvent,
    events_after,
    newest_place,
)
from oracle.queries.api.source import ApiSource, looking

_MEDIA_TYPE = "text/event-stream"
# How often all streams together look whether anything has moved.
_LOOK_SECONDS = 1.0
# A comment, so that proxies and clients see that it lives.
_COMMENT_SECONDS = 15.0
_RETRY = b"retry: 3000\n"
_COMMENT = b": still here\n\n"
_AT_ONCE = 500
_BUSY = 503


class _Batch(NamedTuple):
    """What comes behind a place: the frames, with what filters look at, and the place after."""

    frames: list[tuple[FeedEvent, bytes]]
    after: EventCursor


class EventStreams:
    """All streams of a server; lives in its loop."""

    def __init__(self, source: ApiSource, most: int) -> None:
        self._source = source
        self._most = most
        self._open = 0
        self._epoch = -1
        self._batches: dict[EventCursor, _Batch] = {}
        self._lock: asyncio.Lock | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count as one who listens."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    @property
    def is_full(self) -> bool:
        """Whether as many listen as may."""
        return self._open >= self._most

    async def newest(self) -> EventCursor:
        """Return the place behind everything."""
        return await asyncio.to_thread(self._newest)

    async def after(self, place: EventCursor) -> _Batch:
        """Return what comes behind a place; all who stand there get the same bytes."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            epoch = await asyncio.to_thread(self._moved_to)
            if epoch != self._epoch:
                self._epoch, self._batches = epoch, {}
            if place not in self._batches:
                self._batches[place] = await asyncio.to_thread(self._read, place)
            return self._batches[place]

    def _newest(self) -> EventCursor:
        with looking(self._source) as look:
            return newest_place(look)

    def _moved_to(self) -> int:
        with looking(self._source) as look:
            return look.as_of.epoch

    def _read(self, place: EventCursor) -> _Batch:
        with looking(self._source) as look:
            found = events_after(look, place, _AT_ONCE)
        return _Batch(
            [(one.event, frame_of(one)) for one in found], found[-1].after if found else place
        )


def frame_of(one: NumberedEvent) -> bytes:
    """Write an event as it goes over the wire."""
    data = one.event.model_dump_json()
    return f"id: {one.after}\nevent: {one.event.kind}\ndata: {data}\n\n".encode()


def event_routes(streams: EventStreams) -> APIRouter:
    """Return the one path."""
    web = APIRouter(prefix="/v1", tags=["events"])

    @web.get(
        "/events",
        operation_id="events",
        response_class=StreamingResponse,
        responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    )
    async def _events(
        kinds: Annotated[str | None, Query(pattern="^[a-z_]+(,[a-z_]+)*$")] = None,
        node: Annotated[str | None, Query(pattern="^0x[0-9a-f]{40}$")] = None,
        after: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Exclusions, recoveries, timeouts, reports, kickouts, reorgs, halts and their ends.

        Each `data` is one event as JSON. With `Last-Event-ID`, or `after`, what came since comes
        first; without, only what is new. After `reorg` forget what lay above its block: what took
        its place follows. `kinds`: a list with commas.
        """
        if streams.is_full:
            return problem(_BUSY, "as many as may listen do so already")
        told = last_event_id or after
        try:
            place = EventCursor.parsed(told) if told else await streams.newest()
        except OracleError as error:
            return problem_of(error)
        wanted = None if kinds is None else frozenset(kinds.split(","))
        frames = _frames(streams, place, lambda event: _passes(event, wanted, node))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(frames, media_type=_MEDIA_TYPE, headers=headers)

    return web


def _passes(event: FeedEvent, kinds: frozenset[str] | None, node: str | None) -> bool:
    """Tell whether a listener wants it; reorganisations concern everybody."""
    if event.kind == "reorg":
        return True
    return (kinds is None or event.kind in kinds) and (node is None or event.node == node)


async def _frames(
    streams: EventStreams, place: EventCursor, wants: Callable[[FeedEvent], bool]
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    said_at = loop.time()
    with streams.one():
        # The place at once: who is cut off before the first event knows where to go on.
        yield _RETRY + f"id: {place}\n\n".encode()
        while True:
            try:
                batch = await streams.after(place)
            except OracleError as error:
                structlog.get_logger().debug("events_not_read", reason=str(error))
                batch = None
            if batch is not None and batch.after != place:
                place = batch.after
                wanted = b"".join(frame for event, frame in batch.frames if wants(event))
                if wanted:
                    said_at = loop.time()
                    yield wanted
                continue
            if loop.time() - said_at >= _COMMENT_SECONDS:
                said_at = loop.time()
                yield _COMMENT
            await asyncio.sleep(_LOOK_SECONDS)
