"""Collects new notices, delivers the next one to each target, and sends heartbeats.

Heartbeats are periodic messages to a dead man's switch, which raises an alarm when they stop. The
daemon's main loop sends them, so they also stop if the loop hangs. A heartbeat has no sequence
number and is never resent.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import structlog

from oracle.domain.health import HealthReport
from oracle.domain.scoring.rules import Rules
from oracle.errors import OracleError
from oracle.notify.notice_collector import NoticeCollector
from oracle.notify.notice_kinds import NoticeKind
from oracle.notify.target import Message, Target, build_message
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import DeliveryProgress, Notice
from oracle.telemetry import service_metrics
from oracle.telemetry.logging_setup import is_power_of_two

# Notices scanned per call to find one that matches the target's filter.
_MAX_NOTICES_SCANNED = 200
# Max notices that a reorg message lists as retracted.
_MAX_RETRACTED_LISTED = 1_000
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 5, 3600


def compute_backoff_seconds(failure_count: int) -> int:
    """Return the wait after consecutive failures: 5 s, 10 s … up to one hour."""
    return int(min(_MAX_BACKOFF_SECONDS, _MIN_BACKOFF_SECONDS * 2 ** min(failure_count - 1, 20)))


@dataclass(slots=True)
class TargetDelivery:
    """Delivers notices to one target, in order and at least once.

    A delivery is recorded after the message was sent, so a crash in between repeats the message.
    `clock` returns unix seconds.
    """

    target: Target
    store: Store
    clock: Callable[[], float]
    call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    # The notice being delivered.
    _in_flight: Notice | None = None

    def deliver_due_notice(self, wait_seconds: float | None) -> bool:
        """Finish the delivery in flight, or start the next delivery; return whether it succeeded.

        `wait_seconds` limits the wait for a response; None waits until the response arrives.
        """
        self.call.wait_seconds = wait_seconds
        if self._in_flight is None:
            self._in_flight = self._find_next_notice()
        if self._in_flight is None:
            return False
        if not self.call.is_pending:
            with self.store.read_transaction() as uow:
                is_fork = self._in_flight.kind == NoticeKind.REORG
                retracted = self._list_retracted_seqs(uow, self._in_flight) if is_fork else ()
                message = build_message(self._in_flight, retracted)
            self.call.start(lambda: self.target.send(message), f"notify {self.target.name}")
        outcome = self.call.take_finished()
        if outcome is None:
            return False
        notice, self._in_flight = self._in_flight, None
        return self._record_result(notice, outcome)

    def _record_result(self, notice: Notice, outcome: "Future[None]") -> bool:
        """Record a success, or a failure and when to retry; return whether delivery succeeded."""
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            self._record_failure(notice, _describe_failure(error))
            return False
        with self.store.transaction() as uow:
            uow.notices.save_progress(DeliveryProgress(self.target.name, notice.seq))
        service_metrics.NOTIFY_SENT.labels(self.target.name).inc()
        service_metrics.NOTIFY_FAILED.labels(self.target.name).set(0)
        return True

    def _record_failure(self, notice: Notice, reason: str) -> None:
        with self.store.transaction() as uow:
            progress = uow.notices.get_progress(self.target.name)
            progress = progress or DeliveryProgress(self.target.name, 0)
            tries = progress.tries + 1
            next_at = int(self.clock()) + compute_backoff_seconds(tries)
            uow.notices.save_progress(
                replace(progress, tries=tries, next_at=next_at, last_error=reason)
            )
        service_metrics.NOTIFY_FAILED.labels(self.target.name).set(tries)
        if is_power_of_two(tries):
            structlog.get_logger().warning(
                "notice_delivery_failed",
                target=self.target.name,
                seq=notice.seq,
                reason=reason,
                in_a_row=tries,
            )

    def _find_next_notice(self) -> Notice | None:
        """Return the next due notice that matches the filter, or None.

        Notices that do not match are skipped for good.
        """
        with self.store.read_transaction() as uow:
            progress = uow.notices.get_progress(self.target.name)
            if progress is None or self.clock() < progress.next_at:
                return None
            notices = uow.notices.list_after(progress.seq, _MAX_NOTICES_SCANNED)
            selected = next(
                (notice for notice in notices if self._should_deliver(uow, notice)), None
            )
        if notices and selected is None:
            with self.store.transaction() as uow:
                uow.notices.save_progress(DeliveryProgress(self.target.name, notices[-1].seq))
        return selected

    def _should_deliver(self, uow: UnitOfWork, notice: Notice) -> bool:
        """Return whether the target gets a notice.

        A reorg is delivered if it retracted a notice that matches the target's filter.
        """
        if self.target.notice_filter.matches(notice):
            return True
        return notice.kind == NoticeKind.REORG and bool(self._list_retracted_seqs(uow, notice))

    def _list_retracted_seqs(self, uow: UnitOfWork, fork: Notice) -> tuple[int, ...]:
        retracted = uow.notices.list_retracted_by(fork.seq, _MAX_RETRACTED_LISTED)
        return tuple(
            notice.seq for notice in retracted if self.target.notice_filter.matches(notice)
        )


def _describe_failure(error: Exception) -> str:
    # The text of a library's error may contain the address and its tokens.
    return str(error) if isinstance(error, OracleError) else type(error).__name__


# Max messages per run to one target; reached only if the target responds immediately.
_MAX_MESSAGES_PER_RUN = 20


@dataclass(slots=True)
class Notifier:
    """Notifies all targets while the lease is held; a slow target does not delay others."""

    targets: Sequence[Target]
    store: Store
    rules: Rules
    clock: Callable[[], float]
    _collector: NoticeCollector = field(init=False)
    _deliveries: list[TargetDelivery] = field(init=False)

    def __post_init__(self) -> None:
        self._collector = NoticeCollector(self.rules)
        self._deliveries = [
            TargetDelivery(target, self.store, self.clock) for target in self.targets
        ]
        for target in self.targets:
            service_metrics.init_target_metrics(target.name)

    def run_once(self, head: int | None, wait_seconds: float | None) -> bool:
        """Collect and deliver notices; return whether more work may be ready at once.

        `head` is the newest known block, or None. `wait_seconds` limits the wait for each
        response; None waits until the response arrives.
        """
        has_more = self._collect_notices(head)
        for delivery in self._deliveries:
            sent_count = 0
            while sent_count < _MAX_MESSAGES_PER_RUN and delivery.deliver_due_notice(wait_seconds):
                sent_count += 1
            has_more |= sent_count == _MAX_MESSAGES_PER_RUN
        return has_more

    def _collect_notices(self, head: int | None) -> bool:
        with self.store.read_transaction() as uow:
            is_due = self._collector.is_due(uow)
            newest = uow.notices.get_newest_seq()
            progress_by_target = {
                progress.target: progress for progress in uow.notices.list_progress()
            }
        configured = {target.name: progress_by_target.get(target.name) for target in self.targets}
        for name, progress in configured.items():
            if progress is not None:
                service_metrics.NOTIFY_WAITING.labels(name).set(newest - progress.seq)
                service_metrics.NOTIFY_FAILED.labels(name).set(progress.tries)
        new_names = [name for name, progress in configured.items() if progress is None]
        if not is_due and not new_names:
            return False
        try:
            with self.store.transaction() as uow:
                cursor = uow.cursor.get()
                # A new target gets only notices from now on.
                for name in new_names:
                    uow.notices.save_progress(DeliveryProgress(name, newest))
                is_at_head = cursor is not None and head is not None and cursor.number >= head
                return self._collector.collect_notices(uow, is_at_head=is_at_head)
        except BaseException:
            # The collector's memory refers to rows that were rolled back.
            self._collector = NoticeCollector(self.rules)
            raise


@dataclass(slots=True)
class Heartbeat:
    """Sends heartbeats to one target every `interval_seconds`; `clock` is monotonic."""

    target: Target
    interval_seconds: float
    clock: Callable[[], float]
    _call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    _next_at: float = 0.0

    def send_if_due(self, health: HealthReport, time: int) -> None:
        """Send a heartbeat if one is due, without waiting for the response."""
        self._call.wait_seconds = 0.0
        if self._call.is_pending:
            self._log_failed_delivery()
            return
        now = self.clock()
        if now < self._next_at:
            return
        self._next_at = now + self.interval_seconds
        text = f"heartbeat: {health.format_line()}"
        body = {"kind": "heartbeat", "time": time, "text": text, "health": health.to_dict()}
        message = Message("heartbeat", "heartbeat", text, body)
        self._call.start(lambda: self.target.send(message), f"heartbeat {self.target.name}")

    def _log_failed_delivery(self) -> None:
        outcome = self._call.take_finished()
        if outcome is None:
            return
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            structlog.get_logger().warning(
                "heartbeat_delivery_failed",
                target=self.target.name,
                reason=_describe_failure(error),
            )
