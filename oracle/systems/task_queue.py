"""Queues tasks that wait for nodes, by value and then by age (decision 0060).

`build_queue` sorts all tasks at once. `WaitingTasks` keeps the queue from block to block, so that
the cost of a block depends only on the number of changed tasks and of equivalence classes. See
docs/reference/sources.md#crynux-dispatching, Task Queue, and
docs/reference/scoring-rules.md#queue.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Set as AbstractSet
from fractions import Fraction
from typing import Literal, NamedTuple

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Task
from oracle.systems.crynux.requirements import Requirement, build_requirement


class QueueGroup(NamedTuple):
    """Tasks that require the same VRAM (in GB) and GPU model (None for any).

    Under the legacy system, they have the same kind instead of the same GPU model.
    """

    vram: int
    gpu: str | None
    kind: Literal["gpt", "sd"] | None = None


def is_waiting(task: Task) -> bool:
    """Return whether a task was created, but has neither started nor ended."""
    is_unstarted = task.started_at is None and not task.runs
    return task.created_at is not None and is_unstarted and task.ending is None


def get_queue_group(task: Task) -> QueueGroup:
    requirement = build_requirement(task)
    return QueueGroup(requirement.vram, requirement.gpu)


def compute_queue_capacity(members: int, alpha: Fraction) -> int:
    """Compute the maximum size of the queue.

    The size is floor(alpha * members), but at least 1.

    Raises:
        ValueError: alpha is not above 0.
    """
    if alpha <= 0:
        raise ValueError("alpha: must be above 0")
    return max(1, members * alpha.numerator // alpha.denominator)


# Reasons after which no other task of the ended task's group will start
# (contracts/network/TaskVerdicts.sol, endUnvalidated).
_GROUP_ENDING_REASONS = frozenset(
    {AbortReason.GROUP_TIMEOUT, AbortReason.CREATOR_VALIDATION_TIMEOUT}
)


class NodeCriteria(NamedTuple):
    """The criteria that the nodes of a queue item must meet.

    Items with equal criteria have the same candidates.
    """

    requirement: Requirement
    kind: TaskKind | None
    sibling_nodes: frozenset[Address]


class QueueItem(NamedTuple):
    """A task in the queue, or several tasks that start together.

    Tasks that start together run on different nodes. `sibling_nodes` are the nodes that were given
    another task of the group. `siblings` are the other tasks of a legacy group of three, in the
    order of their creation after `task`; they are empty for a single task.
    """

    task: Task
    value: Fraction
    sibling_nodes: frozenset[Address]
    siblings: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks that start together, oldest first."""
        return (self.task, *self.siblings)

    @property
    def criteria(self) -> NodeCriteria:
        """The criteria that the item's nodes must meet."""
        return NodeCriteria(build_requirement(self.task), self.task.kind, self.sibling_nodes)

    def get_unavailable_nodes(self, reserved: frozenset[Address]) -> frozenset[Address]:
        """Return the nodes that cannot run the item.

        They are the nodes in `reserved` and the sibling nodes of the item. Without sibling nodes,
        `reserved` itself is returned, not a copy.
        """
        return reserved | self.sibling_nodes if self.sibling_nodes else reserved

    @property
    def seed_key(self) -> TaskKey | GroupKey:
        """The key for the seed of the item's draw.

        The seed is the hash of the block hash and this key. Tasks that start together share a
        seed.
        """
        group = self.task.group
        return group if self.siblings and group is not None else self.task.key


class QueueDrop(NamedTuple):
    """Tasks that leave the queue together.

    `group` is None for a single task.
    """

    tasks: tuple[TaskKey, ...]
    group: GroupKey | None


# A function that builds queue items from the waiting tasks and from all tasks of their groups.
QueueBuilder = Callable[[Iterable[Task], Iterable[Task]], Iterable[QueueItem]]


class OrderedItem(NamedTuple):
    """A queue item with a unique sort key as its first field."""

    order: tuple[Fraction, Position, TaskKey]
    criteria: NodeCriteria
    item: QueueItem


