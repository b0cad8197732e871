"""Serves `/v1/events`, a stream of server-sent events that clients can resume by event id.

Events are encoded once for all clients. No transaction is open while a stream waits, because each
check of the database has its own transaction.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Annotated, NamedTuple, Protocol

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from oracle.daemon.web.answer_cache import is_backfilling
from oracle.daemon.web.api.answering import build_problem_from_error, build_problem_response
from oracle.daemon.web.api.input_types import AddressInput
from oracle.daemon.web.rate_limit import get_client_network
from oracle.errors import OracleError
from oracle.queries.api.records.event_feed import (
    ID_PATTERN,
    EventCursor,
    FeedEvent,
    NumberedEvent,
    get_newest_event_cursor,
    load_events_since,
)
from oracle.queries.api.source import ApiSource, open_snapshot
from oracle.telemetry.logger import get_logger

_MEDIA_TYPE = "text/event-stream"
# One check of the index for changes serves all streams. The index is checked after each commit,
# and at least at the first interval (in seconds). During a backfill, when the index always
# changes, it is checked at the second interval instead.
_CHECK_SECONDS, _HISTORY_CHECK_SECONDS = 1.0, 5.0
# The minimum time between two checks, so that many commits in quick succession cost little.
_MIN_CHECK_SECONDS = 0.02
# The wait is short, because each wait for a commit occupies a thread, and a closing server has to
# wait for that thread.
_COMMIT_WAIT_SECONDS = 0.25
# At this interval in seconds, a comment shows proxies and clients that the stream is alive.
_COMMENT_SECONDS = 15.0
_RETRY = b"retry: 3000\n"
_COMMENT = b": still here\n\n"
_MAX_BATCH_EVENTS = 500


class EventFilter(NamedTuple):
    """The event kinds and the node that a client requested; None selects all."""

    kinds: frozenset[str] | None
    node: str | None

    def matches_event(self, event: FeedEvent) -> bool:
        """Return whether the filter accepts an event; reorgs are always accepted."""
        if event.kind == "reorg":
            return True
        is_kind = self.kinds is None or event.kind in self.kinds
        return is_kind and (self.node is None or event.node == self.node)


class _EventBatch:
    """The events after a cursor, as encoded frames and as objects, with the next cursor."""

    def __init__(self, frames: list[tuple[FeedEvent, bytes]], after: EventCursor) -> None:
        self.after = after
        self._frames = frames
        self._bytes_by_filter: dict[EventFilter, bytes] = {}

    def encode_frames(self, event_filter: EventFilter) -> bytes:
        """Return the encoded frames that a filter accepts.

        Clients with equal filters share the bytes.
        """
        if event_filter not in self._bytes_by_filter:
            matching_frames = (
                frame for event, frame in self._frames if event_filter.matches_event(event)
            )
            self._bytes_by_filter[event_filter] = b"".join(matching_frames)
        return self._bytes_by_filter[event_filter]


class StreamLimits(Protocol):
    """The `[api]` settings that limit how many streams a server keeps open.

    An IPv6 client counts as its /64 network. A stream ends after `stream_seconds`, so that other
    clients can connect; its client resumes it with `Last-Event-ID`.
    """

    @property
    def max_streams(self) -> int:
        """The maximum number of streams in total."""
        ...

    @property
    def max_streams_per_address(self) -> int:
        """The maximum number of streams per client address."""
        ...

    @property
    def stream_seconds(self) -> float:
        """The number of seconds after which a stream ends."""
        ...


class EventStreams:
    """All event streams of a server; used only in the server's event loop."""

    def __init__(self, source: ApiSource, limits: StreamLimits) -> None:
        self._source = source
        self.limits = limits
        self._open_by_network: Counter[str] = Counter()
        # The index's epoch at the last check, or -1 before the first.
        self.epoch = -1
        self._is_history = False
        self._batches: dict[EventCursor, _EventBatch] = {}
        self._changed = asyncio.Event()
        self._commits = source.archive.store.watch_commits()
        self._watch_task: asyncio.Task[None] | None = None
        self._lock: asyncio.Lock | None = None

    @contextmanager
    def track_open_stream(self, address: str) -> Iterator[None]:
        """Count a client's open stream, and watch the index while any stream is open."""
        network = get_client_network(address)
        self._open_by_network[network] += 1
        if self._watch_task is None:
            self._watch_task = asyncio.get_running_loop().create_task(self._watch_index())
        try:
            yield
        finally:
            self._open_by_network -= Counter((network,))
            if not self._open_by_network:
                self._watch_task.cancel()
                self._watch_task = None

    def find_capacity_problem(self, address: str) -> Response | None:
        """Return a 503 or 429 response if the server or the client has too many streams."""
        if self._open_by_network.total() >= self.limits.max_streams:
            return build_problem_response(
                HTTPStatus.SERVICE_UNAVAILABLE, "all event streams are in use"
            )
        limit = self.limits.max_streams_per_address
        if self._open_by_network[get_client_network(address)] >= limit:
            return build_problem_response(
                HTTPStatus.TOO_MANY_REQUESTS, f"your address has {limit} event streams open"
            )
        return None

    async def get_newest_cursor(self) -> EventCursor:
        """Return the cursor after the newest event."""
        return await asyncio.to_thread(self._read_newest_cursor)

    async def read_events_since(self, cursor: EventCursor) -> _EventBatch:
        """Return the batch of events after a cursor, shared by all streams at that cursor."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            # Keep a reference to the dict before reading. If the epoch changes meanwhile, the
            # batch must not be stored in the dict of the new epoch.
            batches = self._batches
            if cursor not in batches:
                batches[cursor] = await asyncio.to_thread(self._read_batch, cursor)
            return batches[cursor]

    async def wait_for_change(self, epoch: int, seconds: float) -> None:
        """Wait up to `seconds` until the index's epoch is no longer `epoch`."""
        if self.epoch == epoch:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        if self._watch_task is not None and self._watch_task.done():
            self._watch_task.result()

    async def check_for_change(self) -> None:
        """Check whether the index has changed, and if so wake the waiting streams."""
        epoch, self._is_history = await asyncio.to_thread(self._read_index_epoch)
        if epoch != self.epoch:
            self.epoch, self._batches = epoch, {}
            changed = self._changed
            self._changed = asyncio.Event()
            changed.set()

    async def _watch_index(self) -> None:
        while True:
            try:
                await self.check_for_change()
            except OracleError as error:
                get_logger().debug("event_stream_read_failed", reason=str(error))
            await asyncio.sleep(_HISTORY_CHECK_SECONDS if self._is_history else _MIN_CHECK_SECONDS)
            if not self._is_history:
                await self._wait_for_commit()

    async def _wait_for_commit(self) -> None:
        """Wait up to `_CHECK_SECONDS` until any process commits to the database."""
        for _ in range(round(_CHECK_SECONDS / _COMMIT_WAIT_SECONDS)):
            if await asyncio.to_thread(self._commits.wait, _COMMIT_WAIT_SECONDS):
                return

    def _read_newest_cursor(self) -> EventCursor:
        with open_snapshot(self._source) as snapshot:
            return get_newest_event_cursor(snapshot)

    def _read_index_epoch(self) -> tuple[int, bool]:
        with open_snapshot(self._source) as snapshot:
            return snapshot.as_of.epoch, is_backfilling(snapshot.as_of)

    def _read_batch(self, cursor: EventCursor) -> _EventBatch:
        with open_snapshot(self._source) as snapshot:
            numbered_events = load_events_since(snapshot, cursor, _MAX_BATCH_EVENTS)
        return _EventBatch(
            [
                (numbered_event.event, encode_frame(numbered_event))
                for numbered_event in numbered_events
            ],
            numbered_events[-1].cursor_after if numbered_events else cursor,
        )


