"""The daemon's jobs for a feed beside the chain: poll, reread old rows, compare with a second feed.

Each answer is awaited on a separate thread: the head does not wait longer for a slow feed than for
other requests (docs/explanation/feed.md#a-poll).
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import structlog

from oracle.chain.feed.feed_client import FeedAnswer, FeedClient
from oracle.chain.feed.relay_reader import is_unknown
from oracle.daemon.config.section_values import feed_client
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.records import Records
from oracle.daemon.scheduler import Facts, Job
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.feed_rows import FeedFault
from oracle.errors import TransientError
from oracle.indexer.feeds.feed_faults import HOLDING
from oracle.indexer.feeds.reread import REREAD_IDS, reread_start, take_comparison, take_reread
from oracle.indexer.feeds.take_in import next_start, take_in
from oracle.rpc.background import BackgroundCall
from oracle.store.raw.feed_repository import FeedCursor
from oracle.telemetry import feed_metrics

# How often to check whether old rows are due for a reread, or rows for a comparison.
CHECK_SECONDS = 10.0
# A server may cap its pages at a single row; the last page is the empty one.
_REREAD_PAGES = REREAD_IDS + 1


@dataclass(slots=True)
class FeedJobs:
    """The state that the feed jobs share; `health.feed` holds why the feed makes it unready.

    `max_wait_seconds` is how many seconds a tick waits for an answer; None: until the answer
    arrives. `clock` returns monotonic seconds, `wall_clock` unix seconds.
    """

    records: Records
    health: DaemonHealth
    patience: float | None
    feed: FeedClient
    second: FeedClient | None = None
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = unix_seconds
    _polling: BackgroundCall[FeedAnswer] = field(default_factory=BackgroundCall)
    _rereading: BackgroundCall[FeedAnswer] = field(default_factory=BackgroundCall)
    _comparing: BackgroundCall[FeedAnswer] = field(default_factory=BackgroundCall)
    # Whether the previous poll left rows unread; and whether the end of the feed was seen since
    # the last new row. If it was, reading known rows again is not a backlog.
    _reads_on: bool = False
    _has_seen_end: bool = False
    _polled_at: float | None = None

    def jobs(self) -> list[Job]:
        """Return the jobs that read the feed."""
        poll = self.records.config.feed.poll_seconds
        return [Job("feed", poll, self.poll), Job("feed check", CHECK_SECONDS, self.check)]

    def poll(self) -> Facts:
        """Request new rows from the feed, or store the rows that arrived."""
        try:
            answer = self._polled()
            taken = None if answer is None else self._taken(answer)
        except TransientError:
            feed_metrics.POLLS.labels("failed").inc()
            self._reads_on = False
            raise
        finally:
            self.show()
        return taken

    def _polled(self) -> FeedAnswer | None:
        settings = self.records.config.feed
        if not self._polling.is_out:
            is_early = (
                self._polled_at is not None
                and self.clock() - self._polled_at < settings.poll_seconds
            )
            if is_early and not self._reads_on and self.patience is not None:
                return None
            start = next_start(self.records.store, settings, reads_on=self._reads_on)
            if start is None:
                return None
            self._polled_at = self.clock()
            self._polling.begin(lambda: self.feed.ask(start, settings.page_rows), "feed")
        return _result(self._polling, self.patience)

    def _taken(self, answer: FeedAnswer) -> Facts:
        taken = take_in(self.records.store, answer, self.records.config.feed, self.wall())
        if taken is None:
            return None
        self._reads_on = not answer.is_whole
        self._has_seen_end = answer.is_whole or (self._has_seen_end and not taken.rows)
        feed_metrics.POLLS.labels("taken").inc()
        feed_metrics.ROWS.inc(taken.rows)
        feed_metrics.UNKNOWN_ROWS.inc(sum(map(is_unknown, answer.rows[-taken.rows :])))
        self._tell(taken.faults)
        if not (taken.rows or taken.settled or taken.faults or self._is_behind):
            return None
        return {"did": "read the feed", "rows": taken.rows, "settled": taken.settled}

    @property
    def _is_behind(self) -> bool:
        """Whether unread rows may follow."""
        return self._reads_on and not self._has_seen_end

    def check(self) -> Facts:
        """Read old rows again, and compare rows with the second feed."""
        with self.records.store.reading() as uow:
            cursor = uow.feed.cursor()
        if cursor is None:
            return None
        found = [*self._reread(cursor), *self._compared(cursor)]
        self._tell(found)
        return {"did": "checked the feed", "faults": len(found)} if found else None

    def _reread(self, cursor: FeedCursor) -> tuple[FeedFault, ...]:
        settings, call = self.records.config.feed, self._rereading
        if not call.is_out:
            if cursor.asked_at - cursor.reread_at < settings.reread_seconds:
                return ()
            start = reread_start(cursor)
            call.begin(
                lambda: self.feed.ask(start, settings.page_rows, _REREAD_PAGES), "feed again"
            )
        answer = _result(call, self.patience)
        return () if answer is None else take_reread(self.records.store, answer)

    def _compared(self, cursor: FeedCursor) -> tuple[FeedFault, ...]:
        second, call = self.second, self._comparing
        if second is None:
            return ()
        if not call.is_out:
            if cursor.compared_id >= cursor.settled_id:
                return ()
            rows = self.records.config.feed.page_rows
            call.begin(lambda: second.ask(cursor.compared_id, rows, 1), "second feed")
        answer = _result(call, self.patience)
        return () if answer is None else take_comparison(self.records.store, answer, second.name)

    def _tell(self, faults: tuple[FeedFault, ...] | list[FeedFault]) -> None:
        for one in faults:
            log = structlog.get_logger()
            log.error("feed_fault_detected", kind=one.kind, row=one.row, detail=one.detail)

    def show(self) -> None:
        """Update `/metrics` and `/readyz` with the state of the feed."""
        with self.records.store.reading() as uow:
            cursor = uow.feed.cursor()
            faults = sum(one.kind in HOLDING for one in uow.feed.faults(is_open=True))
            waiting = uow.feed.counts()[1]
        feed_metrics.OPEN_FAULTS.set(faults)
        feed_metrics.WAITING.set(waiting)
        self.health.feed = "was not read yet" if cursor is None else None
        if cursor is not None:
            silent = cursor.asked_at - cursor.changed_at
            feed_metrics.STUCK_SECONDS.set(max(0.0, self.wall() - cursor.asked_at))
            feed_metrics.SILENT_SECONDS.set(silent)
            if self._is_behind:
                self.health.feed = f"is read up to row {cursor.highest_id} only; more rows follow"
            elif silent >= self.records.config.feed.silent_seconds:
                self.health.feed = f"has told no new row for {silent} s"


def _result(call: BackgroundCall[FeedAnswer], patience: float | None) -> FeedAnswer | None:
    """Return the answer of a background call, or None while the call is running."""
    call.wait_seconds = patience
    ended = call.take()
    return None if ended is None else ended.result()


def open_feed_jobs(
    records: Records, health: DaemonHealth, patience: float | None, closing: ExitStack
) -> FeedJobs | None:
    """Open the feed of `[feed]` until `exit_stack` closes it; return None if there is none."""
    section = records.config.feed
    first, second = feed_client(section, "url"), feed_client(section, "compare_url")
    for client in (first, second):
        if client is not None:
            closing.callback(client.close)
    return None if first is None else FeedJobs(records, health, patience, first, second)