class EquivalenceClass:
    """Queue items with the same criteria, in order.

    A class contains at least one item.
    """

    __slots__ = ("_ordered_items", "keys")

    def __init__(self) -> None:
        # Tasks that start together are listed under the key of the first.
        self.keys: set[TaskKey] = set()
        self._ordered_items: list[OrderedItem] = []

    def __iter__(self) -> Iterator[OrderedItem]:
        return iter(self._ordered_items)

    @property
    def first(self) -> QueueItem:
        """Return the item that is served first."""
        return self._ordered_items[0].item

    def add(self, ordered_item: OrderedItem) -> None:
        """Add an item that is not in the class."""
        insort(self._ordered_items, ordered_item)
        self.keys.add(ordered_item.item.task.key)

    def remove(self, ordered_item: OrderedItem) -> None:
        """Remove an item that is in the class."""
        del self._ordered_items[bisect_left(self._ordered_items, ordered_item)]
        self.keys.remove(ordered_item.item.task.key)


class TaskQueue:
    """All queue items, by their criteria.

    An item never changes after it was added.
    """

    __slots__ = ("_classes", "_ordered_item_by_task")

    def __init__(self, items: Iterable[QueueItem] = ()) -> None:
        self._classes: dict[NodeCriteria, EquivalenceClass] = {}
        # The item of each task.
        self._ordered_item_by_task: dict[TaskKey, OrderedItem] = {}
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._ordered_item_by_task)

    def add(self, item: QueueItem) -> None:
        """Add an item.

        None of its tasks may be queued yet.
        """
        ordered_item = OrderedItem(_get_sort_key(item), item.criteria, item)
        self._classes.setdefault(ordered_item.criteria, EquivalenceClass()).add(ordered_item)
        self._ordered_item_by_task |= dict.fromkeys(
            (task.key for task in item.tasks), ordered_item
        )

    def discard(self, key: TaskKey) -> None:
        """Remove the item of a task if the task is queued."""
        ordered_item = self._ordered_item_by_task.get(key)
        if ordered_item is None:
            return
        equivalence_class = self._classes[ordered_item.criteria]
        equivalence_class.remove(ordered_item)
        if not equivalence_class.keys:
            del self._classes[ordered_item.criteria]
        for task in ordered_item.item.tasks:
            del self._ordered_item_by_task[task.key]

    def get_equivalence_classes(self) -> Collection[EquivalenceClass]:
        return self._classes.values()

    def find_items_of_tasks(self, keys: Iterable[TaskKey]) -> list[QueueItem]:
        """Return the items of these tasks, in order."""
        ordered_items = (
            self._ordered_item_by_task[key] for key in keys if key in self._ordered_item_by_task
        )
        item_by_key = {ordered_item.item.task.key: ordered_item for ordered_item in ordered_items}
        return [ordered_item.item for ordered_item in sorted(item_by_key.values())]


class WaitingTasks:
    """Keeps the queue up to date when tasks change.

    A group is always updated as a whole.
    """

    __slots__ = ("_build_items", "_groups", "queue")

    def __init__(self, build_items: QueueBuilder) -> None:
        self.queue = TaskQueue()
        self._build_items = build_items
        # For each group with a waiting task, all tasks of the group.
        self._groups: dict[GroupKey, dict[TaskKey, Task]] = {}

    def update(
        self,
        tasks: Iterable[Task],
        load_group_tasks: Callable[[AbstractSet[GroupKey]], Iterable[Task]],
    ) -> None:
        """Apply changed tasks to the queue.

        `load_group_tasks` returns all tasks of the given groups.
        """
        tasks_by_group: dict[GroupKey, list[Task]] = {}
        for task in tasks:
            if task.group is not None:
                tasks_by_group.setdefault(task.group, []).append(task)
            else:
                self._requeue({task.key: task})
        new_groups = {
            group
            for group, changed_tasks in tasks_by_group.items()
            if group not in self._groups and any(map(is_waiting, changed_tasks))
        }
        self._groups |= {group: {} for group in new_groups}
        for group_task in load_group_tasks(new_groups) if new_groups else ():
            if group_task.group is not None:
                tasks_by_group[group_task.group].append(group_task)
        for group, changed_tasks in tasks_by_group.items():
            if group in self._groups:
                self._update_waiting_group(group, changed_tasks)

    def _update_waiting_group(self, group: GroupKey, changed_tasks: Iterable[Task]) -> None:
        task_by_key = self._groups[group]
        task_by_key |= {task.key: task for task in changed_tasks}
        if not self._requeue(task_by_key):
            del self._groups[group]

    def _requeue(self, task_by_key: dict[TaskKey, Task]) -> bool:
        """Queue a task or the tasks of a group again, and return whether any is waiting."""
        for key in task_by_key:
            self.queue.discard(key)
        waiting_tasks = [task for task in task_by_key.values() if is_waiting(task)]
        unscored_tasks = [task for task in task_by_key.values() if task.scored_in is None]
        for item in self._build_items(waiting_tasks, unscored_tasks) if waiting_tasks else ():
            self.queue.add(item)
        return bool(waiting_tasks)