def encode_frame(numbered_event: NumberedEvent) -> bytes:
    """Encode an event as a server-sent event frame."""
    data = numbered_event.event.model_dump_json()
    return (
        f"id: {numbered_event.cursor_after}\nevent: {numbered_event.event.kind}\ndata: {data}\n\n"
    ).encode()


def build_event_routes(streams: EventStreams) -> APIRouter:
    """Build the router for the event stream."""
    router = APIRouter(prefix="/v1", tags=["events"])

    @router.get(
        "/events",
        operation_id="events",
        response_class=StreamingResponse,
        responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    )
    async def _stream_events(
        request: Request,
        kinds: Annotated[str | None, Query(pattern="^[a-z_]+(,[a-z_]+)*$")] = None,
        node: Annotated[AddressInput | None, Query()] = None,
        after: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Stream exclusions, recoveries, timeouts, reports, kickouts, reorgs and halts.

        Each `data` is one event as JSON. With `Last-Event-ID`, or `after`, the stream starts with
        the events since then; otherwise it has only new events. After `reorg`, discard the events
        above its block: their replacements follow. `kinds` is a comma-separated list.
        """
        client_address = "" if request.client is None else request.client.host
        if capacity_problem := streams.find_capacity_problem(client_address):
            return capacity_problem
        resume_id = last_event_id or after
        try:
            cursor = (
                EventCursor.parse(resume_id) if resume_id else await streams.get_newest_cursor()
            )
        except OracleError as error:
            return build_problem_from_error(error)
        event_filter = EventFilter(None if kinds is None else frozenset(kinds.split(",")), node)
        frames = _generate_event_frames(streams, client_address, cursor, event_filter)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(frames, media_type=_MEDIA_TYPE, headers=headers)

    return router


async def _generate_event_frames(
    streams: EventStreams, address: str, cursor: EventCursor, event_filter: EventFilter
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    frame_sent_at = loop.time()
    ends_at = frame_sent_at + streams.limits.stream_seconds
    with streams.track_open_stream(address):
        # Send the cursor at once, so that even a client that is disconnected before the first
        # event can resume.
        yield _RETRY + f"id: {cursor}\n\n".encode()
        while loop.time() < ends_at:
            epoch = streams.epoch
            try:
                event_batch = await streams.read_events_since(cursor)
            except OracleError as error:
                get_logger().debug("event_stream_read_failed", reason=str(error))
                await asyncio.sleep(_CHECK_SECONDS)
                event_batch = None
            if event_batch is not None and event_batch.after != cursor:
                cursor = event_batch.after
                frames = event_batch.encode_frames(event_filter)
                if frames:
                    frame_sent_at = loop.time()
                    yield frames
                continue
            silent_seconds = loop.time() - frame_sent_at
            if silent_seconds >= _COMMENT_SECONDS:
                frame_sent_at = loop.time()
                silent_seconds = 0.0
                yield _COMMENT
            if event_batch is not None:
                seconds = min(_COMMENT_SECONDS - silent_seconds, max(0.0, ends_at - loop.time()))
                await streams.wait_for_change(epoch, seconds)
