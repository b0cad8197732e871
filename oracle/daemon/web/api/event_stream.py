"""`/v1/events`: server-sent events, encoded once for all clients, resumed by their id.

No transaction is open while a stream waits: each check of the database has its own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Annotated, NamedTuple, Protocol

import structlog
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from oracle.daemon.web.answer_cache import is_history
from oracle.daemon.web.api.input_types import AddressInput
from oracle.daemon.web.api.problems import problem, problem_of
from oracle.daemon.web.rate_limit import network_of
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
# How often the index is checked for changes, once for all streams: at the head, and during a
# backfill, when it always has changed.
_LOOK_SECONDS, _HISTORY_LOOK_SECONDS = 1.0, 5.0
# A comment shows proxies and clients that the stream is alive.
_COMMENT_SECONDS = 15.0
_RETRY = b"retry: 3000\n"
_COMMENT = b": still here\n\n"
_AT_ONCE = 500


class EventFilter(NamedTuple):
    """The events that a client requested; None: all kinds, all nodes."""

    kinds: frozenset[str] | None
    node: str | None

    def has(self, event: FeedEvent) -> bool:
        """Return whether the filter accepts an event; reorganisations are always accepted."""
        if event.kind == "reorg":
            return True
        is_kind = self.kinds is None or event.kind in self.kinds
        return is_kind and (self.node is None or event.node == self.node)


class _Batch:
    """The events after a cursor: encoded frames, the events to filter by, and the next cursor."""

    def __init__(self, frames: list[tuple[FeedEvent, bytes]], after: EventCursor) -> None:
        self.after = after
        self._frames = frames
        self._joined: dict[EventFilter, bytes] = {}

    def of(self, wanted: EventFilter) -> bytes:
        """Return the frames that a filter accepts; clients with equal filters share the bytes."""
        if wanted not in self._joined:
            found = (frame for event, frame in self._frames if wanted.has(event))
            self._joined[wanted] = b"".join(found)
        return self._joined[wanted]


class StreamLimits(Protocol):
    """The settings of `[api]` that limit how many streams a server holds open.

    An IPv6 client counts as its /64 network. A stream ends after `stream_seconds`, so that places
    become free; the client resumes it with `Last-Event-ID`.
    """

    @property
    def max_streams(self) -> int:
        """The maximum number of streams of all clients."""
        ...

    @property
    def max_streams_per_address(self) -> int:
        """The maximum number of streams of one client address."""
        ...

    @property
    def stream_seconds(self) -> float:
        """Seconds after which a stream ends."""
        ...


class EventStreams:
    """All event streams of a server; lives in its loop."""

    def __init__(self, source: ApiSource, limits: StreamLimits) -> None:
        self._source = source
        self.limits = limits
        self._open_by_network: Counter[str] = Counter()
        # The index's epoch at the last check; -1: not checked yet.
        self.epoch = -1
        self._is_history = False
        self._batches: dict[EventCursor, _Batch] = {}
        self._moved = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._lock: asyncio.Lock | None = None

    @contextmanager
    def count_stream(self, address: str) -> Iterator[None]:
        """Count a stream of a client; while any is open, one check a second serves all."""
        network = network_of(address)
        self._open_by_network[network] += 1
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._keep_watch())
        try:
            yield
        finally:
            self._open_by_network -= Counter((network,))
            if not self._open_by_network:
                self._watch.cancel()
                self._watch = None

    def capacity_problem(self, address: str) -> Response | None:
        """Return 503 or 429 if the server, or this client, has too many streams."""
        if self._open_by_network.total() >= self.limits.max_streams:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "all event streams are in use")
        limit = self.limits.max_streams_per_address
        if self._open_by_network[network_of(address)] >= limit:
            return problem(
                HTTPStatus.TOO_MANY_REQUESTS, f"your address has {limit} event streams open"
            )
        return None

    async def newest(self) -> EventCursor:
        """Return the cursor after the newest event."""
        return await asyncio.to_thread(self._newest)

    async def after(self, place: EventCursor) -> _Batch:
        """Return the events after a cursor; the batch is shared by all streams at that cursor."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            # The batches of this epoch: a read that is overtaken by the next epoch is not kept for
            # it.
            batches = self._batches
            if place not in batches:
                batches[place] = await asyncio.to_thread(self._read, place)
            return batches[place]

    async def moved(self, epoch: int, seconds: float) -> None:
        """Wait until the index has left `epoch`, at most so many seconds."""
        if self.epoch == epoch:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), seconds)
        if self._watch is not None and self._watch.done():
            self._watch.result()

    async def look(self) -> None:
        """Check whether the index has changed, and wake the waiting streams."""
        epoch, self._is_history = await asyncio.to_thread(self._moved_to)
        if epoch != self.epoch:
            self.epoch, self._batches = epoch, {}
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()

    async def _keep_watch(self) -> None:
        while True:
            try:
                await self.look()
            except OracleError as error:
                structlog.get_logger().debug("event_stream_read_failed", reason=str(error))
            await asyncio.sleep(_HISTORY_LOOK_SECONDS if self._is_history else _LOOK_SECONDS)

    def _newest(self) -> EventCursor:
        with looking(self._source) as look:
            return newest_place(look)

    def _moved_to(self) -> tuple[int, bool]:
        with looking(self._source) as look:
            return look.as_of.epoch, is_history(look.as_of)

    def _read(self, place: EventCursor) -> _Batch:
        with looking(self._source) as look:
            found = events_after(look, place, _AT_ONCE)
        return _Batch(
            [(one.event, frame_of(one)) for one in found], found[-1].after if found else place
        )