def build_queue(
    waiting_tasks: Iterable[Task],
    group_tasks: Iterable[Task],
    get_value: Callable[[Task], Fraction],
) -> list[QueueItem]:
    """Build queue items from the waiting tasks, by descending value and then by age.

    `group_tasks` holds every task of the waiting tasks' groups. A task of an incomplete group is
    left out, because it cannot start yet. A task is also left out if its group can no longer reach
    a verdict, because it will never start.
    """
    groups = collect_tasks_by_group(group_tasks)
    nodes_by_group = {
        group: frozenset(task.node for task in tasks if task.node is not None)
        for group, tasks in groups.items()
        if sum(task.created_at is not None for task in tasks) >= _get_group_size(tasks)
        and not is_group_unstartable(tasks)
    }
    queue_items = []
    for task in waiting_tasks:
        if task.group is None:
            queue_items.append(QueueItem(task, get_value(task), frozenset()))
        elif task.group in nodes_by_group:
            queue_items.append(QueueItem(task, get_value(task), nodes_by_group[task.group]))
    return sort_items_by_value(queue_items)


def is_group_unstartable(tasks: Collection[Task]) -> bool:
    """Return whether no waiting task of a group can start.

    `tasks` contains all tasks of the group. No task can start if the group was abandoned, or if a
    task of the group ended before it had a node. The same applies if the remaining tasks are not a
    majority, because their answers would never be compared.
    """
    ended_tasks = [task for task in tasks if task.ending is not None]
    was_group_ended = any(task.abort_reason in _GROUP_ENDING_REASONS for task in tasks)
    is_broken = any(task.started_at is None and not task.runs for task in ended_tasks)
    return was_group_ended or is_broken or 0 < _get_group_size(tasks) <= 2 * len(ended_tasks)


def collect_tasks_by_group(tasks: Iterable[Task]) -> dict[GroupKey, list[Task]]:
    """Collect the tasks of each validation group, in the given order.

    Tasks without a group are left out.
    """
    tasks_by_group: dict[GroupKey, list[Task]] = {}
    for task in tasks:
        if task.group is not None:
            tasks_by_group.setdefault(task.group, []).append(task)
    return tasks_by_group


def find_queue_drop(task: Task, group_tasks: Collection[Task]) -> QueueDrop | None:
    """Return how a waiting task leaves the queue, or None if it has to stay.

    `group_tasks` holds all tasks of the task's group. A group is removed as a unit, before any of
    its tasks has a node. If the group can no longer reach a verdict, its tasks are removed one by
    one (contracts/network/TaskOrders.sol).
    """
    if task.group is None or is_group_unstartable(group_tasks):
        return QueueDrop((task.key,), None)
    if not all(map(is_waiting, group_tasks)):
        return None
    tasks_by_age = sorted(
        group_tasks,
        key=lambda group_task: (group_task.created_at or BEFORE_EVERYTHING, group_task.key),
    )
    return QueueDrop(tuple(group_task.key for group_task in tasks_by_age), task.group)


def _get_group_size(tasks: Collection[Task]) -> int:
    """Return the final number of tasks in a group, or 0 if it is unknown."""
    return max((task.group_size or 0 for task in tasks), default=0)


def sort_items_by_value(items: Iterable[QueueItem]) -> list[QueueItem]:
    """Sort queue items by descending value.

    Of items with equal values, the older one comes first. The age of tasks that start together is
    the age of the last of them.
    """
    return sorted(items, key=_get_sort_key)


def _get_sort_key(item: QueueItem) -> tuple[Fraction, Position, TaskKey]:
    return -item.value, item.tasks[-1].created_at or BEFORE_EVERYTHING, item.task.key
