"""Acquires, renews and releases the lease that gives each database a single writer.

Every command that writes runs within `hold_lease`, and the daemon within `keep_lease`. A process
that only reads needs no lease. The daemon renews its lease on separate threads, because its worker
may wait long for an endpoint (docs/explanation/daemon.md#lease). A process that has lost its lease
or cannot renew it must end, because another process may already be writing.

The name of a holder tells others whether its process still runs. A process has ended if this
kernel has no process with its number, or if the process with this number started at another time.
The comparison is valid only on Linux, and only if both processes see the same process numbers
(same host, boot, process namespace and time namespace). The state of a process on another machine
or in another container is unknown (decision 0132).
"""

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from oracle.errors import FatalError, OracleError, TransientError
from oracle.store.database import Store
from oracle.store.db_errors import UnknownCommitError
from oracle.store.engine import STALLED_SECONDS
from oracle.store.lease_repository import LeaseState
from oracle.telemetry import indexer_metrics
from oracle.telemetry.logger import get_logger

# A lease expires after this many seconds without a renewal; three renewals fit into that time.
LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
# A holder that cannot renew the lease for this long must end, well before another process may take
# over.
GIVE_UP_SECONDS = 20.0
# The delay in seconds before a failed renewal is retried.
_RETRY_SECONDS = 2.0
# Interval, in seconds, between two checks of the age of the last renewal.
_CHECK_SECONDS = 0.5
# The reported cause if a renewal neither succeeded nor failed.
_NO_ANSWER = "the database does not answer, or this process was suspended"
_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# The name of a lease holder ends with the start time of its process, in clock ticks since boot,
# and a digest of the namespaces in which the process id is valid.
_HOLDER_SUFFIX = re.compile(r", process ([1-9]\d{0,8}) \(begun (\d{1,19}) at ([0-9a-f]{16})\)$")
_DIGEST_DIGITS = 16
# The indexes of the state and the start time in /proc/PID/stat (proc(5)), counted after the
# process name.
_STATE_INDEX, _START_INDEX = 0, 19
# The states of a process that has ended but has not been reaped by its parent.
_DEAD_STATES = {"Z", "X"}


class LeaseHeldError(FatalError):
    """Another process holds the lease; a retry can succeed after that process ends."""

    def __init__(self, lease_state: LeaseState) -> None:
        super().__init__(
            f"another process works on this database: {lease_state.holder}; stop it, or wait "
            f"{max(1, round(lease_state.seconds_left))} s if it is dead"
        )


def find_leader(lease_state: LeaseState) -> str | None:
    """Return the name of the lease's holder, or None if no running process holds it."""
    is_over = lease_state.holder is None or lease_state.seconds_left <= 0
    if is_over or get_holder_state(lease_state.holder) is HolderState.GONE:
        return None
    return lease_state.holder


def acquire_lease(store: Store, command: str) -> int:
    """Acquire the lease and return its epoch.

    Raises:
        LeaseHeldError: another process holds the lease; the message names the holder.
    """
    epoch, lease_state = try_acquire_lease(store, command)
    if epoch is None:
        raise LeaseHeldError(lease_state)
    return epoch


@dataclass(slots=True)
class HolderWatch:
    """Detects with a monotonic clock that the holder has stopped renewing the lease.

    The lease itself expires by the database's wall clock. If this clock is set back, a holder that
    has ended would keep the lease for longer without this check.
    """

    clock: Callable[[], float] = time.monotonic
    _last_renewal: tuple[int, int] | None = None
    _seen_at: float = 0.0

    def has_stopped_renewing(self, lease_state: LeaseState) -> bool:
        """Return whether the holder has failed to renew the lease for a full lease period."""
        epoch_and_expiry = (lease_state.epoch, lease_state.until_ms)
        if epoch_and_expiry != self._last_renewal:
            self._last_renewal, self._seen_at = epoch_and_expiry, self.clock()
        return self.clock() - self._seen_at > LEASE_SECONDS


def try_acquire_lease(
    store: Store, command: str, watch: HolderWatch | None = None
) -> tuple[int | None, LeaseState]:
    """Try to acquire the lease, and return the new epoch (or None) and the previous state.

    If another process holds the lease, the epoch is None and nothing is written, so a standby may
    call this function often. `watch` also detects by a monotonic clock that the holder has stopped
    renewing. If the lease has expired while its holder is stalled within a transaction, the
    transaction is terminated if the database supports this.

    Raises:
        TransientError: the database is unavailable, or another process is writing to it.
    """
    with store.read_transaction() as uow:
        previous_state = uow.lease.get_state()
    is_holder_gone = previous_state.holder is not None and (
        get_holder_state(previous_state.holder) is HolderState.GONE
        or (watch is not None and watch.has_stopped_renewing(previous_state))
    )
    if (
        previous_state.holder is not None
        and previous_state.seconds_left >= 0
        and not is_holder_gone
    ):
        return None, previous_state
    dead_epoch = previous_state.epoch if is_holder_gone else None
    own_name = build_holder_name(command)
    try:
        with store.transaction() as uow:
            epoch = uow.lease.acquire(own_name, LEASE_SECONDS, dead_epoch=dead_epoch)
            lease_state = uow.lease.get_state()
    except UnknownCommitError:
        with store.read_transaction() as uow:
            lease_state = uow.lease.get_state()
        if lease_state.holder != own_name or lease_state.epoch != previous_state.epoch + 1:
            raise
        epoch = lease_state.epoch
    except TransientError as error:
        raise TransientError(
            f"{error}{_terminate_stalled_writer(store, previous_state)}"
        ) from error
    if is_holder_gone and epoch is not None:
        get_logger().warning("stale_lease_taken_over", holder=previous_state.holder, epoch=epoch)
    return epoch, lease_state


