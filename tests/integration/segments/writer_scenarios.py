"""Scenarios of the ingest cases about the writer: its process, its clock, its database."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from oracle.errors import FatalError, TransientError
from oracle.store.database import Store, UnitOfWork
from tests.integration.segments.faulty_worlds import World
from tests.integration.segments.response_scenarios import Scenario
from tests.support.ingest.indexer import Indexer
from tests.support.txmgr.brittle import Brittle, Died

# More blocks than a window of any scenario.
_MORE = 45


def dies_at(calls: int) -> Scenario:
    """The writer dies repeatedly at a call inside a transaction, and continues."""

    def scenario(world: World) -> Indexer:
        indexer = world.indexer()
        for more in range(4):
            brittle = cast("Store", Brittle(indexer.store, calls + 20 * more))
            with suppress(Died):
                while indexer.step(brittle) is not None:
                    pass
            indexer = world.resume(indexer)
        return world.read(indexer)

    return scenario


def let_other_writer_overtake(world: World) -> Indexer:
    """Another process ingests the same blocks meanwhile; the first one stops."""
    first = world.indexer()
    first.step()
    second = world.open(world.chain.urls, url=first.url)
    world.read(second)
    world.chain.live(_MORE)
    between = cast("Store", _Between(first.store, second.index))
    with pytest.raises(FatalError, match="another process moved the cursor"):
        first.step(between)
    return world.read(second)


@dataclass
class _Between:
    """Forwards everything to a real store, and runs an action before its first write."""

    store: Store
    happens: Callable[[], object] | None

    def call_before_close(self, stop_reader: Callable[[], None]) -> None:
        self.store.call_before_close(stop_reader)

    def read_transaction(self) -> AbstractContextManager[UnitOfWork]:
        return self.store.read_transaction()

    def transaction(self) -> AbstractContextManager[UnitOfWork]:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return self.store.transaction()


def another_writer_is_waited_for(world: World) -> Indexer:
    indexer = world.indexer()
    indexer.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oracle.store.engine.BUSY_SECONDS", 0.1)
        indexer = world.resume(indexer)
        with closing(sqlite3.connect(_file(indexer), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(TransientError, match="another process is writing to the database"):
                indexer.index()
    return world.read(world.resume(indexer))


def _file(indexer: Indexer) -> Path:
    return Path(indexer.url.removeprefix("sqlite:///"))


def restore_old_file(world: World) -> Indexer:
    """An old copy of the file is restored, and the indexer continues with it."""
    indexer = world.read(world.indexer())
    yesterday = _file(indexer).with_suffix(".yesterday")
    with (
        closing(sqlite3.connect(_file(indexer))) as source,
        closing(sqlite3.connect(yesterday)) as copy,
    ):
        source.backup(copy)
    world.chain.live(_MORE)
    world.read(indexer)
    indexer.close()
    for leftover in _file(indexer).parent.glob(f"{_file(indexer).name}-*"):
        leftover.unlink()
    shutil.copyfile(yesterday, _file(indexer))
    return world.read(world.resume(indexer))


def started_at(block: int) -> Scenario:
    return lambda world: world.read(world.indexer(start_block=block))


def started_later(world: World) -> Indexer:
    """The start block is in the future."""
    indexer = world.indexer(start_block=world.chain.head.number + 10)
    for _ in range(2):
        with pytest.raises(TransientError, match="does not exist yet"):
            indexer.step()
    world.chain.live(70)
    return world.read(indexer)


def clock_jumps(world: World) -> Indexer:
    indexer = world.indexer()
    jumps = iter((3600.0, -3600.0) * 400)
    return world.read(indexer, lambda: world.clock.advance(next(jumps)))


def while_blocks_arrive(world: World) -> Indexer:
    left = [20]

    def one_more() -> None:
        if left[0]:
            left[0] -= 1
            world.chain.live(3)

    return world.read(world.indexer(), one_more)


def slow_writer(world: World) -> Indexer:
    """Every prepared range is ready long before the writer reaches it."""
    indexer = world.indexer()

    def wait() -> None:
        for pending in tuple(indexer.source._read_ahead_queue._pending_ranges):
            for future in (pending.local_window, pending.worker_answer):
                if future is not None:
                    with suppress(Exception):
                        future.exception()

    return world.read(indexer, wait)


def stopped_and_resumed(world: World) -> Indexer:
    indexer = world.indexer()
    for _ in range(3):
        indexer.step()
        indexer = world.resume(indexer)
    return world.read(indexer)


WRITERS: dict[str, dict[str, Scenario]] = {
    "58": {"": dies_at(30)},
    "59": {"": dies_at(7)},
    "60": {"": let_other_writer_overtake},
    "61": {"": another_writer_is_waited_for},
    "62": {"": restore_old_file},
    "68": {"the middle": started_at(33), "later": started_later},
    "69": {"": clock_jumps},
    "70": {"": while_blocks_arrive},
    "71": {"": slow_writer},
    "72": {"": stopped_and_resumed},
}
