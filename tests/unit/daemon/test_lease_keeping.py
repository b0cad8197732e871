"""The thread that renews the lease: a process that cannot renew it exits;
the test sets the clock.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from oracle.daemon import lease_keeper
from oracle.daemon.lease_keeper import GIVE_UP_SECONDS, LEASE_SECONDS, keep_lease
from oracle.errors import FatalError, TransientError
from oracle.store.database import Store, UnitOfWork

PATIENCE = 60


class FailingWrites(Store):
    """A database whose writes can be made to fail."""

    def __init__(self, store: Store) -> None:
        super().__init__(store._url)
        self.write: Callable[[], None] = lambda: None
        self.tried = threading.Semaphore(0)

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        self.tried.release()
        self.write()
        with super().transaction() as uow:
            yield uow


class Clock:
    """The keeper's clock; `reads` counts the reads of the watching thread."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reads = threading.Semaphore(0)

    def monotonic(self) -> float:
        if threading.current_thread().name == "lease watch":
            self.reads.release()
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lease_keeper, "time", clock)
    for name in ("RENEW_SECONDS", "_RETRY_SECONDS", "_CHECK_SECONDS"):
        monkeypatch.setattr(lease_keeper, name, 0.001)
    return clock


@pytest.fixture
def failing_store(sqlite_url: str) -> Iterator[FailingWrites]:
    with Store.open(sqlite_url) as store, FailingWrites(store) as failing_store:
        yield failing_store


def acquire_and_get_epoch(store: Store) -> int:
    with store.transaction() as uow:
        epoch = uow.lease.acquire("one", LEASE_SECONDS)
    assert epoch is not None
    return epoch


def holder(store: Store) -> str | None:
    with store.read_transaction() as uow:
        return uow.lease.get_state().holder


def raise_unavailable() -> None:
    raise TransientError("the database is away")


def wait_for_reads(reads: threading.Semaphore) -> None:
    """Wait for three reads from now on: the first may have begun before, the second has ended."""
    while reads.acquire(blocking=False):
        pass
    for _ in range(3):
        assert reads.acquire(timeout=PATIENCE)


def test_lease_is_lost_after_20_seconds_without_renewal(
    failing_store: FailingWrites, clock: Clock
):
    epoch = acquire_and_get_epoch(failing_store)
    lost = threading.Event()

    def hold_lease() -> None:
        with keep_lease(failing_store, epoch, lost.set):
            wait_for_reads(failing_store.tried)
            failing_store.write = raise_unavailable
            wait_for_reads(failing_store.tried)
            clock.now += GIVE_UP_SECONDS
            wait_for_reads(clock.reads)
            assert not lost.is_set()
            clock.now += 0.1
            assert lost.wait(PATIENCE)

    with pytest.raises(FatalError, match="not be renewed for 20 s: the database is away"):
        hold_lease()
    # Without a renewal, the lease expires by the database's clock.
    assert holder(failing_store) == "one"


def test_lease_is_lost_if_its_renewal_hangs(failing_store: FailingWrites, clock: Clock):
    epoch = acquire_and_get_epoch(failing_store)
    lost = threading.Event()
    may_end = threading.Event()

    def wait_and_raise() -> None:
        may_end.wait(PATIENCE)
        raise_unavailable()

    def hold_lease() -> None:
        with keep_lease(failing_store, epoch, lost.set):
            assert failing_store.tried.acquire(timeout=PATIENCE)
            clock.now += GIVE_UP_SECONDS + 1
            assert lost.wait(PATIENCE)

    failing_store.write = wait_and_raise
    with pytest.raises(FatalError, match="20 s: the database does not answer"):
        hold_lease()
    may_end.set()


def test_renewal_resets_deadline_and_exit_releases_lease(
    failing_store: FailingWrites, clock: Clock
):
    epoch = acquire_and_get_epoch(failing_store)
    lost = threading.Event()
    with keep_lease(failing_store, epoch, lost.set):
        failing_store.write = raise_unavailable
        wait_for_reads(failing_store.tried)
        clock.now += GIVE_UP_SECONDS
        failing_store.write = lambda: None
        wait_for_reads(failing_store.tried)
        clock.now += GIVE_UP_SECONDS
        wait_for_reads(clock.reads)
        assert not lost.is_set()
    assert holder(failing_store) is None