def _terminate_stalled_writer(store: Store, lease_state: LeaseState) -> str:
    """Terminate the transaction of a stalled writer, and return a text for the error message."""
    try:
        with store.read_transaction() as uow:
            if uow.lease.terminate_stalled_writer(STALLED_SECONDS):
                return f"; a transaction that stalled for {STALLED_SECONDS} s was terminated"
    except OracleError as error:
        return f"; stalled transactions cannot be detected: {error}"
    if lease_state.holder is None:
        return ""
    return (
        f"; the lease of {lease_state.holder} has expired; if that process hangs inside a write, "
        "kill it"
    )


def renew_held_lease(store: Store, epoch: int) -> None:
    """Renew the lease for another lease period.

    Raises:
        FatalError: another process has taken over; this process must stop writing.
    """
    with store.transaction() as uow:
        if not uow.lease.renew(epoch, LEASE_SECONDS):
            raise FatalError("another process has taken over the lease of this database")


class LeaseKeeper:
    """Renews the lease until stopped, and calls `on_lost` once if the lease is lost.

    One thread renews the lease, and may hang if the database does not respond. The other thread
    watches the renewals and the work, because a holder that makes no progress must not keep
    standbys waiting. `failure` is the reason why the lease was lost, or None. `can_release` is
    False after a failed renewal, because the database may not respond, or another process may hold
    the lease.
    """

    def __init__(
        self,
        store: Store,
        epoch: int,
        on_lost: Callable[[], None],
        stuck_reason: Callable[[], str | None],
    ) -> None:
        self.failure: FatalError | None = None
        self.can_release = True
        self._stuck_reason = stuck_reason
        self._store = store
        self._epoch = epoch
        self._on_lost = on_lost
        self._renewed_at = time.monotonic()
        self._renewal_error = _NO_ANSWER
        self._stopped = threading.Event()
        self._failure_lock = threading.Lock()

    def start_renewing(self) -> None:
        """Start the threads that renew the lease and watch its renewals.

        The lease must have been acquired immediately before.
        """
        for name, run in (("lease", self._run_renewals), ("lease watch", self._watch_renewals)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def stop_renewing(self) -> None:
        self._stopped.set()

    def _run_renewals(self) -> None:
        wait_seconds = RENEW_SECONDS
        while not self._stopped.wait(wait_seconds):
            wait_seconds = RENEW_SECONDS if self._try_renew_lease() else _RETRY_SECONDS

    def _try_renew_lease(self) -> bool:
        renewal_started_at = time.monotonic()
        try:
            renew_held_lease(self._store, self._epoch)
        except TransientError as error:
            self._renewal_error = str(error)
            indexer_metrics.RENEW_FAILURES.inc()
            get_logger().warning("lease_renewal_failed", reason=self._renewal_error)
            return False
        except FatalError as error:
            self._stop_with_failure(error)
            return False
        self._renewed_at, self._renewal_error = renewal_started_at, _NO_ANSWER
        return True

    def _watch_renewals(self) -> None:
        while not self._stopped.wait(_CHECK_SECONDS):
            age_seconds = time.monotonic() - self._renewed_at
            if age_seconds > GIVE_UP_SECONDS:
                self._stop_with_failure(
                    FatalError(
                        f"the lease could not be renewed for {GIVE_UP_SECONDS:.0f} s: "
                        f"{self._renewal_error}; another process may take over at any moment"
                    )
                )
            reason = self._stuck_reason()
            if reason is not None:
                failure = FatalError(
                    f"{reason}; the lease is released, so that a standby can take over"
                )
                self._stop_with_failure(failure, can_release=True)

    def _stop_with_failure(self, failure: FatalError, *, can_release: bool = False) -> None:
        with self._failure_lock:
            if self._stopped.is_set():
                return
            self._stopped.set()
            self.failure, self.can_release = failure, can_release
        indexer_metrics.HELD.set(0)
        self._on_lost()


def _assume_not_stuck() -> str | None:
    """Return None, because this work's progress is not watched."""


@contextmanager
def keep_lease(
    store: Store,
    epoch: int,
    on_lost: Callable[[], None],
    stuck_reason: Callable[[], str | None] = _assume_not_stuck,
) -> Iterator[LeaseKeeper]:
    """Renew the lease during the daemon's work, and release it at the end.

    The lease keeper is yielded. `on_lost` is called from a thread if the lease is lost. A lost
    lease is not released, because the database may not respond. `stuck_reason` returns why the
    work makes no progress, or None. If it returns a reason, the lease is released early, so that a
    standby can take over. If the stuck thread continues later, its writes carry an old epoch and
    fail.

    Raises:
        FatalError: the lease was lost, it could not be renewed for too long, or the work is stuck;
            this process must not write any more.
    """
    indexer_metrics.HELD.set(1)
    indexer_metrics.EPOCH.set(epoch)
    keeper = LeaseKeeper(store, epoch, on_lost, stuck_reason)
    keeper.start_renewing()
    try:
        yield keeper
    finally:
        keeper.stop_renewing()
        indexer_metrics.HELD.set(0)
        if keeper.can_release:
            _release_lease(store, epoch)
    if keeper.failure is not None:
        raise keeper.failure


@contextmanager
def hold_lease(store: Store, command: str) -> Iterator[int]:
    """Hold the lease while a command runs, and yield its epoch.

    A long command must renew the lease. Every write checks the epoch. If the lease cannot be
    released at the end, it expires by itself.

    Raises:
        LeaseHeldError: another process holds the lease; the message names the holder.
    """
    epoch = acquire_lease(store, command)
    try:
        yield epoch
    finally:
        _release_lease(store, epoch)


def _release_lease(store: Store, epoch: int) -> None:
    """Release the lease, so that the next process need not wait; only log a failure."""
    try:
        with store.transaction() as uow:
            uow.lease.release(epoch)
    except OracleError as error:
        get_logger().warning("lease_release_failed", reason=str(error))


class HolderState(Enum):
    """The state of a lease holder's process; UNKNOWN means that it may still be running."""

    ALIVE = "lives"
    GONE = "gone"
    UNKNOWN = "unknown"


def build_holder_name(command: str) -> str:
    """Build this process's name as a lease holder: `run on host, process 123 (…)`."""
    holder_name = f"{command} on {socket.gethostname()}, process {os.getpid()}"
    namespace = _read_namespace_digest()
    process_stat = _read_process_stat(os.getpid())
    if namespace is None or process_stat is None:
        return holder_name
    return f"{holder_name} (begun {process_stat[1]} at {namespace})"


def get_holder_state(holder: str | None) -> HolderState:
    """Return the state of the named process, or UNKNOWN if it cannot be determined."""
    suffix_match = None if holder is None else _HOLDER_SUFFIX.search(holder)
    if suffix_match is None or suffix_match[3] != _read_namespace_digest():
        return HolderState.UNKNOWN
    pid = int(suffix_match[1])
    expected_start_ticks = int(suffix_match[2])
    try:
        # Signal 0 only tests whether the process exists. Unlike /proc, which may be mounted from
        # another PID namespace, the test always uses the namespace of this process.
        os.kill(pid, 0)
    except ProcessLookupError:
        return HolderState.GONE
    except PermissionError:
        # The process belongs to another user, but /proc may still show its state.
        pass
    process_stat = _read_process_stat(pid)
    if process_stat is None:
        return HolderState.UNKNOWN
    process_state, actual_start_ticks = process_stat
    if actual_start_ticks != expected_start_ticks:
        return HolderState.GONE
    if process_state in _DEAD_STATES and _has_single_thread(pid):
        return HolderState.GONE
    return HolderState.ALIVE


def _read_namespace_digest() -> str | None:
    """Return a digest of host, boot and namespaces, or None if they are unreadable.

    The numbers of two processes can be compared only if both have the same digest.
    """
    try:
        if str((_PROC / "self").readlink()) != str(os.getpid()):
            # /proc is mounted from another process namespace.
            return None
        identity_parts = [
            socket.gethostname(),
            _BOOT.read_text("ascii").strip(),
            *(
                str((_PROC / "self/ns" / namespace_kind).readlink())
                for namespace_kind in ("pid", "time")
            ),
        ]
    except OSError:
        return None
    return sha256("\n".join(identity_parts).encode()).hexdigest()[:_DIGEST_DIGITS]


def _read_process_stat(pid: int) -> tuple[str, int] | None:
    """Return the state and start ticks of a process, or None if they are unreadable."""
    try:
        # The kernel puts parentheses around the process name, which may itself contain any
        # character, even parentheses.
        stat_tail = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
        stat_fields = stat_tail.split()
        return stat_fields[_STATE_INDEX], int(stat_fields[_START_INDEX])
    except (OSError, ValueError, IndexError):
        return None


def _has_single_thread(pid: int) -> bool:
    """Return whether a process has no thread besides its main thread."""
    try:
        return [thread.name for thread in (_PROC / str(pid) / "task").iterdir()] == [str(pid)]
    except OSError:
        return False
