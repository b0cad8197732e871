"""A network with random nodes and tasks, mined block by block."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.network_events import AbortReason, DomainEvent, TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, Task
from oracle.systems.task_queue import is_waiting
from tests.support.histories import make_group_key, make_node_address, make_task_key
from tests.support.scripted import ScriptedChain
from tests.unit.dispatch.plain_dispatch import list_chain_events

# The chain sets both values when it mines.
AT = Position(0, 0, 0)
TIME = 0
NODES = [make_node_address(name) for name in "ABCDEF"]
GPUS = [("T4", 16), ("T4", 16), ("A100", 40), (None, None)]
MODELS = [(), ("base:a",), ("base:a", "base:b")]
VERSIONS = [(1, 0, 0), (1, 2, 0), None]
REASONS = [None, AbortReason.GROUP_TIMEOUT, AbortReason.CREATOR_VALIDATION_TIMEOUT]


@dataclass
class Market:
    """Emits random events that are valid at the end of the chain; the caller makes forks."""

    random: Random
    rules: Rules
    chain: ScriptedChain = field(default_factory=ScriptedChain)
    made: int = 0

    def mine(self, blocks: int, drawn: Mapping[TaskKey, Address]) -> None:
        """Mine blocks; some of the drawn tasks are started."""
        for _ in range(blocks):
            fold = self._folded()
            deeds: list[Callable[[Fold], Iterable[DomainEvent]]] = [
                self._creates, self._joins, self._joins, self._changes, self._changes,
                self._starts, self._ends_waiting, *[self._ends_running] * 4,
            ]  # fmt: skip
            events: list[DomainEvent] = []
            for deed in self.random.choices(deeds, k=self.random.choice([0, 2, 4, 8])):
                events += deed(fold)
            events += [
                network_events.TaskStarted(AT, TIME, key, runner)
                for key, runner in drawn.items()
                if self.random.random() < 0.4
            ]
            self.chain.mine(*events, after=self.random.choice([1, 1, 10, 10, 300, 3000]))

    def _folded(self) -> Fold:
        fold = Fold(self.rules)
        for block, events in list_chain_events(self.chain):
            fold.fold_block(block.number, events, journal=False)
        return fold

    def _creates(self, _: Fold) -> Iterable[DomainEvent]:
        """Create some tasks, alone or in a new group, which may get another task later."""
        self.made += 1
        size = self.random.choice([None, 2, 3])
        name = self.random.choice([None, f"g{self.made}", f"g{self.random.randrange(self.made)}"])
        order_fields = self._draw_requirement()
        for number in range(self.random.choice([1, 2, 3])):
            yield network_events.TaskCreated(
                AT,
                TIME,
                make_task_key(f"{self.made}.{number}"),
                fee=self.random.choice([None, 1, 2, 3]),
                group=None if name is None else make_group_key(name),
                group_size=None if name is None else size,
                **order_fields,
            )

    def _draw_requirement(self) -> dict[str, Any]:
        gpu, memory = self.random.choice(GPUS)
        return {
            "required_gpu": self.random.choice([None, None, None, gpu]),
            "required_gpu_vram": memory,
            "min_vram": self.random.choice([None, None, 16, 40]),
            "models": self.random.choice(MODELS),
            "version": self.random.choice([None, None, (1, 0, 0), (2, 0, 0)]),
            "kind": self.random.choice([None, *TaskKind]),
        }

    def _joins(self, _: Fold) -> Iterable[DomainEvent]:
        gpu, memory = self.random.choice(GPUS)
        stake = self.random.randrange(1, 9) * UNIT
        version = self.random.choice(VERSIONS)
        models = self.random.choice(MODELS)
        runner = self.random.choice(NODES)
        yield network_events.NodeJoined(AT, TIME, runner, stake, gpu, memory, version, models)

    def _changes(self, fold: Fold) -> Iterable[DomainEvent]:
        members = self._members(fold)
        if members:
            runner = self.random.choice(members).address
            memory = self.random.choice([16, 40])
            changes: list[DomainEvent] = [
                network_events.NodePaused(AT, TIME, runner),
                network_events.NodeResumed(AT, TIME, runner),
                network_events.NodeResumed(AT, TIME, runner),
                network_events.NodeQuit(AT, TIME, runner),
                network_events.NodeUpdated(AT, TIME, runner, gpu_vram=memory),
                network_events.ModelAdded(AT, TIME, runner, "base:a"),
            ]
            yield self.random.choice(changes)

    def _starts(self, fold: Fold) -> Iterable[DomainEvent]:
        """Start a task without a draw."""
        waiting = [task for task in fold.ledger.tasks.values() if is_waiting(task)]
        members = [node for node in self._members(fold) if not node.running]
        if waiting and members:
            key = self.random.choice(waiting).key
            runner = self.random.choice(members).address
            yield network_events.TaskStarted(AT, TIME, key, runner)

    def _ends_waiting(self, fold: Fold) -> Iterable[DomainEvent]:
        waiting = [task for task in fold.ledger.tasks.values() if is_waiting(task)]
        if waiting:
            key = self.random.choice(waiting).key
            reason = self.random.choice(REASONS)
            yield network_events.TaskAborted(AT, TIME, key, reason=reason)

    def _ends_running(self, fold: Fold) -> Iterable[DomainEvent]:
        """Let a task be answered and its group validated, or time out,
        which lowers its node's H.
        """
        running = [
            candidate
            for candidate in fold.ledger.tasks.values()
            if candidate.node and not candidate.ending
        ]
        if not running:
            return
        task = self.random.choice(running)
        if task.node is None or self.random.random() < 0.5:
            yield network_events.TaskTimedOut(AT, TIME, task.key, task.node)
            return
        yield network_events.TaskSubmitted(AT, TIME, task.key, task.node)
        if task.group is not None:
            yield network_events.GroupValidated(
                AT, TIME, task.group, self._of_group(fold, task.group)
            )
        yield network_events.TaskSucceeded(AT, TIME, task.key, task.node)

    def _of_group(self, fold: Fold, named: GroupKey) -> tuple[TaskKey, ...]:
        tasks: Iterable[Task] = fold.ledger.tasks.values()
        return tuple(task.key for task in tasks if task.group == named)

    def _members(self, fold: Fold) -> list[Node]:
        nodes: Iterable[Node] = fold.ledger.nodes.values()
        return [node for node in nodes if node.membership is Membership.MEMBER]