def frame_of(one: NumberedEvent) -> bytes:
    """Return the server-sent event frame of an event."""
    data = one.event.model_dump_json()
    return f"id: {one.after}\nevent: {one.event.kind}\ndata: {data}\n\n".encode()


def event_routes(streams: EventStreams) -> APIRouter:
    """Return the router of the event stream."""
    web = APIRouter(prefix="/v1", tags=["events"])

    @web.get(
        "/events",
        operation_id="events",
        response_class=StreamingResponse,
        responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    )
    async def _events(
        request: Request,
        kinds: Annotated[str | None, Query(pattern="^[a-z_]+(,[a-z_]+)*$")] = None,
        node: Annotated[AddressInput | None, Query()] = None,
        after: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Exclusions, recoveries, timeouts, reports, kickouts, reorgs, halts and their ends.

        Each `data` is one event as JSON. With `Last-Event-ID`, or `after`, the stream starts with
        the events since; otherwise with new events only. After `reorg`, discard the events above
        its block: their replacements follow. `kinds` is a comma-separated list.
        """
        address = "" if request.client is None else request.client.host
        if refusal := streams.capacity_problem(address):
            return refusal
        told = last_event_id or after
        try:
            place = EventCursor.parsed(told) if told else await streams.newest()
        except OracleError as error:
            return problem_of(error)
        wanted = EventFilter(None if kinds is None else frozenset(kinds.split(",")), node)
        frames = _frames(streams, address, place, wanted)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(frames, media_type=_MEDIA_TYPE, headers=headers)

    return web


async def _frames(
    streams: EventStreams, address: str, place: EventCursor, wanted: EventFilter
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    said_at = loop.time()
    ends_at = said_at + streams.limits.stream_seconds
    with streams.count_stream(address):
        # The cursor is sent at once, so that a client that is disconnected before the first event
        # can resume.
        yield _RETRY + f"id: {place}\n\n".encode()
        while loop.time() < ends_at:
            epoch = streams.epoch
            try:
                batch = await streams.after(place)
            except OracleError as error:
                structlog.get_logger().debug("event_stream_read_failed", reason=str(error))
                await asyncio.sleep(_LOOK_SECONDS)
                batch = None
            if batch is not None and batch.after != place:
                place = batch.after
                frames = batch.of(wanted)
                if frames:
                    said_at = loop.time()
                    yield frames
                continue
            silent = loop.time() - said_at
            if silent >= _COMMENT_SECONDS:
                said_at, silent = loop.time(), 0.0
                yield _COMMENT
            if batch is not None:
                seconds = min(_COMMENT_SECONDS - silent, max(0.0, ends_at - loop.time()))
                await streams.moved(epoch, seconds)
