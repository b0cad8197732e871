"""Generates a small network's events block by block from a seed; legal on an unforked chain."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import (
    GroupValidated,
    NodeJoined,
    NodePaused,
    NodeQuit,
    NodeResumed,
    TaskCreated,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
)
from oracle.domain.events.oracle_events import KickAccused, KickCancelled, RoundAccepted
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from tests.support.rounds import build_accepted_round as accepted_in
from tests.support.scripted import REPORTER, Event

# The chain sets both values when it mines.
AT = Position(0, 0, 0)
TIME = 0


def make_address(number: int) -> Address:
    return Address(f"0x{number:040x}")


def make_task_key(number: int) -> TaskKey:
    return TaskKey(f"0x{number:064x}")


def make_group_key(number: int) -> GroupKey:
    return GroupKey(f"0x{0xFF << 240 | number:064x}")


def make_hash(number: int) -> Hash:
    return Hash(f"0x{0xAA << 240 | number:064x}")


def build_accepted_round(number: int, as_of: int = 0) -> RoundAccepted:
    """Return a round that the contract accepted."""
    accepted_round = accepted_in(
        number, as_of=as_of, as_of_hash=make_hash(as_of), root=make_hash(1_000 + number)
    )
    return replace(accepted_round, at=AT)


@dataclass
class Traffic:
    """Six nodes run tasks in groups of three; some are late, and some come and go.

    With `creators`, each group has one of so many creators, or is created after its scores.
    """

    seed: int
    creators: int = 0
    members: list[Address] = field(default_factory=list)
    joined: int = 0
    groups: int = 0
    rounds: int = 0
    # The groups whose tasks run: the tasks and their nodes.
    running: list[list[tuple[TaskKey, Address]]] = field(default_factory=list)
    # Creations that follow after the scores of their tasks.
    late: list[list[Event]] = field(default_factory=list)
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311  # repeatable, no secret

    def block(self) -> list[Event]:
        """Return the events of the next block; often there are none."""
        events: list[Event] = []
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            deeds = [self._join, self._start, self._start, self._finish, self._finish]
            deeds += [self._come_or_go, self._contract]
            events += self.random.choice(deeds)()
        return events

    def blocks(self, count: int) -> list[list[Event]]:
        return [self.block() for _ in range(count)]

    def _join(self) -> list[Event]:
        if self.joined == 6:
            return []
        node = make_address(0xA0 + self.joined)
        self.members.append(node)
        self.joined += 1
        return [NodeJoined(AT, TIME, node, stake=10**20, gpu_name="RTX 4090", gpu_vram=24)]

    def _start(self) -> list[Event]:
        if len(self.members) < 3:
            return self._join()
        nodes = self.random.sample(self.members, 3)
        self.groups += 1
        tasks = [
            (make_task_key(self.groups * 10 + place), node) for place, node in enumerate(nodes)
        ]
        self.running.append(tasks)
        group = make_group_key(self.groups)
        created = self._create(group, tasks)
        started = [TaskStarted(AT, TIME, task, node) for task, node in tasks]
        if self.creators and self.random.randrange(4) == 0:
            self.late.append(created)
            return [*started]
        return [*created, *started]

    def _create(self, group: GroupKey, tasks: Sequence[tuple[TaskKey, Address]]) -> list[Event]:
        creator = (
            make_address(0xC0 + self.random.randrange(self.creators)) if self.creators else None
        )
        return [
            TaskCreated(AT, TIME, task, creator=creator, fee=10**15, group=group)
            for task, _ in tasks
        ]

    def _finish(self) -> list[Event]:
        if not self.running:
            return []
        tasks = self.running.pop(self.random.randrange(len(self.running)))
        late = self.random.choice([None, None, *tasks])
        fine = [pair for pair in tasks if pair != late]
        events: list[Event] = [TaskSubmitted(AT, TIME, *pair) for pair in fine]
        if late is not None:
            events.append(TaskTimedOut(AT, TIME, *late))
        number = int(tasks[0][0], 16) // 10
        group = GroupValidated(AT, TIME, make_group_key(number), tuple(task for task, _ in tasks))
        if self.late and self.random.randrange(2):
            # The tasks of an earlier group are created only now.
            return [*events, group, *self.late.pop(0)]
        return [*events, group, *(TaskSucceeded(AT, TIME, *pair) for pair in fine)]

    def _come_or_go(self) -> list[Event]:
        if not self.members:
            return []
        node = self.random.choice(self.members)
        events: list[Event] = [
            NodePaused(AT, TIME, node),
            NodeResumed(AT, TIME, node),
            NodeQuit(AT, TIME, node),
            NodeJoined(AT, TIME, node, stake=10**20),
        ]
        return self.random.choices(events, k=1)

    def _contract(self) -> list[Event]:
        if not self.members:
            return []
        self.rounds += 1
        node = self.members[0]
        evidence = make_hash(self.rounds)
        kicks: list[Event] = [
            KickAccused(AT, TIME, node, self.rounds, 1_000, evidence, ready_at=9_999),
            KickCancelled(AT, TIME, node, REPORTER, make_hash(0)),
        ]
        return [build_accepted_round(self.rounds), *self.random.choices(kicks, k=1)]
