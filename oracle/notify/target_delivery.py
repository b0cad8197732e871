"""Delivers stored notices to one target, in order and at least once."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from oracle.errors import OracleError
from oracle.notify.notice_kinds import NoticeKind
from oracle.notify.target import Target, build_notice_message
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import MAX_RETRY_SECONDS, DeliveryProgress, Notice
from oracle.telemetry import service_metrics
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two

# Maximum number of notices that a call reads in search of a notice that matches the target's
# filter.
_MAX_NOTICES_SCANNED = 200
# Maximum number of notices that the message of a reorg lists as retracted.
_MAX_RETRACTED_LISTED = 1_000
_MIN_BACKOFF_SECONDS = 5


def compute_backoff_seconds(failure_count: int) -> int:
    """Return the wait after consecutive failures: 5 s, 10 s, … up to one hour."""
    return int(min(MAX_RETRY_SECONDS, _MIN_BACKOFF_SECONDS * 2 ** min(failure_count - 1, 20)))


@dataclass(slots=True)
class TargetDelivery:
    """Delivers notices to a target, in order and at least once.

    A delivery is recorded after the message was sent, so the message is sent again if the process
    crashes in between. `clock` returns unix seconds.
    """

    target: Target
    store: Store
    clock: Callable[[], float]
    call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    # The notice being delivered, or None.
    _in_flight: Notice | None = None

    def deliver_due_notice(self, wait_seconds: float | None) -> bool:
        """Finish the delivery in flight or start the next one.

        Return whether it succeeded. `wait_seconds` limits the wait for a response; None waits
        until the response arrives.
        """
        self.call.wait_seconds = wait_seconds
        if self._in_flight is None:
            self._in_flight = self._find_next_notice()
        if self._in_flight is None:
            return False
        if not self.call.is_pending:
            with self.store.read_transaction() as uow:
                is_reorg_notice = self._in_flight.kind == NoticeKind.REORG
                retracted_seqs = (
                    self._list_retracted_seqs(uow, self._in_flight) if is_reorg_notice else ()
                )
                message = build_notice_message(self._in_flight, retracted_seqs)
            self.call.start(lambda: self.target.send(message), f"notify {self.target.name}")
        finished_call = self.call.take_finished_call()
        if finished_call is None:
            return False
        notice, self._in_flight = self._in_flight, None
        return self._record_result(notice, finished_call)

    def _record_result(self, notice: Notice, outcome: "Future[None]") -> bool:
        """Record a success, or a failure with the time of the retry.

        Return whether the delivery succeeded.
        """
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            self._record_failure(notice, describe_delivery_failure(error))
            return False
        with self.store.transaction() as uow:
            self.save_progress(uow, DeliveryProgress(self.target.name, notice.seq))
        self.report_success()
        return True

    def _record_failure(self, notice: Notice, reason: str) -> None:
        with self.store.transaction() as uow:
            progress = uow.notices.find_progress(self.target.name)
            progress = progress or DeliveryProgress(self.target.name, 0)
            tries = progress.tries + 1
            next_at = int(self.clock()) + compute_backoff_seconds(tries)
            self.save_progress(
                uow, replace(progress, tries=tries, next_at=next_at, last_error=reason)
            )
        self.report_failure(notice, tries, reason)

    def save_progress(self, uow: UnitOfWork, progress: DeliveryProgress) -> None:
        """Save how far notices were delivered to the target."""
        uow.notices.save_progress(progress)

    def report_success(self) -> None:
        """Count a delivered message."""
        service_metrics.NOTIFY_SENT.labels(self.target.name).inc()
        service_metrics.NOTIFY_FAILED.labels(self.target.name).set(0)

    def report_failure(self, notice: Notice, tries: int, reason: str) -> None:
        """Count a failed try, and log the 1st, 2nd, 4th, 8th … in a row."""
        service_metrics.NOTIFY_FAILED.labels(self.target.name).set(tries)
        if is_power_of_two(tries):
            get_logger().warning(
                "notice_delivery_failed",
                target=self.target.name,
                seq=notice.seq,
                reason=reason,
                in_a_row=tries,
            )

    def _find_next_notice(self) -> Notice | None:
        """Return the next due notice that matches the filter, if there is one.

        Notices that do not match are skipped, and are not examined again.
        """
        with self.store.read_transaction() as uow:
            progress = uow.notices.find_progress(self.target.name)
            if progress is None or not progress.is_due(self.clock()):
                return None
            notices = uow.notices.list_after(progress.seq, _MAX_NOTICES_SCANNED)
            next_notice = next(
                (notice for notice in notices if self._should_deliver_notice(uow, notice)), None
            )
        if notices and next_notice is None:
            with self.store.transaction() as uow:
                self.save_progress(uow, DeliveryProgress(self.target.name, notices[-1].seq))
        return next_notice

    def _should_deliver_notice(self, uow: UnitOfWork, notice: Notice) -> bool:
        """Return whether the target should get a notice.

        A reorg is delivered if it retracted a notice that matches the target's filter.
        """
        if self.target.notice_filter.matches(notice):
            return True
        return notice.kind == NoticeKind.REORG and bool(self._list_retracted_seqs(uow, notice))

    def _list_retracted_seqs(self, uow: UnitOfWork, reorg_notice: Notice) -> tuple[int, ...]:
        retracted_notices = uow.notices.list_retracted_by(reorg_notice.seq, _MAX_RETRACTED_LISTED)
        return tuple(
            notice.seq for notice in retracted_notices if self.target.notice_filter.matches(notice)
        )


def describe_delivery_failure(error: Exception) -> str:
    """Return the message of the daemon's own error, or only the type of a library's error."""
    # The message of a library's error may contain the target's URL with its tokens. Only the type
    # is therefore shown.
    return str(error) if isinstance(error, OracleError) else type(error).__name__
