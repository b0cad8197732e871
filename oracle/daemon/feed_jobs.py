"""The daemon's feed jobs, which poll new rows, reread old rows, and compare two feeds.

A separate thread waits for each response, so that a slow feed does not delay indexing
(docs/explanation/feed.md#polling).
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from oracle.chain.feed.feed_client import FeedClient, FeedPoll
from oracle.chain.feed.relay_reader import has_unknown_kind
from oracle.daemon.config.feed_section import FeedSection
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.records import Records
from oracle.daemon.scheduler import Job, TickFacts
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.feed_rows import FeedFault
from oracle.errors import TransientError
from oracle.indexer.feed_faults import HOLDING_KINDS
from oracle.indexer.feed_polls import (
    REREAD_ROWS,
    compare_with_second_feed,
    get_next_poll_start_id,
    get_reread_start_id,
    ingest_poll_response,
    ingest_reread_response,
)
from oracle.rpc.background import BackgroundCall
from oracle.store.raw.feed_repository import FeedCursor
from oracle.telemetry import indexer_metrics
from oracle.telemetry.logger import get_logger

# Interval, in seconds, between checks whether a reread of old rows or a comparison of feeds is
# due.
CHECK_SECONDS = 10.0
# Maximum number of pages per reread. A server may return a single row per page, and then an empty
# last page.
_REREAD_PAGES = REREAD_ROWS + 1


@dataclass(slots=True)
class FeedJobs:
    """The jobs that poll and recheck the feed, with their shared state.

    `health.feed_fault` is set to the reason why the feed is unreliable. A tick waits for a
    response for at most `max_wait_seconds`, or without limit if it is None. `clock` returns
    monotonic seconds, and `wall_clock` returns unix seconds.
    """

    records: Records
    health: DaemonHealth
    max_wait_seconds: float | None
    feed: FeedClient
    second_feed: FeedClient | None = None
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = unix_seconds
    _poll_call: BackgroundCall[FeedPoll] = field(default_factory=BackgroundCall)
    _reread_call: BackgroundCall[FeedPoll] = field(default_factory=BackgroundCall)
    _compare_call: BackgroundCall[FeedPoll] = field(default_factory=BackgroundCall)
    # True if the previous poll stopped before the end of the feed.
    _has_more_rows: bool = False
    # True if the end of the feed has been reached since the last new row. In that case, the rows
    # of the next poll are not a backlog.
    _has_seen_end: bool = False
    _polled_at: float | None = None

    def build_jobs(self) -> list[Job]:
        poll_seconds = self.records.config.feed.poll_seconds
        return [
            Job("feed", poll_seconds, self.poll_feed),
            Job("feed check", CHECK_SECONDS, self.recheck_old_rows),
        ]

    def poll_feed(self) -> TickFacts:
        """Request new rows from the feed, or store rows that have arrived."""
        try:
            feed_poll = self._fetch_new_rows()
            tick_facts = None if feed_poll is None else self._store_new_rows(feed_poll)
        except TransientError:
            indexer_metrics.FEED_POLLS.labels("failed").inc()
            self._has_more_rows = False
            raise
        finally:
            self.update_health()
        return tick_facts

    def _fetch_new_rows(self) -> FeedPoll | None:
        feed_section = self.records.config.feed
        if not self._poll_call.is_pending:
            is_early = (
                self._polled_at is not None
                and self.clock() - self._polled_at < feed_section.poll_seconds
            )
            if is_early and not self._has_more_rows and self.max_wait_seconds is not None:
                return None
            start_id = get_next_poll_start_id(
                self.records.store, feed_section, is_continuation=self._has_more_rows
            )
            if start_id is None:
                return None
            self._polled_at = self.clock()
            self._poll_call.start(lambda: self.feed.poll(start_id, feed_section.page_rows), "feed")
        return _take_finished_poll(self._poll_call, self.max_wait_seconds)

    def _store_new_rows(self, poll: FeedPoll) -> TickFacts:
        poll_result = ingest_poll_response(
            self.records.store, poll, self.records.config.feed, self.wall_clock()
        )
        if poll_result is None:
            return None
        self._has_more_rows = not poll.is_complete
        self._has_seen_end = poll.is_complete or (self._has_seen_end and not poll_result.row_count)
        indexer_metrics.FEED_POLLS.labels("taken").inc()
        indexer_metrics.FEED_ROWS.inc(poll_result.row_count)
        indexer_metrics.FEED_UNKNOWN_ROWS.inc(
            sum(map(has_unknown_kind, poll.rows[-poll_result.row_count :]))
        )
        self._log_faults(poll_result.faults)
        if not (
            poll_result.row_count
            or poll_result.settled_count
            or poll_result.faults
            or self._has_possible_unread_rows
        ):
            return None
        return {
            "did": "read the feed",
            "rows": poll_result.row_count,
            "settled": poll_result.settled_count,
        }

    @property
    def _has_possible_unread_rows(self) -> bool:
        return self._has_more_rows and not self._has_seen_end

    def recheck_old_rows(self) -> TickFacts:
        """Reread old rows, and compare rows with the second feed."""
        with self.records.store.read_transaction() as uow:
            cursor = uow.feed.get_cursor()
        if cursor is None:
            return None
        faults = [*self._reread_old_rows(cursor), *self._compare_second_feed(cursor)]
        self._log_faults(faults)
        return {"did": "checked the feed", "faults": len(faults)} if faults else None

    def _reread_old_rows(self, cursor: FeedCursor) -> tuple[FeedFault, ...]:
        settings, call = self.records.config.feed, self._reread_call
        if not call.is_pending:
            if cursor.polled_at - cursor.reread_at < settings.reread_seconds:
                return ()
            start_id = get_reread_start_id(cursor)
            call.start(
                lambda: self.feed.poll(start_id, settings.page_rows, _REREAD_PAGES), "feed again"
            )
        finished_poll = _take_finished_poll(call, self.max_wait_seconds)
        return (
            ()
            if finished_poll is None
            else ingest_reread_response(self.records.store, finished_poll)
        )

    def _compare_second_feed(self, cursor: FeedCursor) -> tuple[FeedFault, ...]:
        second_feed, call = self.second_feed, self._compare_call
        if second_feed is None:
            return ()
        if not call.is_pending:
            if cursor.compared_id >= cursor.settled_id:
                return ()
            page_rows = self.records.config.feed.page_rows
            call.start(lambda: second_feed.poll(cursor.compared_id, page_rows, 1), "second feed")
        finished_poll = _take_finished_poll(call, self.max_wait_seconds)
        if finished_poll is None:
            return ()
        return compare_with_second_feed(self.records.store, finished_poll, second_feed.name)

    def _log_faults(self, faults: tuple[FeedFault, ...] | list[FeedFault]) -> None:
        for fault in faults:
            logger = get_logger()
            logger.error(
                "feed_fault_detected", kind=fault.kind, row=fault.row, detail=fault.detail
            )

    def update_health(self) -> None:
        """Update `/metrics` and `/readyz` with the state of the feed."""
        with self.records.store.read_transaction() as uow:
            cursor = uow.feed.get_cursor()
            fault_count = sum(
                fault.kind in HOLDING_KINDS for fault in uow.feed.list_faults(is_open=True)
            )
            waiting_rows = uow.feed.count_folded_and_waiting_rows()[1]
        indexer_metrics.FEED_OPEN_FAULTS.set(fault_count)
        indexer_metrics.FEED_WAITING_ROWS.set(waiting_rows)
        self.health.feed_fault = "not read yet" if cursor is None else None
        if cursor is not None:
            silent_seconds = cursor.polled_at - cursor.changed_at
            indexer_metrics.FEED_STUCK_SECONDS.set(max(0.0, self.wall_clock() - cursor.polled_at))
            indexer_metrics.FEED_SILENT_SECONDS.set(silent_seconds)
            if self._has_possible_unread_rows:
                self.health.feed_fault = (
                    f"is read up to row {cursor.highest_id} only; more rows follow"
                )
            elif silent_seconds >= self.records.config.feed.silent_seconds:
                self.health.feed_fault = f"no new row for {silent_seconds} s"


def _take_finished_poll(
    call: BackgroundCall[FeedPoll], max_wait_seconds: float | None
) -> FeedPoll | None:
    """Return the poll of a finished background call, or None while it is running."""
    call.wait_seconds = max_wait_seconds
    finished_call = call.take_finished_call()
    return None if finished_call is None else finished_call.result()


def open_feed_jobs(
    records: Records, health: DaemonHealth, max_wait_seconds: float | None, exit_stack: ExitStack
) -> FeedJobs | None:
    """Open the configured feeds and return their jobs, or None if no feed is configured.

    `exit_stack` closes the feeds.
    """
    feed_section = records.config.feed
    first_client = _build_feed_client(feed_section, "url")
    second_client = _build_feed_client(feed_section, "compare_url")
    for client in (first_client, second_client):
        if client is not None:
            exit_stack.callback(client.close)
    if first_client is None:
        return None
    return FeedJobs(records, health, max_wait_seconds, first_client, second_client)


def _build_feed_client(
    feed: FeedSection, setting: Literal["url", "compare_url"]
) -> FeedClient | None:
    """Build a client of the first or second feed, or return None if it is not configured."""
    url = feed.url if setting == "url" else feed.compare_url
    if url is None:
        return None
    max_bytes = feed.max_response_mib * 2**20
    return FeedClient(url, f"feed.{setting}", feed.timeout_seconds, max_bytes)
