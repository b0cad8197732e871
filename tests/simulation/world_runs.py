"""Plays one world with the outbox or with the naive publisher."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.queries.outbox_figures import OutboxCounter
from oracle.store.database import Store
from oracle.store.schema import migrate
from tests.simulation.books import Books
from tests.simulation.goals import Goals, Verdict
from tests.simulation.memory import Memory
from tests.simulation.mishaps import Setting
from tests.simulation.naive import NaivePublisher, Row
from tests.simulation.planner import Planner
from tests.simulation.replica import Replica
from tests.simulation.world import World

# A commit needs no disk if there is a file system in memory.
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - folders of our own
_BLOCKS_A_ROUND = 60
_CALM_BLOCKS = 400
_LEASE_BLOCKS = 3
_COUNTED_EVERY = 50


class Worker(Protocol):
    """A publisher."""

    def turn(self) -> None:
        """Work for the duration of one block."""


@dataclass(frozen=True)
class Played:
    """The result of one world.

    `faults`: the violated invariants. `passed`: the mishaps that happened. `signed`: the number of
    signed transactions by reason.
    """

    setting: Setting
    seed: int
    verdict: Verdict
    faults: tuple[str, ...]
    blocks: int
    passed: dict[str, int]
    signed: dict[str, int] = field(default_factory=dict)
    # CPU seconds; not part of the outcome.
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.faults


Log = Callable[[str], None]


def _silent(_: str) -> None:
    """Print nothing."""


def play(
    setting: Setting,
    seed: int,
    template: Path,
    log: Log = _silent,
    *,
    remembers: bool = True,
) -> Played:
    """Play one world with the outbox.

    `template` is a migrated database without rows.
    """
    world = World(setting, seed)
    goals = Goals(setting.rounds)
    with _database(template) as (path, store):
        books = Books(path, world)
        memory = Memory(store, is_off=not remembers)
        planner = Planner(world, books, goals)
        replicas = [Replica(world, memory, books, planner, log) for _ in range(setting.replicas)]
        counter = _Counter(world, store, lambda: goals.is_reached(books.requests()))
        try:
            _live(world, replicas, books, counter.is_over, log)
        except Exception as error:  # noqa: BLE001  whatever ends a daemon unasked is a fault
            books.faults.append(f"ended by {type(error).__name__}: {str(error).splitlines()[0]}")
        books.check()
        counter.compare(books)
        wished_by_effect = books.requests()
        signed = books.counts()
        executed = {
            effect
            for effect in goals.all
            if effect in wished_by_effect and wished_by_effect[effect].state == "final"
        }
        if goals.is_reached(wished_by_effect):
            books.check_spending()
        books.close()
        memory.forget()
    verdict = Verdict.of(goals, executed, world.chain)
    passed = world.weather.passed
    return Played(setting, seed, verdict, tuple(books.faults), world.number, passed, signed)


def play_naive(setting: Setting, seed: int, log: Log = _silent) -> Played:
    """Play the same world with the naive publisher."""
    world = World(setting, seed)
    goals = Goals(setting.rounds)
    rows: list[Row] = []
    workers = [NaivePublisher(world, goals, rows, log) for _ in range(setting.replicas)]
    _live(world, workers, None, lambda: workers[0].list_executed_effects() == set(goals.all), log)
    verdict = Verdict.of(goals, workers[0].list_executed_effects(), world.chain)
    return Played(setting, seed, verdict, (), world.number, world.weather.passed)


@dataclass
class _Counter:
    """Counts nonces by outcome while the world runs, as `/metrics` does."""

    world: World
    store: Store
    is_reached: Callable[[], bool]
    _statistics: OutboxCounter = field(default_factory=OutboxCounter)

    def is_over(self) -> bool:
        """Update the counts occasionally; return whether everything is done."""
        if self.world.number % _COUNTED_EVERY == 0:
            self._statistics.compute_outbox_stats(self.store, 0)
        return self.is_reached()

    def compare(self, books: Books) -> None:
        """Update the counts, and compare the counts with a complete recount."""
        along, anew = (
            counter.compute_outbox_stats(self.store, 0)
            for counter in (self._statistics, OutboxCounter())
        )
        books.check_counters(along, anew)


@contextmanager
def _database(template: Path) -> Iterator[tuple[Path, Store]]:
    """Yield a new database with a cursor, which `Books.fold_to` moves."""
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_MEMORY) as folder:
        path = Path(folder) / "oracle.sqlite"
        path.write_bytes(template.read_bytes())
        with Store.open(f"sqlite:///{path}") as store:
            first = BlockRef(0, Hash("0x" + 64 * "f"), Hash("0x" + 64 * "e"), 0)
            with store.transaction() as uow:
                uow.cursor.move_to(first, None, 0)
            yield path, store


def _live(
    world: World,
    workers: Sequence[Worker],
    books: Books | None,
    is_over: Callable[[], bool],
    log: Log,
) -> None:
    """Run the phase with mishaps, and then a calm phase in which everything can finish."""
    turns = _Turns(world, workers, books, log)
    world.others = turns.while_stalled
    for _ in range(world.setting.rounds * _BLOCKS_A_ROUND):
        turns.block()
        if is_over():
            break
    world.calm()
    for _ in range(_CALM_BLOCKS):
        turns.block()
        if is_over() and world.number > 0:
            break
    # An effect that is done must remain done.
    for _ in range(world.setting.finality + 1):
        turns.block()


@dataclass
class _Turns:
    """Runs the workers in turn."""

    world: World
    workers: Sequence[Worker]
    books: Books | None
    log: Log
    _now: Worker | None = None

    def block(self) -> None:
        """Run every worker for one block."""
        self.world.mine()
        self.log(f"block {self.world.number}")
        if self.books is not None and self.world.number % _LEASE_BLOCKS == 0:
            self._expire_dead()
        for worker in self.workers:
            self._now = worker
            worker.turn()
        self._now = None

    def while_stalled(self, blocks: int) -> None:
        """Run the other workers while the current one is stalled."""
        stalled = self._now
        self.log(f"  stalls for {blocks} blocks")
        for place in range(blocks):
            self.world.mine()
            if self.books is not None and place == _LEASE_BLOCKS:
                self.books.expire_lease()
            for worker in self.workers:
                if worker is not stalled:
                    self._now = worker
                    worker.turn()
        self._now = stalled
        self.log("  goes on")

    def _expire_dead(self) -> None:
        """Expire the lease of a worker that has died; a live worker renews its lease."""
        if self.books is not None and all(
            isinstance(worker, Replica) and not worker.is_leader for worker in self.workers
        ):
            self.books.expire_lease()


@contextmanager
def template() -> Iterator[Path]:
    """Yield a migrated database without rows."""
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_MEMORY) as folder:
        path = Path(folder) / "template.sqlite"
        migrate(f"sqlite:///{path}")
        yield path
