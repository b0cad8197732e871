"""A leader that stalls where a test chooses, while a successor takes over and finishes.

The leader stalls inside its own call, at a point of its fuse (`fuses`). Meanwhile the successor
works with its own store and keys; then the leader continues where it stalled.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import delete, select, text
from sqlalchemy.exc import IntegrityError
from typing_extensions import override

from oracle.daemon import lease_keeper
from oracle.daemon.lease_keeper import renew_held_lease, try_acquire_lease
from oracle.errors import FatalError, TransientError
from oracle.store import engine
from oracle.store.database import Store
from oracle.store.tables.metadata import metadata
from tests.support.harness import Harness
from tests.support.sending.fuses import Fuse, install_fuse
from tests.support.txmgr.stores import NewStore

# Polls of a server that may be slow to notice that its client has stalled.
_LOOKS = 1000
# The number of failures that pass before the one that does not.
_MOST_TURNS = 3

Play = Callable[[Harness], None]
Rows = dict[str, list[tuple[Any, ...]]]


class Watch(Fuse):
    """Records all points, and one more: the moment between a read and the write that follows."""

    @override
    def begins(self) -> None:
        self.point("before a write")


class Stall(Watch):
    """Stalls at the n-th point, and at the following ones until `meanwhile` returns True."""

    def __init__(self, at: int, meanwhile: Callable[[], bool]) -> None:
        super().__init__()
        self._from = at
        self._meanwhile = meanwhile
        self._is_standing = False
        # The points at which it stalled, and the number of sends when the successor had finished.
        self.stood: list[str] = []
        self._sent_by_then = 0

    @override
    def point(self, name: str) -> None:
        """Pass a point; points of the successor are ignored."""
        if self._is_standing:
            return
        place = len(self.passed)
        super().point(name)
        if place < self._from:
            return
        self.stood.append(name)
        self._is_standing = True
        if self._meanwhile():
            self._from = sys.maxsize
            self._sent_by_then = len(self.sent)
        self._is_standing = False

    @property
    def late(self) -> list[str]:
        """The bytes that were sent after the successor had finished."""
        return self.sent[self._sent_by_then :]


@dataclass
class Succession:
    """One database, a leader, and the successor that takes over on its `second` store.

    `rows`: all rows of the database when the successor has finished. `kept_out`: how often the
    successor could not write, because the leader had stalled inside a write.
    """

    leader: Harness
    second: Store
    play: Play
    heir: Harness | None = None
    rows: Rows = field(default_factory=dict)
    kept_out: int = 0
    # The error that ended the leader, and the transient errors before it.
    ended: FatalError | IntegrityError | None = None
    met: list[TransientError] = field(default_factory=list)

    def stalled(self, at: int) -> Stall:
        """Let the leader stall at one point and the successor finish.

        Then the leader continues.
        """
        self.leader.store.set_fencing_epoch(self.leader.epoch)
        expire_lease(self.leader.store)
        stall = Stall(at, self._take_over)
        with install_fuse(self.leader, stall):
            self._go_on()
        # A transaction that it may have sent last is mined as well.
        self.leader.mine()
        return stall

    def close(self) -> None:
        """Close the successor."""
        if self.heir is not None:
            self.heir.close()

    def _go_on(self) -> None:
        for _ in range(_MOST_TURNS):
            try:
                self.play(self.leader)
                # The lease is renewed as by the thread beside the worker.
                renew_held_lease(self.leader.store, self.leader.epoch)
            except TransientError as error:
                self.met.append(error)
            except (FatalError, IntegrityError) as error:
                # Without a fence, the constraints of the tables reject duplicates.
                self.ended = error
                return

    def _take_over(self) -> bool:
        """Run the successor from its first poll to the end; return False if it was kept out."""
        epoch = self._taken(self.second)
        if epoch is None:
            return False
        self.second.set_fencing_epoch(epoch)
        self.heir = copy(self.leader)
        self.heir.store, self.heir.epoch, self.heir.steps = self.second, epoch, []
        self.heir.open()
        self.play(self.heir)
        self.rows = dump_rows(self.second)
        return True

    def _taken(self, store: Store) -> int | None:
        for _ in range(_LOOKS):
            try:
                epoch, held = try_acquire_lease(store, "standby")
            except TransientError:
                self.kept_out += 1
                if is_sqlite(store):
                    return None
            else:
                assert epoch is not None, held
                return epoch
        raise AssertionError("it is kept out for ever")


@contextmanager
def reuse_store(new_store: NewStore) -> Iterator[tuple[NewStore, Store]]:
    """Yield a function that opens an emptied store, and a second store of the same database.

    Both keep what they have learned about the database, which takes most of a short test.
    """
    with new_store() as first, Store(first._url) as second:

        @contextmanager
        def yield_emptied_store() -> Iterator[Store]:
            first._epoch = second._epoch = None
            with first.transaction() as uow:
                for table in reversed(metadata.sorted_tables):
                    uow.lease._connection.execute(delete(table))
            yield first

        yield yield_emptied_store, second


@contextmanager
def shorten_timeouts() -> Iterator[None]:
    """Let writers give up soon, and let a stalled process count as stalled for long."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "BUSY_SECONDS", 0.05)
        patched.setattr(lease_keeper, "STALLED_SECONDS", 0)
        yield


def expire_lease(store: Store) -> None:
    """Expire the lease, as if half a minute passed on the database's clock."""
    with store.transaction() as uow:
        uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))


def dump_rows(store: Store) -> Rows:
    """Return all rows of all tables."""
    with store.read_transaction() as uow:
        read = uow.lease._connection.execute
        return {
            table.name: sorted((tuple(row) for row in read(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def is_sqlite(store: Store) -> bool:
    return store._url.get_backend_name() == "sqlite"
