"""Computes how a policy would have distributed a history's tasks, one start at a time.

There is no feedback, so the history continues unchanged whichever node the policy would have
drawn. The weights of the candidates come from the policy, or from a faster index with the same
weights, which does not judge every node for every task.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nsmallest
from typing import Protocol

from lab.backtest.results import TaskSpread
from oracle.domain.events.network_events import TaskStarted
from oracle.domain.fold.preconditions import find_start_violation
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task, create_task
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.policy import CandidateEvaluator, PolicyInput, SelectionPolicy


class CandidateWeights(Protocol):
    """Lists the candidates for a task with their weights."""

    def update_node(self, node: Node) -> None:
        """Recompute the weight of a node that an event has just changed."""
        ...

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        """Return the address and weight of each candidate, sorted by address."""
        ...


class _JudgedWeights:
    """Computes weights by letting the policy judge all nodes for each task."""

    def __init__(self, evaluator: CandidateEvaluator) -> None:
        self._evaluator = evaluator

    def update_node(self, node: Node) -> None:
        """Do nothing, because the policy reads the nodes itself."""

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        return [
            (verdict.node, verdict.weight)
            for verdict in self._evaluator.evaluate_candidates(task, policy_input)
            if verdict.weight is not None
        ]


class _IndexedWeights:
    """Keeps the candidates of a Crynux policy in an index."""

    def __init__(self, rules: Rules, policy: CrynuxPolicy) -> None:
        self._pool = CandidatePool(rules, policy.weighting)

    def update_node(self, node: Node) -> None:
        self._pool.update_node(node)

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        return self._pool.list_candidates(task, policy_input.time, policy_input.reserved)


def create_candidate_weights(
    policy: SelectionPolicy, evaluator: CandidateEvaluator, rules: Rules
) -> CandidateWeights:
    """Create an index for a Crynux policy.

    Any other policy judges all nodes each time.
    """
    if isinstance(policy, CrynuxPolicy):
        return _IndexedWeights(rules, policy)
    return _JudgedWeights(evaluator)


# Chances are in units of 10^-27. Even a sum of a million of them is then exact to 18 digits.
CHANCE_UNIT = 10**27


def sample_start_numbers(starts: int, max_starts: int, seed: int) -> frozenset[int] | None:
    """Return which task starts to judge, or None to judge all.

    Task starts are numbered from 0. The sample is the same for every system, machine and number of
    processes.
    """
    if starts <= max_starts:
        return None
    return frozenset(
        nsmallest(
            max_starts,
            range(starts),
            key=lambda start_number: _hash_start_number(seed, start_number),
        )
    )


def _hash_start_number(seed: int, start_number: int) -> bytes:
    return sha256(f"{seed} {start_number}".encode()).digest()


@dataclass(slots=True)
class TaskSpreadMeter:
    """Counts each node's task starts, and sums up its probabilities of being drawn.

    Without `candidate_weights`, only the starts are counted.
    """

    rules: Rules
    candidate_weights: CandidateWeights | None
    chosen_starts: AbstractSet[int] | None
    _actual: dict[Address, int] = field(default_factory=dict)
    _expected: dict[Address, int] = field(default_factory=dict)
    # For each group that a task names, the nodes that started a task of the group.
    _nodes_by_group: dict[GroupKey, set[Address]] = field(default_factory=dict)
    _seen_count: int = 0
    _judged_count: int = 0
    _unplaced_count: int = 0

    def record_uncounted_start(self, event: TaskStarted, tasks: Mapping[TaskKey, Task]) -> None:
        """Record a task start before the counted range.

        The start is not counted, but its node cannot get another task of the same group later.
        """
        task = tasks.get(event.task)
        if task is not None and find_start_violation(task, event) is None:
            self._record_group_node(task, event)

    def evaluate_start(
        self, event: TaskStarted, tasks: Mapping[TaskKey, Task], nodes: Mapping[Address, Node]
    ) -> None:
        """Count a task start, and add its candidates' probabilities of being drawn.

        This must be called before the fold. Before the fold, the node of the start is still free
        and can be a candidate.
        """
        start_number = self._seen_count
        self._seen_count = self._seen_count + 1
        task = tasks.get(event.task)
        if task is not None and find_start_violation(task, event) is not None:
            return
        task = create_task(event.task) if task is None else task
        self._actual[event.node] = self._actual.get(event.node, 0) + 1
        if self.candidate_weights is not None and (
            self.chosen_starts is None or start_number in self.chosen_starts
        ):
            policy_input = PolicyInput(
                nodes, self.rules, event.time, self._list_reserved_nodes(task)
            )
            self._judged_count += 1
            self._add_expected_tasks(self.candidate_weights.list_weights(task, policy_input))
        self._record_group_node(task, event)

    def update_node(self, node: Node) -> None:
        """Recompute the weight of a node that an event has just changed."""
        if self.candidate_weights is not None:
            self.candidate_weights.update_node(node)

    def _add_expected_tasks(self, weights: list[tuple[Address, int]]) -> None:
        total_weight = sum(weight for _, weight in weights)
        if not weights:
            self._unplaced_count += 1
        elif not total_weight:
            # If all weights are 0, all candidates have the same chance
            # (docs/reference/scoring-rules.md#selection-weight).
            total_weight = len(weights)
            weights = [(node, 1) for node, _ in weights]
        for node, weight in weights:
            if weight:
                self._expected[node] = (
                    self._expected.get(node, 0) + weight * CHANCE_UNIT // total_weight
                )

    def _list_reserved_nodes(self, task: Task) -> frozenset[Address]:
        """Return the nodes with a run of the task or another task of its group."""
        running_nodes = {run.node for run in task.runs}
        group_nodes = self._nodes_by_group.get(task.group, ()) if task.group is not None else ()
        return frozenset(running_nodes.union(group_nodes))

    def _record_group_node(self, task: Task, event: TaskStarted) -> None:
        if task.group is not None and self.candidate_weights is not None:
            self._nodes_by_group.setdefault(task.group, set()).add(event.node)

    def build_spread(self) -> TaskSpread:
        """Return how the counted task starts are distributed over nodes."""
        return TaskSpread(self._actual, self._expected, self._judged_count, self._unplaced_count)
