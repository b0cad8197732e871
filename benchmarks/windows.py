"""Windows of a busy network for the store's benchmarks: raw logs and the changes they cause."""

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


def address(number: int) -> Address:
    return Address("0x" + sha256(b"node %d" % number).hexdigest()[:40])


def word(kind: str, number: int) -> str:
    return "0x" + sha256(f"{kind} {number}".encode()).hexdigest()


def block_at(number: int) -> BlockRef:
    return BlockRef(number, Hash(word("b", number)), Hash(word("b", number - 1)), 2 * number)


def events() -> Iterator[DomainEvent]:
    """Yield endless events: every node joins, then groups of three follow one after another."""
    places = _places()
    for number in range(NODES):
        at, time = next(places)
        yield NodeJoined(
            at, time, address(number), 4 * 10**20, "RTX 4090", 24, (2, 5, 0), ("sd-1.5",), 600
        )
    group = 0
    while True:
        group += 1
        yield from _life_of(group, places)


def windows(logs_each: int, *, journal: bool = False) -> Iterator[FoldedWindow]:
    """Fold the traffic and yield windows of `logs_each` events."""
    fold, source = Fold(CRYNUX), events()
    while True:
        logs = [next(source) for _ in range(logs_each)]
        numbers = range(logs[0].at.block, logs[-1].at.block + 1)
        if journal:
            for number in numbers:
                fold.fold_block(number, [e for e in logs if e.at.block == number], journal=True)
        else:
            fold.fold_events(logs)
        yield FoldedWindow(
            [_log_of(event) for event in logs],
            [block_at(n) for n in numbers],
            fold.drain_changes(),
        )


def _places() -> Iterator[tuple[Position, int]]:
    number = 0
    while True:
        number += 1
        for log in range(LOGS_PER_BLOCK):
            yield Position(number, log // 2, log), 2 * number


def _life_of(group: int, places: Iterator[tuple[Position, int]]) -> Iterator[DomainEvent]:
    tasks = [TaskKey(word("t", 3 * group + n)) for n in range(3)]
    nodes = [address((3 * group + n) % NODES) for n in range(3)]
    key = GroupKey(word("g", group))
    for task in tasks:
        yield TaskCreated(
            *next(places),
            task,
            creator=address(group % 7),
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
        yield TaskStarted(*next(places), task, node)
    # In one group of ten a task times out; from then on, each task changes its node's reliability.
    done = tasks[:2] if group % 10 == 0 else tasks
    for task in tasks[len(done) :]:
        yield TaskTimedOut(*next(places), task)
    for task, node in zip(done, nodes, strict=False):
        yield TaskSubmitted(*next(places), task, node)
    yield GroupValidated(*next(places), key, tuple(tasks))
    for task in done:
        yield TaskValidated(*next(places), task)
    yield TaskSucceeded(*next(places), done[0])
    for task in done[1:]:
        yield TaskRefunded(*next(places), task)


def _log_of(event: DomainEvent) -> Log:
    kind = type(event).__name__
    creation = isinstance(event, TaskCreated)
    return Log(
        block=event.at.block,
        block_hash=block_at(event.at.block).hash,
        time=event.time,
        tx=event.at.tx,
        tx_hash=Hash(word("x", event.at.block * 1000 + event.at.tx)),
        index=event.at.log,
        address=CONTRACT,
        topics=(word(kind, 0), word("t", event.at.log), word("n", event.at.tx)),
        # A task creation contains the requirements, about half a kilobyte; other logs are small.
        data="0x" + word("d", event.at.log)[2:] * (18 if creation else 1),
    )
