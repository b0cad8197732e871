"""The queue of docs/reference/sources.md#crynux-dispatching, built like its figure.

Tasks wait in groups by VRAM and GPU; a freed node takes the best head of its groups.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import merge
from itertools import islice
from typing import NamedTuple

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.ids import TaskKey
from oracle.domain.state import Node, Task
from oracle.systems.crynux.crynux_policy import Weighting
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.requirements import build_requirement, find_misfit_reason
from oracle.systems.task_queue import QueueGroup, get_queue_group


class QueuedTask(NamedTuple):
    """A task in the queue, which sorts by decreasing value, then by age."""

    # Its value in wei per second, negative.
    rank: Fraction
    created: Position
    key: TaskKey
    task: Task

    @property
    def value(self) -> Fraction:
        """Return the task's exact value in wei per second."""
        return -self.rank


class TaskQueue:
    """The waiting tasks under one pricing.

    `weighting` defines which models a node must have.
    """

    __slots__ = ("_entries", "_groups", "pricing", "weighting")

    def __init__(self, pricing: Pricing, weighting: Weighting, tasks: Iterable[Task] = ()) -> None:
        self.pricing = pricing
        self.weighting = weighting
        self._entries: dict[TaskKey, QueuedTask] = {}
        self._groups: dict[QueueGroup, list[QueuedTask]] = {}
        for task in tasks:
            self.add(task)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, task: Task) -> None:
        """Add a task to its group, or replace the task if it is already there."""
        self.discard(task.key)
        created = task.created_at or BEFORE_EVERYTHING
        entry = QueuedTask(-self.pricing.compute_value(task), created, task.key, task)
        self._entries[task.key] = entry
        insort(self._groups.setdefault(get_queue_group(task), []), entry, key=_get_sort_key)

    def discard(self, key: TaskKey) -> None:
        """Remove a task if it is in the queue."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        group = get_queue_group(entry.task)
        entries = self._groups[group]
        del entries[bisect_left(entries, _get_sort_key(entry), key=_get_sort_key)]
        if not entries:
            del self._groups[group]

    def groups(self) -> dict[QueueGroup, Sequence[QueuedTask]]:
        """Return all groups in order: the largest VRAM first, GPUs by name, Any last."""
        return {
            name: tuple(self._groups[name])
            for name in sorted(self._groups, key=_get_group_sort_key)
        }

    def in_order(self) -> Iterator[QueuedTask]:
        """Yield the tasks of all groups, the most valuable first, then the older."""
        return merge(*self._groups.values(), key=_get_sort_key)

    def heads_for(self, node: Node) -> dict[QueueGroup, QueuedTask]:
        """Return the head of each candidate group, which is the best task for a freed node.

        These are the groups of the node's GPU, and the Any groups whose VRAM is no larger than
        the node's. A head is the group's most valuable task that the node can run. The version
        must fit and, without a fallback, the models, too.
        """
        head_by_group = {}
        for group, entries in self.groups().items():
            head = next((entry for entry in entries if self.can_run(node, entry.task)), None)
            if head is not None:
                head_by_group[group] = head
        return head_by_group

    def next_for(self, node: Node) -> QueuedTask | None:
        """Return the best waiting task for a free node, or None if the node can run none."""
        return min(self.heads_for(node).values(), key=_get_sort_key, default=None)

    def can_run(self, node: Node, task: Task) -> bool:
        """Return whether GPU, version and, without a fallback, models fit the task."""
        requirement = build_requirement(task)
        if find_misfit_reason(node, requirement) is not None:
            return False
        return self.weighting.fallback or self.weighting.select_counted_models(
            requirement.models
        ).issubset(node.models)

    def overflow(self, capacity: int) -> list[QueuedTask]:
        """Return the tasks to drop until `capacity` are left, the least valuable first.

        Of equal tasks the newest is dropped, so call this after adding the new task. The tasks
        stay in the queue until they are discarded.
        """
        excess = max(0, len(self) - capacity)
        tails = map(reversed, self._groups.values())
        return list(islice(merge(*tails, key=_get_sort_key, reverse=True), excess))


def _get_sort_key(entry: QueuedTask) -> tuple[Fraction, Position, TaskKey]:
    return entry[:3]


def _get_group_sort_key(group: QueueGroup) -> tuple[int, bool, str]:
    return -group.vram, group.gpu is None, group.gpu or ""
