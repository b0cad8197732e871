"""Windows of a busy network for the store's benchmarks: raw logs and the resulting changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import (
    DomainEvent,
    GroupValidated,
    NodeJoined,
    TaskCreated,
    TaskKind,
    TaskRefunded,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.logs import Log
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

NODES = 100
LOGS_PER_BLOCK = 20
CONTRACT = Address("0x" + 40 * "c")


@dataclass(slots=True)
class FoldedWindow:
    """The rows of one commit; folding `logs` results in `changes`."""

    logs: list[Log]
    blocks: list[BlockRef]
    changes: Changes


def build_address(number: int) -> Address:
    return Address("0x" + sha256(b"node %d" % number).hexdigest()[:40])


def build_hash(kind: str, number: int) -> str:
    return "0x" + sha256(f"{kind} {number}".encode()).hexdigest()


def build_block_ref(number: int) -> BlockRef:
    return BlockRef(
        number, Hash(build_hash("b", number)), Hash(build_hash("b", number - 1)), 2 * number
    )


def iterate_events() -> Iterator[DomainEvent]:
    """Yield endless events: every node joins, then groups of three follow each other."""
    positions = _iterate_positions()
    for number in range(NODES):
        at, time = next(positions)
        yield NodeJoined(
            at,
            time,
            build_address(number),
            4 * 10**20,
            "RTX 4090",
            24,
            (2, 5, 0),
            ("sd-1.5",),
            600,
        )
    group = 0
    while True:
        group += 1
        yield from _iterate_group_events(group, positions)


def iterate_windows(logs_per_window: int, *, journal: bool = False) -> Iterator[FoldedWindow]:
    """Fold the traffic and yield windows of `logs_per_window` events."""
    fold = Fold(CRYNUX)
    event_source = iterate_events()
    while True:
        logs = [next(event_source) for _ in range(logs_per_window)]
        block_numbers = range(logs[0].at.block, logs[-1].at.block + 1)
        if journal:
            for number in block_numbers:
                fold.fold_block(
                    number, [event for event in logs if event.at.block == number], journal=True
                )
        else:
            fold.fold_events(logs)
        yield FoldedWindow(
            [_build_log(event) for event in logs],
            [build_block_ref(number) for number in block_numbers],
            fold.drain_changes(),
        )


def _iterate_positions() -> Iterator[tuple[Position, int]]:
    number = 0
    while True:
        number += 1
        for log in range(LOGS_PER_BLOCK):
            yield Position(number, log // 2, log), 2 * number


def _iterate_group_events(
    group: int, positions: Iterator[tuple[Position, int]]
) -> Iterator[DomainEvent]:
    tasks = [TaskKey(build_hash("t", 3 * group + number)) for number in range(3)]
    nodes = [build_address((3 * group + number) % NODES) for number in range(3)]
    key = GroupKey(build_hash("g", group))
    for task in tasks:
        yield TaskCreated(
            *next(positions),
            task,
            creator=build_address(group % 7),
            fee=10**18,
            min_vram=8,
            required_gpu="",
            required_gpu_vram=0,
            models=("sd-1.5",),
            version=(2, 5, 0),
            size=1,
            kind=TaskKind.SD,
            timeout=300,
            group=key,
        )
    for task, node in zip(tasks, nodes, strict=True):
        yield TaskStarted(*next(positions), task, node)
    # In every tenth group, one task times out; from then on, each task changes its node's
    # reliability.
    answered_tasks = tasks[:2] if group % 10 == 0 else tasks
    for task in tasks[len(answered_tasks) :]:
        yield TaskTimedOut(*next(positions), task)
    for task, node in zip(answered_tasks, nodes, strict=False):
        yield TaskSubmitted(*next(positions), task, node)
    yield GroupValidated(*next(positions), key, tuple(tasks))
    for task in answered_tasks:
        yield TaskValidated(*next(positions), task)
    yield TaskSucceeded(*next(positions), answered_tasks[0])
    for task in answered_tasks[1:]:
        yield TaskRefunded(*next(positions), task)


def _build_log(event: DomainEvent) -> Log:
    event_name = type(event).__name__
    is_creation = isinstance(event, TaskCreated)
    return Log(
        block=event.at.block,
        block_hash=build_block_ref(event.at.block).hash,
        time=event.time,
        tx=event.at.tx,
        tx_hash=Hash(build_hash("x", event.at.block * 1000 + event.at.tx)),
        index=event.at.log,
        address=CONTRACT,
        topics=(
            build_hash(event_name, 0),
            build_hash("t", event.at.log),
            build_hash("n", event.at.tx),
        ),
        # The log of a task's creation contains the requirements and has about half a kilobyte.
        # Other logs are small.
        data="0x" + build_hash("d", event.at.log)[2:] * (18 if is_creation else 1),
    )
