"""One writer for each database: acquires the lease, renews it, and releases it.

Every command that writes runs inside `hold_lease`, the daemon inside `keep_lease`; a process that
only reads needs no lease. The daemon's worker may wait long for an endpoint, so the lease is
renewed on separate threads (docs/explanation/daemon.md#lease). A process that lost its lease, or
cannot renew it, must end: another process may already be writing.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from oracle.daemon.lease.lease_holder import Fate, fate_of, holder_name
from oracle.errors import FatalError, OracleError, TransientError
from oracle.store.database import Store
from oracle.store.db_errors import UnknownCommitError
from oracle.store.engine import STALLED_SECONDS
from oracle.store.ops.lease_repository import LeaseState
from oracle.telemetry import indexer_metrics

# A lease expires after this time without a renewal; a live holder renews it three times meanwhile.
LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
# Without a renewal for this time the holder must end, well before another process may take over.
GIVE_UP_SECONDS = 20.0
# The delay before the next attempt after a failed renewal.
_AGAIN_SECONDS = 2.0
_LOOK_SECONDS = 0.5


class LeaseHeldError(FatalError):
    """Another process holds the lease; the error is over when that process ends."""

    def __init__(self, held: LeaseState) -> None:
        super().__init__(
            f"another process works on this database: {held.holder}; stop it, or wait "
            f"{max(1, round(held.seconds_left))} s if it is dead"
        )


def worker(held: LeaseState) -> str | None:
    """Return the process that works on the database, or None if there is none or it is gone."""
    is_over = held.holder is None or held.seconds_left <= 0
    return None if is_over or fate_of(held.holder) is Fate.GONE else held.holder


def take(store: Store, command: str) -> int:
    """Acquire the lease and return its epoch.

    Raises:
        LeaseHeldError: another process holds it; the message names the holder.
    """
    epoch, held = try_take(store, command)
    if epoch is None:
        raise LeaseHeldError(held)
    return epoch


@dataclass(slots=True)
class HolderWatch:
    """Detects, by this process's monotonic clock, that a holder has stopped renewing the lease.

    The lease expires by the database's wall clock. If that clock is stepped back, a dead holder
    would otherwise lock all others out for as long as the step.
    """

    clock: Callable[[], float] = time.monotonic
    _lease: tuple[int, int] | None = None
    _since: float = 0.0

    def is_silent(self, held: LeaseState) -> bool:
        """Return whether the holder has not renewed the lease for longer than a lease lasts."""
        lease = (held.epoch, held.until_ms)
        if lease != self._lease:
            self._lease, self._since = lease, self.clock()
        return self.clock() - self._since > LEASE_SECONDS


def try_take(
    store: Store, command: str, watch: HolderWatch | None = None
) -> tuple[int | None, LeaseState]:
    """Acquire the lease if it is free or expired or its holder is gone; return epoch and state.

    The epoch is None if another process holds the lease; nothing is written then, so a standby may
    call this often, with a `watch`. If the lease has expired and its holder stalled inside a
    transaction, that transaction is ended if the database can.

    Raises:
        TransientError: the database is unavailable, or another process is writing to it.
    """
    with store.reading() as uow:
        held = uow.lease.current()
    is_gone = held.holder is not None and (
        fate_of(held.holder) is Fate.GONE or (watch is not None and watch.is_silent(held))
    )
    if held.holder is not None and held.seconds_left >= 0 and not is_gone:
        return None, held
    gone, ours = held.epoch if is_gone else None, holder_name(command)
    try:
        with store.transaction() as uow:
            epoch = uow.lease.take(ours, LEASE_SECONDS, gone=gone)
            now = uow.lease.current()
    except UnknownCommitError:
        with store.reading() as uow:
            now = uow.lease.current()
        if now.holder != ours or now.epoch != held.epoch + 1:
            raise
        epoch = now.epoch
    except TransientError as error:
        raise TransientError(f"{error}{_in_the_way(store, held)}") from error
    if is_gone and epoch is not None:
        structlog.get_logger().warning("stale_lease_taken_over", holder=held.holder, epoch=epoch)
    return epoch, now


def _in_the_way(store: Store, held: LeaseState) -> str:
    """Terminate a stalled writer, if any; return an error suffix that names the obstacle."""
    try:
        with store.reading() as uow:
            if uow.lease.end_stalled_writer(STALLED_SECONDS):
                return f"; one that stood still for {STALLED_SECONDS} s was ended"
    except OracleError as error:
        return f"; whether it stands still cannot be seen: {error}"
    if held.holder is None:
        return ""
    return f"; the lease of {held.holder} is over: where that one hangs inside a write, kill it"


def renew(store: Store, epoch: int) -> None:
    """Extend the lease by another lease period.

    Raises:
        FatalError: another process has taken over; this process must not write any more.
    """
    with store.transaction() as uow:
        if not uow.lease.renew(epoch, LEASE_SECONDS):
            raise FatalError("another process has taken over the lease of this database")


class LeaseKeeper:
    """Renews the lease until stopped; calls `on_lost` once if the lease is lost.

    One thread renews, and may hang in a database that does not answer. The other thread watches
    the renewals and the work: a holder that makes no progress would keep standbys waiting.
    `failure` is the reason why the lease was lost, or None. `can_release`: the lease ended because
    of the work, and the database still answers.
    """

    def __init__(
        self,
        store: Store,
        epoch: int,
        lose: Callable[[], None],
        stuck_reason: Callable[[], str | None],
    ) -> None:
        self.failure: FatalError | None = None
        self.can_give_back = True
        self._stuck_reason = stuck_reason
        self._store = store
        self._epoch = epoch
        self._lose = lose
        self._renewed = time.monotonic()
        self._reason = "the database does not answer"
        self._ended = threading.Event()
        self._losing = threading.Lock()

    def start(self) -> None:
        """Start both threads; the lease must have been acquired just before."""
        for name, work in (("lease", self._renew), ("lease watch", self._watch)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def end(self) -> None:
        """Stop renewing the lease."""
        self._ended.set()

    def _renew(self) -> None:
        wait = RENEW_SECONDS
        while not self._ended.wait(wait):
            wait = RENEW_SECONDS if self._try_renew() else _AGAIN_SECONDS

    def _try_renew(self) -> bool:
        began = time.monotonic()
        try:
            renew(self._store, self._epoch)
        except TransientError as error:
            self._reason = str(error)
            indexer_metrics.RENEW_FAILURES.inc()
            structlog.get_logger().warning("lease_renewal_failed", reason=self._reason)
            return False
        except FatalError as error:
            self._fail(error)
            return False
        self._renewed = began
        return True

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            age = time.monotonic() - self._renewed
            if age > GIVE_UP_SECONDS:
                self._fail(
                    FatalError(
                        f"the lease could not be renewed for {GIVE_UP_SECONDS:.0f} s: "
                        f"{self._reason}; another process may take over any moment"
                    )
                )
            reason = self._stuck_reason()
            if reason is not None:
                failure = FatalError(
                    f"{reason}; the lease is given back, so that another may lead"
                )
                self._fail(failure, can_give_back=True)

    def _fail(self, failure: FatalError, *, can_give_back: bool = False) -> None:
        with self._losing:
            if self._ended.is_set():
                return
            self._ended.set()
            self.failure, self.can_give_back = failure, can_give_back
        indexer_metrics.HELD.set(0)
        self._lose()


def _never_stuck() -> str | None:
    """Return None: nothing watches the progress of the work."""


@contextmanager
def leading(
    store: Store,
    epoch: int,
    lose: Callable[[], None],
    stuck_reason: Callable[[], str | None] = _never_stuck,
) -> Iterator[LeaseKeeper]:
    """Renew the lease during the daemon's work and release it at the end; yields the keeper.

    `on_lost` is called, from a thread, if the lease is lost. A lost lease is not released, because
    its database may not even answer. `stuck_reason` returns why the work has stopped; the lease is
    then released early, for a standby. Later writes of a stuck thread carry an expired epoch.

    Raises:
        FatalError: the lease was lost, could not be renewed for too long, or the work is stuck;
            nothing may be written.
    """
    indexer_metrics.HELD.set(1)
    indexer_metrics.EPOCH.set(epoch)
    keeper = LeaseKeeper(store, epoch, lose, stuck_reason)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.end()
        indexer_metrics.HELD.set(0)
        if keeper.can_give_back:
            _give_back(store, epoch)
    if keeper.failure is not None:
        raise keeper.failure


@contextmanager
def leased(store: Store, command: str) -> Iterator[int]:
    """Hold the lease during work that renews it if it takes long; yields its epoch.

    Every write is guarded by that epoch. A lease that cannot be released expires by itself.

    Raises:
        LeaseHeldError: another process holds it; the message names the holder.
    """
    epoch = take(store, command)
    try:
        yield epoch
    finally:
        _give_back(store, epoch)


def _give_back(store: Store, epoch: int) -> None:
    """Release the lease so that the next process need not wait; on failure the lease expires."""
    try:
        with store.transaction() as uow:
            uow.lease.release(epoch)
    except OracleError as error:
        structlog.get_logger().warning("lease_release_failed", reason=str(error))
