"""Measure the fold alone, compared with a plain fold of frozen dataclasses.

Run: .venv/bin/python benchmarks/fold.py [--events 200000]
In the ordinary traffic, groups of three are created, started, submitted, validated and ended; one
task in a hundred times out. The plain fold computes the same scores with floats and checks
nothing.
"""

import argparse
import gc
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from oracle.domain.blocks import Position  # noqa: E402
from oracle.domain.events import network_events  # noqa: E402
from oracle.domain.events.network_events import DomainEvent  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.domain.fold.fold import Fold  # noqa: E402
from oracle.domain.ids import Address, GroupKey, TaskKey  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402

ROUNDS = 3
NODES = 200
LATE_GROUP_SHARE = 0.03
MIN_EVENTS_PER_SECOND = 300_000
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3
LOGS_PER_BLOCK = 20
BLOCK_SECONDS = 12
# The daemon folds this many events before it writes to the database.
WINDOW = 5_000


class Traffic:
    """Generates endless events of a network; the events depend on the seed alone."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)  # noqa: S311 - repeatable, no secret
        self.task_numbers = count(1)
        self.log_numbers = count()
        self.nodes = [Address(f"0x{n:040x}") for n in range(1, NODES + 1)]

    def take_position_and_time(self) -> tuple[Position, int]:
        block, log = divmod(next(self.log_numbers), LOGS_PER_BLOCK)
        return Position(block, log, log), 1_700_000_000 + block * BLOCK_SECONDS

    def iterate_events(self) -> Iterator[DomainEvent]:
        for node in self.nodes:
            yield network_events.NodeJoined(
                *self.take_position_and_time(), node, stake=400 * 10**18, gpu_vram=24
            )
        while True:
            yield from self.iterate_group_events()

    def iterate_group_events(self) -> Iterator[DomainEvent]:
        take_position_and_time = self.take_position_and_time
        nodes = self.random.sample(self.nodes, 3)
        tasks_with_nodes = [(TaskKey(f"0x{next(self.task_numbers):064x}"), node) for node in nodes]
        group = GroupKey(tasks_with_nodes[0][0])
        for task, _ in tasks_with_nodes:
            yield network_events.TaskCreated(
                *take_position_and_time(), task, fee=10**18, min_vram=8, size=1, group=group
            )
        for task, node in tasks_with_nodes:
            yield network_events.TaskStarted(*take_position_and_time(), task, node)
        task_keys = tuple(task for task, _ in tasks_with_nodes)
        yield from self.iterate_answers(tasks_with_nodes)
        yield network_events.GroupValidated(*take_position_and_time(), group, task_keys)
        for n, (task, node) in enumerate(tasks_with_nodes):
            yield network_events.TaskValidated(*take_position_and_time(), task)
            yield (network_events.TaskRefunded if n else network_events.TaskSucceeded)(
                *take_position_and_time(), task, node
            )

    def iterate_answers(self, members: list[tuple[TaskKey, Address]]) -> Iterator[DomainEvent]:
        """Yield submissions in random order; a task that times out is removed from `members`."""
        if self.random.random() < LATE_GROUP_SHARE:
            yield network_events.TaskTimedOut(
                *self.take_position_and_time(), *members.pop(self.random.randrange(3))
            )
        for task, node in self.random.sample(members, len(members)):
            yield network_events.TaskSubmitted(*self.take_position_and_time(), task, node)


def fold_events(events: list[DomainEvent]) -> dict[str, tuple[tuple[int, ...], float]]:
    """Fold the events as the daemon does, and return each node's score pool and reliability H.

    The changes are drained as in the daemon.
    """
    fold = Fold(CRYNUX)
    ledger = fold.ledger
    for first in range(0, len(events), WINDOW):
        fold.fold_events(events[first : first + WINDOW])
        for task in fold.drain_changes().tasks.values():
            if task.ending is not None:
                del ledger.tasks[task.key]
    return {node.address: (tuple(node.pool), node.base / UNIT) for node in ledger.nodes.values()}


def fold_with_journal(events: list[DomainEvent]) -> dict[str, tuple[tuple[int, ...], float]]:
    """Fold like `fold_events`, but with pre-images for each block, as at the head."""
    fold = Fold(CRYNUX)
    for first in range(0, len(events), LOGS_PER_BLOCK):
        block = events[first : first + LOGS_PER_BLOCK]
        fold.fold_block(block[0].at.block, block, journal=True)
        fold.drain_changes()
    nodes = fold.ledger.nodes.values()
    return {node.address: (tuple(node.pool), node.base / UNIT) for node in nodes}


@dataclass(frozen=True)
class PlainNode:
    pool: tuple[int, ...] = ()
    running: int = 0
    base: float = 1.0
    since: int = 0


@dataclass(frozen=True)
class PlainTask:
    created: Position
    node: str = ""
    started: int = 0
    stopped: int | None = None
    validated: bool = False
    ended: bool = False


Terminal = network_events.TaskSucceeded | network_events.TaskRefunded | network_events.TaskTimedOut


class PlainFold:
    """The simplest fold: every change creates a new frozen row."""

    def __init__(self) -> None:
        self.nodes: dict[str, PlainNode] = {}
        self.tasks: dict[str, PlainTask] = {}

    def apply(self, event: DomainEvent) -> None:
        match event:
            case network_events.NodeJoined(node=node, time=now):
                self.nodes[node] = replace(self.nodes.get(node, PlainNode()), base=1.0, since=now)
            case network_events.TaskStarted(task=task, node=node, time=now):
                self.tasks[task] = replace(self.tasks[task], node=node, started=now)
                running = self.nodes[node].running + 1
                self.nodes[node] = replace(self.nodes[node], running=running)
            case network_events.GroupValidated(tasks=tasks):
                self.rank_group(tasks)
            case (
                network_events.TaskCreated()
                | network_events.TaskSubmitted()
                | network_events.TaskValidated()
            ):
                self.advance_task(event)
            case network_events.TaskSucceeded() | network_events.TaskRefunded():
                self.end_task(event, lambda h: min(1.0, h + 0.15))
            case network_events.TaskTimedOut():
                self.end_task(event, lambda h: h * 0.3)
            case _:
                pass

    def advance_task(
        self,
        event: network_events.TaskCreated
        | network_events.TaskSubmitted
        | network_events.TaskValidated,
    ) -> None:
        match event:
            case network_events.TaskCreated(task=task, at=at):
                self.tasks[task] = PlainTask(created=at)
            case network_events.TaskSubmitted(task=task, time=now):
                self.tasks[task] = replace(self.tasks[task], stopped=now)
            case network_events.TaskValidated(task=task):
                self.tasks[task] = replace(self.tasks[task], validated=True)

    def rank_group(self, keys: tuple[TaskKey, ...]) -> None:
        tasks = {key: self.tasks[key] for key in keys}
        duration_by_task = {
            key: task.stopped - task.started
            for key, task in tasks.items()
            if task.stopped is not None
        }
        ranked_keys = sorted(
            duration_by_task, key=lambda key: (duration_by_task[key], tasks[key].created)
        )
        for key in keys:
            score = (10, 5, 2)[ranked_keys.index(key)] if key in duration_by_task else 0
            node = self.nodes[tasks[key].node]
            self.nodes[tasks[key].node] = replace(node, pool=(*node.pool, score)[-50:])

    def end_task(self, event: Terminal, change: Callable[[float], float]) -> None:
        task = self.tasks[event.task]
        event_time = event.time
        self.tasks[event.task] = replace(task, ended=True)
        node = self.nodes[task.node]
        recovered_base = 1 - (1 - node.base) * math.exp(-(event_time - node.since) / 1800)
        running = node.running - 1
        self.nodes[task.node] = replace(
            node, base=change(recovered_base), since=event_time, running=running
        )


def fold_with_plain_code(events: list[DomainEvent]) -> dict[str, tuple[tuple[int, ...], float]]:
    plain = PlainFold()
    for event in events:
        plain.apply(event)
    return {address: (node.pool, node.base) for address, node in plain.nodes.items()}


def measure_fold_seconds(
    fold: Callable[[list[DomainEvent]], object], events: list[DomainEvent]
) -> float:
    """Return the CPU seconds of the fastest of several rounds."""
    min_seconds = math.inf
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        fold(events)
        min_seconds = min(min_seconds, time.process_time() - start)
    return min_seconds


def check_same_scores(events: list[DomainEvent]) -> None:
    """Assert that all folds compute the same scores; otherwise the comparison is meaningless."""
    nodes = fold_events(events)
    plain = fold_with_plain_code(events)
    assert nodes == fold_with_journal(events)
    assert nodes.keys() == plain.keys()
    for address, (pool, base) in nodes.items():
        assert pool == plain[address][0]
        assert math.isclose(base, plain[address][1], abs_tol=1e-9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    events = list(islice(Traffic().iterate_events(), parser.parse_args().events))
    check_same_scores(events)
    # Exclude the events from garbage collection, which would otherwise traverse them.
    gc.freeze()
    fold_by_name = {
        "plain: frozen rows, replace": fold_with_plain_code,
        "fold": fold_events,
        "with a journal": fold_with_journal,
    }
    events_per_second = {
        name: len(events) / measure_fold_seconds(fold, events)
        for name, fold in fold_by_name.items()
    }
    table = Table("way", "events/s", "speedup", title=f"Fold, {len(events):,} events")
    for name, rate in events_per_second.items():
        ratio = rate / events_per_second["plain: frozen rows, replace"]
        table.add_row(name, f"{rate:,.0f}", f"{ratio:.1f}")
    console = Console()
    console.print(table)
    verdict = "reached" if events_per_second["fold"] >= MIN_EVENTS_PER_SECOND else "MISSED"
    console.print(
        f"{events_per_second['fold']:,.0f} events/s; target {MIN_EVENTS_PER_SECOND:,}: {verdict}"
    )
    return 0 if events_per_second["fold"] >= MIN_EVENTS_PER_SECOND else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
