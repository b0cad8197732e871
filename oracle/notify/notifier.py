"""Collects new notices and delivers the next one to each target."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import structlog

from oracle.domain.scoring.rules import Rules
from oracle.errors import OracleError
from oracle.notify.notice_collector import NoticeCollector
from oracle.notify.notice_kinds import NoticeKind
from oracle.notify.target import Message, Target, message_of
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import Notice, TargetPlace
from oracle.telemetry import notify_metrics
from oracle.telemetry.logging_setup import is_power_of_two

# Notices scanned per call to find one that matches the target's filter.
_LOOKED_AT = 200
# Notices that a reorg message lists as retracted.
_MOST_UNDONE = 1_000
_LEAST_BACKOFF, _MOST_BACKOFF = 5, 3600


def backoff_seconds(tries: int) -> int:
    """Return the wait after this many failures in a row: 5 s, 10 s … one hour."""
    return int(min(_MOST_BACKOFF, _LEAST_BACKOFF * 2 ** min(tries - 1, 20)))


@dataclass(slots=True)
class Delivery:
    """Delivers notices to one target, in order and at least once; `clock` in unix seconds.

    A delivery is recorded after it was made, so a crash in between repeats it.
    """

    target: Target
    store: Store
    clock: Callable[[], float]
    call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    # The notice being delivered.
    _out: Notice | None = None

    def deliver_due(self, wait_seconds: float | None) -> bool:
        """Finish the delivery in flight, or start the next; return whether one succeeded.

        `wait_seconds` limits the wait for a response; None waits until it arrives.
        """
        self.call.wait_seconds = wait_seconds
        if self._out is None:
            self._out = self._next()
        if self._out is None:
            return False
        if not self.call.is_out:
            with self.store.reading() as uow:
                message = self._message(uow, self._out)
            self.call.begin(lambda: self.target.send(message), f"notify {self.target.name}")
        ended = self.call.take()
        if ended is None:
            return False
        told, self._out = self._out, None
        return self._record_result(told, ended)

    def _record_result(self, told: Notice, ended: "Future[None]") -> bool:
        """Record the success, or the time of the next try; return whether it succeeded."""
        try:
            ended.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            # An error of a library may contain the address and its tokens.
            reason = str(error) if isinstance(error, OracleError) else type(error).__name__
            self._record_failure(told, reason)
            return False
        with self.store.transaction() as uow:
            uow.notices.set_place(TargetPlace(self.target.name, told.seq))
        notify_metrics.SENT.labels(self.target.name).inc()
        notify_metrics.FAILED.labels(self.target.name).set(0)
        return True

    def _record_failure(self, told: Notice, reason: str) -> None:
        with self.store.transaction() as uow:
            place = _place_of(uow, self.target.name)
            tries = place.tries + 1
            next_at = int(self.clock()) + backoff_seconds(tries)
            uow.notices.set_place(replace(place, tries=tries, next_at=next_at, last_error=reason))
        notify_metrics.FAILED.labels(self.target.name).set(tries)
        if is_power_of_two(tries):
            structlog.get_logger().warning(
                "notice_delivery_failed",
                target=self.target.name,
                seq=told.seq,
                reason=reason,
                in_a_row=tries,
            )

    def _next(self) -> Notice | None:
        """Return the next due notice that matches the filter; others are skipped for good."""
        with self.store.reading() as uow:
            place = uow.notices.place(self.target.name)
            if place is None or self.clock() < place.next_at:
                return None
            found = uow.notices.after(place.seq, _LOOKED_AT)
            wanted = next((one for one in found if self._is_wanted(uow, one)), None)
        if found and wanted is None:
            with self.store.transaction() as uow:
                uow.notices.set_place(TargetPlace(self.target.name, found[-1].seq))
        return wanted

    def _is_wanted(self, uow: UnitOfWork, notice: Notice) -> bool:
        """Return whether the target gets a notice; a fork counts if it retracted one of its own."""
        if self.target.choice.matches(notice):
            return True
        return notice.kind == NoticeKind.REORG and bool(self._undone(uow, notice))

    def _undone(self, uow: UnitOfWork, fork: Notice) -> tuple[int, ...]:
        taken = uow.notices.undone_by(fork.seq, _MOST_UNDONE)
        return tuple(one.seq for one in taken if self.target.choice.matches(one))

    def _message(self, uow: UnitOfWork, notice: Notice) -> Message:
        is_fork = notice.kind == NoticeKind.REORG
        return message_of(notice, self._undone(uow, notice) if is_fork else ())


def _place_of(uow: UnitOfWork, target: str) -> TargetPlace:
    return uow.notices.place(target) or TargetPlace(target, 0)


# Messages per run to one target that responds immediately.
_MOST_AT_ONCE = 20


@dataclass(slots=True)
class Notifier:
    """Notifies all targets while the lease is held; a slow target does not delay others."""

    targets: Sequence[Target]
    store: Store
    rules: Rules
    clock: Callable[[], float]
    _collector: NoticeCollector = field(init=False)
    _deliveries: list[Delivery] = field(init=False)

    def __post_init__(self) -> None:
        self._collector = NoticeCollector(self.rules)
        self._deliveries = [Delivery(one, self.store, self.clock) for one in self.targets]
        for one in self.targets:
            notify_metrics.first_zeros(one.name)

    def run_once(self, head: int | None, wait_seconds: float | None) -> bool:
        """Collect and deliver notices; return whether more work may be ready at once.

        `head` is the newest known block, or None. `wait_seconds` limits the wait for each
        response; None waits until it arrives.
        """
        has_more = self._collect(head)
        for delivery in self._deliveries:
            times = 0
            while times < _MOST_AT_ONCE and delivery.deliver_due(wait_seconds):
                times += 1
            has_more |= times == _MOST_AT_ONCE
        return has_more

    def _collect(self, head: int | None) -> bool:
        with self.store.reading() as uow:
            is_due = self._collector.is_due(uow)
            newest = uow.notices.newest()
            places = {one.target: one for one in uow.notices.places()}
        told = {one.name: places.get(one.name) for one in self.targets}
        for name, place in told.items():
            if place is not None:
                notify_metrics.WAITING.labels(name).set(newest - place.seq)
                notify_metrics.FAILED.labels(name).set(place.tries)
        new = [name for name, place in told.items() if place is None]
        if not is_due and not new:
            return False
        try:
            with self.store.transaction() as uow:
                cursor = uow.cursor.get()
                # A new target gets only notices from now on.
                for name in new:
                    uow.notices.set_place(TargetPlace(name, newest))
                is_at_head = cursor is not None and head is not None and cursor.number >= head
                return self._collector.collect(uow, is_at_head=is_at_head)
        except BaseException:
            # The collector's memory refers to rows that were rolled back.
            self._collector = NoticeCollector(self.rules)
            raise
