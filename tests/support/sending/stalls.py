"""A leader that stands still where a test says, while another one takes over and finishes.

It stands still inside its own call, at one of the points of its fuse (`fuses`): the other one, on
a store and with keys of its own, works meanwhile; then the first goes on from where it stood.
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

from oracle.daemon import lease_keeper
from oracle.daemon.lease_keeper import renew_held_lease, try_acquire_lease
from oracle.errors import FatalError, TransientError
from oracle.store import engine
from oracle.store.database import Store
from oracle.store.tables.metadata import metadata
from tests.support.office import Office
from tests.support.sending.fuses import Fuse, fused
from tests.support.txmgr.stores import NewStore

# Looks at a server that may be slow to notice that its client stands still.
_LOOKS = 1000
# Failures that pass before the one that does not.
_MOST_TURNS = 3

Play = Callable[[Office], None]
Rows = dict[str, list[tuple[Any, ...]]]


class Watch(Fuse):
    """Passes all the points, of which there is one more: what was read is written down next."""

    def begins(self) -> None:
        self.point("before a write")


class Stall(Watch):
    """Stands still at the n-th point, and at the next ones until `meanwhile` says: enough."""

    def __init__(self, at: int, meanwhile: Callable[[], bool]) -> None:
        super().__init__()
        self._from = at
        self._meanwhile = meanwhile
        self._is_standing = False
        # Where it stood still, and how much had been sent when the other one had finished.
        self.stood: list[str] = []
        self._sent_by_then = 0

    def point(self, name: str) -> None:
        """Pass a point; those of the other one are none of ours."""
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
        """Bytes that left after the other one had finished."""
        return self.sent[self._sent_by_then :]


@dataclass
class Succession:
    """One database, a leader, and whoever takes over from it, on the `second` store of it.

    `rows` is all that is in the database when the other one has finished. `kept_out`: how often
    it could not write, because the leader stood still inside a write.
    """

    leader: Office
    second: Store
    play: Play
    heir: Office | None = None
    rows: Rows = field(default_factory=dict)
    kept_out: int = 0
    # What ended the leader, and what it met before.
    ended: FatalError | IntegrityError | None = None
    met: list[TransientError] = field(default_factory=list)

    def stalled(self, at: int) -> Stall:
        """Let the leader stand still at one point; the other finishes, and it goes on."""
        self.leader.store.set_fencing_epoch(self.leader.epoch)
        run_out(self.leader.store)
        stall = Stall(at, self._take_over)
        with fused(self.leader, stall):
            self._go_on()
        # What it may have sent last gets into a block as well.
        self.leader.mine()
        return stall

    def close(self) -> None:
        """Let the other one go."""
        if self.heir is not None:
            self.heir.close()

    def _go_on(self) -> None:
        for _ in range(_MOST_TURNS):
            try:
                self.play(self.leader)
                # As the thread beside the worker does.
                renew_held_lease(self.leader.store, self.leader.epoch)
            except TransientError as error:
                self.met.append(error)
            except (FatalError, IntegrityError) as error:
                # Without a fence it is the tables that refuse what is there already.
                self.ended = error
                return

    def _take_over(self) -> bool:
        """Be the other one, from its first look to the end; False: it was kept out."""
        epoch = self._taken(self.second)
        if epoch is None:
            return False
        self.second.set_fencing_epoch(epoch)
        self.heir = copy(self.leader)
        self.heir.store, self.heir.epoch, self.heir.steps = self.second, epoch, []
        self.heir.open()
        self.play(self.heir)
        self.rows = everything(self.second)
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
def reused(new_store: NewStore) -> Iterator[tuple[NewStore, Store]]:
    """Give one store again and again, without rows, and another one of the same database.

    What they have learned to ask they need not learn again: that is most of a short life's work.
    """
    with new_store() as first, Store(first._url) as second:

        @contextmanager
        def emptied() -> Iterator[Store]:
            first._epoch = second._epoch = None
            with first.transaction() as uow:
                for table in reversed(metadata.sorted_tables):
                    uow.lease._connection.execute(delete(table))
            yield first

        yield emptied, second


@contextmanager
def no_patience() -> Iterator[None]:
    """Whoever waits for a writer gives up soon, and whoever stands still has done so for long."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "BUSY_SECONDS", 0.05)
        patched.setattr(lease_keeper, "STALLED_SECONDS", 0)
        yield


def run_out(store: Store) -> None:
    """Half a minute passes on the database's clock."""
    with store.transaction() as uow:
        uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))


def everything(store: Store) -> Rows:
    """All rows of all tables."""
    with store.read_transaction() as uow:
        read = uow.lease._connection.execute
        return {
            table.name: sorted((tuple(row) for row in read(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def is_sqlite(store: Store) -> bool:
    return store._url.get_backend_name() == "sqlite"
