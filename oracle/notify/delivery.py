"""Tells one target what it has not been told, one message at a time, in order, at least once.

It is noted that it was told after it was: who dies between the two tells it again.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import structlog

from oracle.errors import OracleError
from oracle.notify.notice_kinds import NoticeKind
from oracle.notify.target import Message, Target, message_of
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.notices.notice_repository import Notice, TargetPlace
from oracle.telemetry.features import notify_metrics
from oracle.telemetry.logging_setup import is_power_of_two

# Notices that are looked through for one that the target wants.
_LOOKED_AT = 200
# Of what a fork took back, so many are named.
_MOST_UNDONE = 1_000
_LEAST_BACKOFF, _MOST_BACKOFF = 5, 3600


def backoff_seconds(tries: int) -> int:
    """Return how long to wait after so many failures in a row: 5 s, 10 s … an hour."""
    return int(min(_MOST_BACKOFF, _LEAST_BACKOFF * 2 ** min(tries - 1, 20)))


@dataclass(slots=True)
class Delivery:
    """One target and its place; `clock` in unix seconds."""

    target: Target
    store: Store
    clock: Callable[[], float]
    call: BackgroundCall[None] = field(default_factory=BackgroundCall)
    # The notice that is on its way.
    _out: Notice | None = None

    def deliver_due(self, wait_seconds: float | None) -> bool:
        """Take what came of the message on its way, and send the next; tell whether it moved.

        `wait_seconds`: how long to wait for an answer; None: until it is there.
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
        """Write down that it was told, or when it is tried again; tell whether it was."""
        try:
            ended.result()
        except Exception as error:  # noqa: BLE001  whatever a library raises, the daemon goes on
            # An error of a library may hold the address, and what it has of tokens.
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
                "notice_not_delivered",
                target=self.target.name,
                seq=told.seq,
                reason=reason,
                in_a_row=tries,
            )

    def _next(self) -> Notice | None:
        """Return the next notice that it wants, now; what it does not want is passed over."""
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
        """Tell whether it is to be told; of a fork, too, that took back what it was told."""
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
