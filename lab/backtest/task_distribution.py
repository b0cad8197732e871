"""The distribution of a history's tasks that a policy would have given, start by start.

There is no feedback: the history continues as it was, whichever node the policy would have drawn.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nsmallest

from lab.backtest.candidate_weights import CandidateWeights
from lab.backtest.results import TaskSpread
from oracle.domain.events.network_events import TaskStarted
from oracle.domain.fold.preconditions import start_breach
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task, create_task
from oracle.systems.policy import PolicyInput

# Chances are summed in units of 10^-27, so that a million of them keep 18 digits.
CHANCE_UNIT = 10**27


def choose_starts(starts: int, max_starts: int, seed: int) -> frozenset[int] | None:
    """Return the numbers of the starts to judge, counted from 0, or None for all of them.

    The choice is the same for every system, machine and number of processes.
    """
    if starts <= max_starts:
        return None
    return frozenset(
        nsmallest(
            max_starts, range(starts), key=lambda start_number: _hash_start(seed, start_number)
        )
    )


def _hash_start(seed: int, start_number: int) -> bytes:
    return sha256(f"{seed} {start_number}".encode()).digest()


@dataclass(slots=True)
class TaskSpreadMeter:
    """Sums up starts and chances; without `candidate_weights`, only starts are counted."""

    rules: Rules
    candidate_weights: CandidateWeights | None
    chosen_starts: AbstractSet[int] | None
    _actual: dict[Address, int] = field(default_factory=dict)
    _expected: dict[Address, int] = field(default_factory=dict)
    # Nodes that were given a task of a group, if the tasks name their group.
    _nodes_by_group: dict[GroupKey, set[Address]] = field(default_factory=dict)
    _seen_count: int = 0
    _judged_count: int = 0
    _unplaced_count: int = 0

    def skip_start(self, event: TaskStarted, tasks: Mapping[TaskKey, Task]) -> None:
        """Record a start before the counted range, which still reserves a node for its group."""
        task = tasks.get(event.task)
        if task is not None and start_breach(task, event) is None:
            self._record_group_node(task, event)

    def judge_start(
        self, event: TaskStarted, tasks: Mapping[TaskKey, Task], nodes: Mapping[Address, Node]
    ) -> None:
        """Judge a start that is about to be folded, while its node is still free."""
        start_number, self._seen_count = self._seen_count, self._seen_count + 1
        task = tasks.get(event.task)
        if task is not None and start_breach(task, event) is not None:
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
            self._add_chances(self.candidate_weights.list_weights(task, policy_input))
        self._record_group_node(task, event)

    def update_node(self, node: Node) -> None:
        """Update a node that an event has just changed."""
        if self.candidate_weights is not None:
            self.candidate_weights.update_node(node)

    def _add_chances(self, weights: list[tuple[Address, int]]) -> None:
        total = sum(weight for _, weight in weights)
        if not weights:
            self._unplaced_count += 1
        elif not total:
            # Without weights, all candidates have the same chance
            # (docs/reference/scoring-rules.md#selection-weight).
            total, weights = len(weights), [(node, 1) for node, _ in weights]
        for node, weight in weights:
            if weight:
                self._expected[node] = self._expected.get(node, 0) + weight * CHANCE_UNIT // total

    def _list_reserved_nodes(self, task: Task) -> frozenset[Address]:
        """Return the nodes that run the task or had another task of its group."""
        runners = {run.node for run in task.runs}
        group_nodes = self._nodes_by_group.get(task.group, ()) if task.group is not None else ()
        return frozenset(runners.union(group_nodes))

    def _record_group_node(self, task: Task, event: TaskStarted) -> None:
        if task.group is not None and self.candidate_weights is not None:
            self._nodes_by_group.setdefault(task.group, set()).add(event.node)

    def build_spread(self) -> TaskSpread:
        """Return the distribution."""
        return TaskSpread(self._actual, self._expected, self._judged_count, self._unplaced_count)
