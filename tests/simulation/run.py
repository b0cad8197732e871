"""Plays worlds: `make sim`, or one seed again.

    python -m tests.simulation.run [--rounds 10000] [--seed 7 --setting two --log] [--naive]

Prints for each setting rounds, doubles, lost, unfinished, faults and seconds of CPU. Exit code 1:
the outbox doubled, lost or stranded something, or broke an invariant.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from oracle.domain.block import BlockRef
from oracle.domain.ids import Hash
from oracle.store.schema import migrate
from oracle.store.store import Store
from tests.simulation.books import Books
from tests.simulation.goals import Goals, Verdict
from tests.simulation.memory import Memory
from tests.simulation.naive import NaivePublisher, Row
from tests.simulation.replica import Replica
from tests.simulation.weather import Setting
from tests.simulation.world import World

SETTINGS = {
    one.name: one
    for one in (
        Setting("two"),
        Setting("alone", replicas=1),
        Setting("one endpoint", endpoints=1),
        Setting("three endpoints", endpoints=3),
        Setting("low cap", fee_cap=25),
        Setting("quick bumps", bump_blocks=1),
        Setting("slow bumps", bump_blocks=8, finality=12),
        Setting("short finality", finality=3),
        Setting("half noise", noise=0.5),
        Setting("twice the noise", noise=2.0),
        Setting("no noise", noise=0.0),
        # No room to bump, so that only sending again helps; and fees that never come back.
        Setting("no bumps", fee_cap=13),
        Setting("dear for good", fee_cap=200, later_fee=60),
    )
}
# Where there is a file system in memory, a commit costs no disk.
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - folders of our own
_BLOCKS_A_ROUND = 60
_CALM_BLOCKS = 400
_LEASE_BLOCKS = 3


class Worker(Protocol):
    """Whoever publishes."""

    def turn(self) -> None:
        """Work for the time of one block."""


@dataclass(frozen=True)
class Played:
    """How one world ended; `faults`: invariants that did not hold."""

    setting: Setting
    seed: int
    verdict: Verdict
    faults: tuple[str, ...]
    blocks: int
    passed: dict[str, int]
    # Of CPU; nothing of the story.
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.faults


Log = Callable[[str], None]


def _silent(_: str) -> None:
    """Say nothing."""


def play(
    setting: Setting,
    seed: int,
    template: Path,
    log: Log = _silent,
    *,
    remembers: bool = True,
) -> Played:
    """Let the outbox live through one world. `template`: a migrated database without rows."""
    world, goals = World(setting, seed), Goals(setting.rounds)
    with _database(template) as (path, store):
        books = Books(path, world)
        memory = Memory(store, is_off=not remembers)
        replicas = [Replica(world, memory, books, goals, log) for _ in range(setting.replicas)]
        try:
            _live(world, replicas, books, lambda: goals.is_reached(books.wishes()), log)
        except Exception as error:  # noqa: BLE001  whatever ends a daemon unasked is a fault
            books.faults.append(f"ended by {type(error).__name__}: {str(error).splitlines()[0]}")
        books.check()
        known = books.wishes()
        done = {one for one in goals.all if one in known and known[one].state == "final"}
        if goals.is_reached(known):
            books.check_spending()
        books.close()
        memory.forget()
    verdict = Verdict.of(goals, done, world.chain)
    return Played(setting, seed, verdict, tuple(books.faults), world.number, world.weather.passed)


def play_naive(setting: Setting, seed: int, log: Log = _silent) -> Played:
    """Let the naive publisher live through the same world."""
    world, goals = World(setting, seed), Goals(setting.rounds)
    rows: list[Row] = []
    workers = [NaivePublisher(world, goals, rows, log) for _ in range(setting.replicas)]
    _live(world, workers, None, lambda: workers[0].done() == set(goals.all), log)
    verdict = Verdict.of(goals, workers[0].done(), world.chain)
    return Played(setting, seed, verdict, (), world.number, world.weather.passed)


@contextmanager
def _database(template: Path) -> Iterator[tuple[Path, Store]]:
    """A fresh database, with a cursor for `Books.fold_to` to move."""
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_MEMORY) as folder:
        path = Path(folder) / "oracle.sqlite"
        path.write_bytes(template.read_bytes())
        with Store.open(f"sqlite:///{path}") as store:
            first = BlockRef(0, Hash("0x" + 64 * "f"), Hash("0x" + 64 * "e"), 0)
            with store.transaction() as unit:
                unit.cursor.move_to(first, None, 0)
            yield path, store


def _live(
    world: World,
    workers: Sequence[Worker],
    books: Books | None,
    is_over: Callable[[], bool],
    log: Log,
) -> None:
    """Go through the chaos, and then through a while of calm to come to an end in."""
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
    # What is done now must stay done.
    for _ in range(world.setting.finality + 1):
        turns.block()


@dataclass
class _Turns:
    """Whose turn it is."""

    world: World
    workers: Sequence[Worker]
    books: Books | None
    log: Log
    _now: Worker | None = None

    def block(self) -> None:
        """One block, in which everybody works."""
        self.world.mine()
        self.log(f"block {self.world.number}")
        if self.books is not None and self.world.number % _LEASE_BLOCKS == 0:
            self._expire_dead()
        for worker in self.workers:
            self._now = worker
            worker.turn()
        self._now = None

    def while_stalled(self, blocks: int) -> None:
        """Whose turn it was stands still; the others go on."""
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
        """The lease of whoever is gone has an end; who lives renews it."""
        if self.books is not None and all(
            isinstance(one, Replica) and not one.is_leader for one in self.workers
        ):
            self.books.expire_lease()


def main() -> int:
    """Play what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description="Seeded chaos for the outbox.")
    parser.add_argument("--rounds", type=int, default=10_000, help="pushes over all settings")
    parser.add_argument("--setting", choices=sorted(SETTINGS), help="only this one")
    parser.add_argument("--seed", type=int, help="only this one; else from 1 up")
    parser.add_argument("--log", action="store_true", help="say what happens, block by block")
    parser.add_argument("--naive", action="store_true", help="the naive publisher instead")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    asked = parser.parse_args()
    chosen = [SETTINGS[asked.setting]] if asked.setting else list(SETTINGS.values())
    if asked.log:
        asked.jobs = 1
    worlds = -(-asked.rounds // sum(one.rounds for one in chosen))
    seeds = range(1, worlds + 1) if asked.seed is None else [asked.seed]
    found: dict[str, list[Played]] = {one.name: [] for one in chosen}
    began = time.monotonic()
    with template() as made, ProcessPoolExecutor(asked.jobs) as pool:
        # Seed by seed: whoever stops it early has seen every setting.
        begun = {
            seed: [pool.submit(_one, one, seed, made, asked) for one in chosen] for seed in seeds
        }
        for seed, worlds_of in begun.items():
            for world in worlds_of:
                played = world.result()
                found[played.setting.name].append(played)
            if len(begun) > 1:
                _sum(f"up to seed {seed}", [one for each in found.values() for one in each])
    for name, played_of in found.items():
        _sum(name, played_of)
    total = _sum("all", [one for each in found.values() for one in each])
    seconds, worked = time.monotonic() - began, total.pop()
    _say(f"{total[0] / seconds:.1f} rounds a second, {total[0] / worked:.1f} a second of CPU")
    return 1 if any(total[1:]) else 0


def _one(setting: Setting, seed: int, made: Path, asked: argparse.Namespace) -> Played:
    log, began = _say if asked.log else _silent, time.process_time()
    played = play_naive(setting, seed, log) if asked.naive else play(setting, seed, made, log)
    if not played.is_clean and not asked.naive:
        _say(f"{setting.name}, seed {seed}: {played.verdict} {'; '.join(played.faults)}")
    return replace(played, seconds=time.process_time() - began)


def _sum(name: str, found: Sequence[Played]) -> list[float]:
    rounds = sum(one.setting.rounds for one in found)
    counts = [
        rounds,
        sum(one.verdict.doubles for one in found),
        sum(one.verdict.lost for one in found),
        sum(one.verdict.unfinished for one in found),
        sum(len(one.faults) for one in found),
        sum(one.seconds for one in found),
    ]
    words = "{:>16}: {:6} rounds, {:4} doubles, {:4} lost, {:4} unfinished, {:4} faults, {:5.0f} s"
    _say(words.format(name, *counts))
    return counts


@contextmanager
def template() -> Iterator[Path]:
    """A migrated database without rows."""
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=_MEMORY) as folder:
        path = Path(folder) / "template.sqlite"
        migrate(f"sqlite:///{path}")
        yield path


def smaller(setting: Setting, rounds: int) -> Setting:
    """The same world, for fewer rounds."""
    return replace(setting, rounds=rounds)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
