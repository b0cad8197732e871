"""The queue of docs/reference/sources.md#crynux-dispatching, built as its figure draws it.

Tasks wait in groups by VRAM and card; a freed node takes the best head of its groups.
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
from oracle.systems.crynux.requirements import build_requirement, misfit_reason
from oracle.systems.task_queue import QueueGroup, get_queue_group


class QueuedTask(NamedTuple):
    """A task in the queue; in order: the most valuable first, then the older."""

    # Its value in wei a second, negative.
    rank: Fraction
    created: Position
    key: TaskKey
    task: Task

    @property
    def value(self) -> Fraction:
        """Return the task's value in wei a second, exactly."""
        return -self.rank


class TaskQueue:
    """The waiting tasks under one pricing; `weighting` says which models a node must have."""

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
        """Put a task into its group; one that is there already is put anew."""
        self.discard(task.key)
        created = task.created_at or BEFORE_EVERYTHING
        entry = QueuedTask(-self.pricing.compute_value(task), created, task.key, task)
        self._entries[task.key] = entry
        insort(self._groups.setdefault(get_queue_group(task), []), entry, key=_order)

    def discard(self, key: TaskKey) -> None:
        """Take a task out, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        group = get_queue_group(entry.task)
        entries = self._groups[group]
        del entries[bisect_left(entries, _order(entry), key=_order)]
        if not entries:
            del self._groups[group]

    def groups(self) -> dict[QueueGroup, Sequence[QueuedTask]]:
        """Return every group in order: the largest VRAM first, cards by name, then Any."""
        return {name: tuple(self._groups[name]) for name in sorted(self._groups, key=_group_order)}

    def in_order(self) -> Iterator[QueuedTask]:
        """Go through all groups at once, the most valuable task first, then the older."""
        return merge(*self._groups.values(), key=_order)

    def heads_for(self, node: Node) -> dict[QueueGroup, QueuedTask]:
        """Return the candidate groups of a freed node, each with its head.

        Those of its own card and the Any groups with VRAM no larger than its own. A head is the
        group's most valuable task that the node can run: also its version must suit, and where
        there is no fallback, its models.
        """
        head_by_group = {}
        for group, entries in self.groups().items():
            head = next((entry for entry in entries if self.can_run(node, entry.task)), None)
            if head is not None:
                head_by_group[group] = head
        return head_by_group

    def next_for(self, node: Node) -> QueuedTask | None:
        """Return the best head for a node that is free; None: nothing waits that it can run."""
        return min(self.heads_for(node).values(), key=_order, default=None)

    def can_run(self, node: Node, task: Task) -> bool:
        """Tell whether card, version and, without a fallback, models suit the task."""
        requirement = build_requirement(task)
        if misfit_reason(node, requirement) is not None:
            return False
        return self.weighting.fallback or self.weighting.select_counted_models(
            requirement.models
        ).issubset(node.models)

    def overflow(self, capacity: int) -> list[QueuedTask]:
        """Return what has to be dropped so that `capacity` are left: the least valuable first.

        Of equal ones the newest is dropped: call it once the new task has been added, for it may
        be the one. They stay in until discarded.
        """
        excess = max(0, len(self) - capacity)
        tails = map(reversed, self._groups.values())
        return list(islice(merge(*tails, key=_order, reverse=True), excess))


def _order(entry: QueuedTask) -> tuple[Fraction, Position, TaskKey]:
    return entry[:3]


def _group_order(group: QueueGroup) -> tuple[int, bool, str]:
    return -group.vram, group.gpu is None, group.gpu or ""
