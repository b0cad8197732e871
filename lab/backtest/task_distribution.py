"""The distribution of a history's tasks that a policy would have given, start by start.

There is no feedback: the history continues as it was, whichever node the policy would have drawn.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nsmallest

from lab.backtest.candidate_weights import Weighing
from lab.backtest.results import TaskSpread
from oracle.domain.events.network_events import TaskStarted
from oracle.domain.fold.preconditions import start_breach
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task, create_task
from oracle.systems.policy import PolicyInput

# Chances are summed in units of 10^-27, so that a million of them keep 18 digits.
CHANCE = 10**27


def chosen_starts(starts: int, most: int, seed: int) -> frozenset[int] | None:
    """Return the numbers of the starts to judge, counted from 0, or None for all of them.

    The choice is the same for every system, machine and number of processes.
    """
    if starts <= most:
        return None
    return frozenset(nsmallest(most, range(starts), key=lambda number: _lot(seed, number)))


def _lot(seed: int, number: int) -> bytes:
    return sha256(f"{seed} {number}".encode()).digest()


@dataclass(slots=True)
class TaskSpreadMeter:
    """Sums up starts and chances; without `candidate_weights`, only starts are counted."""

    rules: Rules
    weighing: Weighing | None
    chosen: AbstractSet[int] | None
    _actual: dict[Address, int] = field(default_factory=dict)
    _expected: dict[Address, int] = field(default_factory=dict)
    # Nodes that were given a task of a group, if the tasks name their group.
    _given: dict[GroupKey, set[Address]] = field(default_factory=dict)
    _seen: int = 0
    _judged: int = 0
    _unplaced: int = 0

    def pass_by(self, event: TaskStarted, tasks: Mapping[TaskKey, Task]) -> None:
        """Record a start before the counted range, which still reserves a node for its group."""
        known = tasks.get(event.task)
        if known is not None and start_breach(known, event) is None:
            self._give(known, event)

    def look(
        self, event: TaskStarted, tasks: Mapping[TaskKey, Task], nodes: Mapping[Address, Node]
    ) -> None:
        """Judge a start that is about to be folded, while its node is still free."""
        number, self._seen = self._seen, self._seen + 1
        task = tasks.get(event.task)
        if task is not None and start_breach(task, event) is not None:
            return
        task = create_task(event.task) if task is None else task
        self._actual[event.node] = self._actual.get(event.node, 0) + 1
        if self.weighing is not None and (self.chosen is None or number in self.chosen):
            policy_input = PolicyInput(nodes, self.rules, event.time, self._taken(task))
            self._judged += 1
            self._add(self.weighing.weights(task, policy_input))
        self._give(task, event)

    def note(self, node: Node) -> None:
        """Update a node that an event has just changed."""
        if self.weighing is not None:
            self.weighing.note(node)

    def _add(self, weights: list[tuple[Address, int]]) -> None:
        total = sum(weight for _, weight in weights)
        if not weights:
            self._unplaced += 1
        elif not total:
            # Without weights, all candidates have the same chance
            # (docs/reference/scoring-rules.md#selection-weight).
            total, weights = len(weights), [(node, 1) for node, _ in weights]
        for node, weight in weights:
            if weight:
                self._expected[node] = self._expected.get(node, 0) + weight * CHANCE // total

    def _taken(self, task: Task) -> frozenset[Address]:
        """Return the nodes that run the task or had another task of its group."""
        runners = {run.node for run in task.runs}
        given = self._given.get(task.group, ()) if task.group is not None else ()
        return frozenset(runners.union(given))

    def _give(self, task: Task, event: TaskStarted) -> None:
        if task.group is not None and self.weighing is not None:
            self._given.setdefault(task.group, set()).add(event.node)

    def sum_up(self) -> TaskSpread:
        """Return the distribution."""
        return TaskSpread(self._actual, self._expected, self._judged, self._unplaced)
