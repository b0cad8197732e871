"""Holds the lease while the daemon works, on threads of its own.

The worker may wait long for an endpoint; the lease must not run out meanwhile. Whoever lost it,
or cannot renew it, has to end: another process may be writing already.
See docs/explanation/daemon.md#lease.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from oracle.daemon.lease.lease_keeper import GIVE_UP_SECONDS, RENEW_SECONDS, release, renew, take
from oracle.errors import FatalError, OracleError, TransientError
from oracle.store.database import Store
from oracle.telemetry import indexer_metrics

# After a renewal that failed the next one comes sooner.
_AGAIN_SECONDS = 2.0
_LOOK_SECONDS = 0.5


class LeaseKeeper:
    """Renews the lease until it is told to end; calls `lose` once where that cannot be done.

    One thread renews, and may hang in a database that does not answer; the other one watches it.
    `failure` says why the lease is no longer ours, None: it is.
    """

    def __init__(self, store: Store, epoch: int, lose: Callable[[], None]) -> None:
        self.failure: FatalError | None = None
        self._store = store
        self._epoch = epoch
        self._lose = lose
        self._renewed = time.monotonic()
        self._reason = "the database does not answer"
        self._ended = threading.Event()
        self._losing = threading.Lock()

    def start(self) -> None:
        """Begin; the lease was taken a moment ago."""
        for name, work in (("lease", self._renew), ("lease watch", self._watch)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def end(self) -> None:
        """Renew no more."""
        self._ended.set()

    def _renew(self) -> None:
        wait = RENEW_SECONDS
        while not self._ended.wait(wait):
            wait = RENEW_SECONDS if self._renew_once() else _AGAIN_SECONDS

    def _renew_once(self) -> bool:
        began = time.monotonic()
        try:
            renew(self._store, self._epoch)
        except TransientError as error:
            self._reason = str(error)
            indexer_metrics.RENEW_FAILURES.inc()
            structlog.get_logger().warning("lease_not_renewed", reason=self._reason)
            return False
        except OracleError as error:
            self._fail(FatalError(str(error)))
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

    def _fail(self, failure: FatalError) -> None:
        with self._losing:
            if self._ended.is_set():
                return
            self._ended.set()
            self.failure = failure
        indexer_metrics.HELD.set(0)
        self._lose()


@contextmanager
def leading(store: Store, epoch: int, lose: Callable[[], None]) -> Iterator[int]:
    """Keep the lease around the daemon's work, and give it back; yields its epoch.

    `lose` is called, from a thread, where it is lost. Such a lease is left alone: its database
    may not even answer.

    Raises:
        FatalError: it was lost, or could not be renewed for too long; nothing may be written.
    """
    indexer_metrics.HELD.set(1)
    indexer_metrics.EPOCH.set(epoch)
    keeper = LeaseKeeper(store, epoch, lose)
    keeper.start()
    try:
        yield epoch
    finally:
        keeper.end()
        indexer_metrics.HELD.set(0)
        if keeper.failure is None:
            _give_back(store, epoch)
    if keeper.failure is not None:
        raise keeper.failure


@contextmanager
def leased(store: Store, command: str) -> Iterator[int]:
    """Hold the lease around work that renews it by itself, and give it back; yields its epoch.

    Raises:
        HeldError: another process holds it.
    """
    epoch = take(store, command)
    try:
        yield epoch
    finally:
        _give_back(store, epoch)


def _give_back(store: Store, epoch: int) -> None:
    """Give the lease back; where that cannot be done, it runs out by itself."""
    try:
        release(store, epoch)
    except OracleError as error:
        structlog.get_logger().warning("lease_kept", reason=str(error))
