"""The network's events, folded at once by the real fold, and draws by the real policy."""

from collections.abc import Iterable, Iterator, Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Protocol

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.policy import PolicyInput, SelectionPolicy
from oracle.systems.weighted_draw import draw_nodes


class _Chooser(Protocol):
    """Draws one node for a task."""

    def note(self, node: Node) -> None:
        """Update a node that has changed."""
        ...

    def apply_event(self, event: DomainEvent) -> None:
        """Apply an event that has been folded."""
        ...

    def choose(self, task: Task, seed: bytes, asked: PolicyInput) -> Address | None:
        """Return the drawn node, or None if there is no candidate now."""
        ...


class _FromPool:
    """Draws from an index of candidates, for a Crynux policy."""

    def __init__(self, rules: Rules, policy: CrynuxPolicy) -> None:
        self._pool = CandidatePool(rules, policy.weighting)

    def note(self, node: Node) -> None:
        self._pool.update_node(node)

    def apply_event(self, event: DomainEvent) -> None:
        """Do nothing, because the fold has updated the nodes."""

    def choose(self, task: Task, seed: bytes, asked: PolicyInput) -> Address | None:
        drawn = self._pool.draw_nodes(task, asked.time, seed, reserved=asked.reserved)
        return drawn[0].node if drawn else None


class _FromVerdicts:
    """Lets the policy judge all nodes for each draw."""

    def __init__(self, policy: SelectionPolicy) -> None:
        self._follower = policy.create_follower()

    def note(self, node: Node) -> None:
        """Do nothing, because the policy reads the nodes themselves."""

    def apply_event(self, event: DomainEvent) -> None:
        self._follower.apply_event(event)

    def choose(self, task: Task, seed: bytes, asked: PolicyInput) -> Address | None:
        verdicts = self._follower.judge_candidates(task, asked)
        weights = [(each.node, each.weight) for each in verdicts if each.weight is not None]
        drawn = draw_nodes(weights, seed, 1)
        return drawn[0].node if drawn else None


class FoldedNetwork:
    """A fold that gets every event as it happens, and draws based on its state.

    One block is one second. The agenda sets `time`.
    """

    def __init__(self, rules: Rules, policy: SelectionPolicy, time: int) -> None:
        self.rules = rules
        self.time = time
        self._fold = Fold(rules)
        self._logs = 0
        # Whether each event has its own transaction; else all are in this one.
        self._is_apart, self._transaction = True, 0
        self._chooser: _Chooser = (
            _FromPool(rules, policy) if isinstance(policy, CrynuxPolicy) else _FromVerdicts(policy)
        )

    def say(self, said: type[DomainEvent], /, *named: Any, **fields: Any) -> DomainEvent:  # noqa: ANN401 - an event's own fields
        """Emit an event at the current time, and fold it."""
        self._logs += 1
        transaction = self._logs if self._is_apart else self._transaction
        event = said(Position(self.time, transaction, self._logs), self.time, *named, **fields)
        self._fold.fold_events((event,), is_complete=self._is_apart)
        self._chooser.apply_event(event)
        return event

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Put all events of this context into one transaction; else each has its own."""
        self._is_apart, self._transaction = False, self._logs + 1
        try:
            yield
        finally:
            self._is_apart = True
        self._fold.finish_transaction()

    def note_nodes(self) -> None:
        """Pass changed nodes to the chooser."""
        changed = self._fold.ledger.changes.nodes
        for node in changed.values():
            self._chooser.note(node)
        changed.clear()

    def settle(self) -> Changes:
        """Pass changed nodes to the chooser, and return all other changes since the last call."""
        self.note_nodes()
        return self._fold.drain_changes()

    def node(self, address: Address) -> Node:
        """Return the fold's state of a node that has joined."""
        return self._fold.ledger.nodes[address]

    def choose(self, key: TaskKey, seed: bytes, taken: AbstractSet[Address]) -> Address | None:
        """Draw a node for a created task; call `update_chooser` first."""
        ledger = self._fold.ledger
        asked = PolicyInput(ledger.nodes, self.rules, self.time, taken)
        return self._chooser.choose(ledger.tasks[key], seed, asked)

    def forget(self, keys: Iterable[TaskKey]) -> None:
        """Drop finished tasks, which are never needed again."""
        for key in keys:
            del self._fold.ledger.tasks[key]
