"""Emits the simulated network's events, applies them, and draws nodes by the real policy."""

from collections.abc import Iterable, Iterator, Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Protocol

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, TaskKey
from oracle.domain.incidents import Incident
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.policy import PolicyInput, SelectionPolicy
from oracle.systems.weighted_draw import draw_nodes


class _NodeChooser(Protocol):
    """Draws one node for a task."""

    def update_node(self, node: Node) -> None:
        """Update the chooser's copy of a changed node."""
        ...

    def apply_event(self, event: DomainEvent) -> None:
        """Update the chooser after an event that was already applied to the network's state."""
        ...

    def draw_node(self, task: Task, seed: bytes, policy_input: PolicyInput) -> Address | None:
        """Draw a node for a task, or return None if the task has no candidate."""
        ...


class _IndexedChooser:
    """Draws nodes from an index of candidates, for a Crynux policy."""

    def __init__(self, rules: Rules, policy: CrynuxPolicy) -> None:
        self._pool = CandidatePool(rules, policy.weighting)

    def update_node(self, node: Node) -> None:
        self._pool.update_node(node)

    def apply_event(self, event: DomainEvent) -> None:
        """Do nothing, because the nodes have already been updated."""

    def draw_node(self, task: Task, seed: bytes, policy_input: PolicyInput) -> Address | None:
        drawn_nodes = self._pool.draw_nodes(
            task, policy_input.time, seed, reserved=policy_input.reserved
        )
        return drawn_nodes[0].node if drawn_nodes else None


class _JudgingChooser:
    """Lets the policy judge all nodes for each draw."""

    def __init__(self, policy: SelectionPolicy) -> None:
        self._evaluator = policy.create_evaluator()

    def update_node(self, node: Node) -> None:
        """Do nothing, because the policy reads the nodes itself."""

    def apply_event(self, event: DomainEvent) -> None:
        self._evaluator.apply_event(event)

    def draw_node(self, task: Task, seed: bytes, policy_input: PolicyInput) -> Address | None:
        verdicts = self._evaluator.evaluate_candidates(task, policy_input)
        weights = [
            (verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None
        ]
        drawn_nodes = draw_nodes(weights, seed, 1)
        return drawn_nodes[0].node if drawn_nodes else None


class FoldedNetwork:
    """The state of the simulated network, which applies its own events and draws nodes.

    One block lasts one second. The caller sets `time` to the time of each action.
    """

    def __init__(self, rules: Rules, policy: SelectionPolicy, time: int) -> None:
        self.rules = rules
        self.time = time
        self._fold = Fold(rules)
        self._log_count = 0
        # All incidents so far, by number.
        self.incidents: dict[int, Incident] = {}
        # If this is False, all events belong to the transaction with the number `_transaction`.
        self._has_own_transaction, self._transaction = True, 0
        self._chooser: _NodeChooser = (
            _IndexedChooser(rules, policy)
            if isinstance(policy, CrynuxPolicy)
            else _JudgingChooser(policy)
        )

    def emit_event(
        self,
        event_type: type[DomainEvent],
        /,
        *positional_fields: Any,  # noqa: ANN401 - an event's own fields
        **fields: Any,  # noqa: ANN401
    ) -> DomainEvent:
        """Create an event at the current time, apply it and return it."""
        self._log_count += 1
        transaction = self._log_count if self._has_own_transaction else self._transaction
        event = event_type(
            Position(self.time, transaction, self._log_count),
            self.time,
            *positional_fields,
            **fields,
        )
        self._fold.fold_events((event,), is_complete=self._has_own_transaction)
        self._chooser.apply_event(event)
        return event

    @contextmanager
    def emit_in_one_transaction(self) -> Iterator[None]:
        """Put all events emitted within this context into one transaction."""
        self._has_own_transaction, self._transaction = False, self._log_count + 1
        try:
            yield
        finally:
            self._has_own_transaction = True
        self._fold.score_groups_closed_in_transaction()

    def update_node_chooser(self) -> None:
        """Pass the nodes changed since the last call to the chooser."""
        changed_nodes = self._fold.ledger.changes.nodes
        for node in changed_nodes.values():
            self._chooser.update_node(node)
        changed_nodes.clear()

    def drain_changes(self) -> Changes:
        """Return the changes since the last call, and pass changed nodes to the chooser.

        The changes of nodes are not returned.
        """
        self.update_node_chooser()
        changes = self._fold.drain_changes()
        self.incidents.update(changes.incidents.list_incidents())
        return changes

    def get_node(self, address: Address) -> Node:
        """Return the current state of a node that has joined."""
        return self._fold.ledger.nodes[address]

    def draw_node(
        self, key: TaskKey, seed: bytes, reserved: AbstractSet[Address]
    ) -> Address | None:
        """Draw a node for a created task.

        `update_node_chooser` must be called first.
        """
        ledger = self._fold.ledger
        policy_input = PolicyInput(ledger.nodes, self.rules, self.time, reserved)
        return self._chooser.draw_node(ledger.tasks[key], seed, policy_input)

    def drop_tasks(self, keys: Iterable[TaskKey]) -> None:
        """Remove finished tasks, which are no longer needed, from the state."""
        for key in keys:
            del self._fold.ledger.tasks[key]
