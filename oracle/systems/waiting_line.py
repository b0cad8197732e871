"""The queue of tasks that wait for nodes: the most valuable first, then the older (decision 0060).

`build_queue` sorts all tasks at once. `WaitingTasks` keeps the queue from block to block, so that
the cost of a block depends on the changed tasks and the equivalence classes only.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Set as AbstractSet
from fractions import Fraction
from typing import NamedTuple

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.task import Task
from oracle.systems.crynux.requirements import Requirement, requirement_of
from oracle.systems.waiting import is_waiting

# A task that ended for one of these reasons ends its whole group: no other task of it starts any
# more (contracts/network/TaskVerdicts.sol, endUnvalidated).
_GIVEN_UP = frozenset({AbortReason.GROUP_TIMEOUT, AbortReason.CREATOR_VALIDATION_TIMEOUT})


class NodeCriteria(NamedTuple):
    """The criteria for the nodes of an item; equal criteria have equal candidates."""

    wanted: Requirement
    kind: TaskKind | None
    barred: frozenset[Address]


class InLine(NamedTuple):
    """A queued task, or tasks that start together, each on a node of its own.

    `sibling_nodes`: nodes that were given another task of the group. `siblings`: the other tasks
    of a legacy group of three, in the order of their creation after `task`; empty for a single
    task.
    """

    task: Task
    value: Fraction
    barred: frozenset[Address]
    fellows: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks that start together, the oldest first."""
        return (self.task, *self.fellows)

    @property
    def asked(self) -> NodeCriteria:
        """Return the criteria that the item's nodes must meet."""
        return NodeCriteria(requirement_of(self.task), self.task.kind, self.barred)

    def out_of_reach(self, taken: frozenset[Address]) -> frozenset[Address]:
        """Return the nodes that cannot be given the item: `reserved` and its sibling nodes.

        `reserved` is not copied if there are no sibling nodes.
        """
        return taken | self.barred if self.barred else taken

    @property
    def seed_name(self) -> TaskKey | GroupKey:
        """Return the key that makes the draw's seed, with the block hash.

        Tasks that start together share one seed.
        """
        group = self.task.group
        return group if self.fellows and group is not None else self.task.key


class Drop(NamedTuple):
    """Tasks that leave the queue together; `group` None: a single task."""

    tasks: tuple[TaskKey, ...]
    group: GroupKey | None


# Builds queue items from the waiting tasks and from all tasks of their groups.
LineUp = Callable[[Iterable[Task], Iterable[Task]], Iterable[InLine]]


class PlaceInLine(NamedTuple):
    """A queue item with its unique sort key first."""

    order: tuple[Fraction, Position, TaskKey]
    asked: NodeCriteria
    one: InLine


class EquivalenceClass:
    """The queue items with the same criteria, in order; a class is never empty."""

    __slots__ = ("_places", "keys")

    def __init__(self) -> None:
        # Tasks that start together are represented by the first of them.
        self.keys: set[TaskKey] = set()
        self._places: list[PlaceInLine] = []

    def __iter__(self) -> Iterator[PlaceInLine]:
        return iter(self._places)

    @property
    def first(self) -> InLine:
        """Return the item that is served first."""
        return self._places[0].one

    def add(self, place: PlaceInLine) -> None:
        """Add an item that is not in the class."""
        insort(self._places, place)
        self.keys.add(place.one.task.key)

    def remove(self, place: PlaceInLine) -> None:
        """Remove an item that is in the class."""
        del self._places[bisect_left(self._places, place)]
        self.keys.remove(place.one.task.key)


class Line:
    """All queue items by their criteria; items are judged as they were when they were added."""

    __slots__ = ("_classes", "_places")

    def __init__(self, entries: Iterable[InLine] = ()) -> None:
        self._classes: dict[NodeCriteria, EquivalenceClass] = {}
        # By every task of an item.
        self._places: dict[TaskKey, PlaceInLine] = {}
        for one in entries:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, one: InLine) -> None:
        """Add an item none of whose tasks is queued."""
        place = PlaceInLine(_serving_order(one), one.asked, one)
        self._classes.setdefault(place.asked, EquivalenceClass()).add(place)
        self._places |= dict.fromkeys((task.key for task in one.tasks), place)

    def discard(self, key: TaskKey) -> None:
        """Remove the item that a task is part of, if it is queued."""
        place = self._places.get(key)
        if place is None:
            return
        alike = self._classes[place.asked]
        alike.remove(place)
        if not alike.keys:
            del self._classes[place.asked]
        for task in place.one.tasks:
            del self._places[task.key]

    def classes(self) -> Collection[EquivalenceClass]:
        """Return the equivalence classes."""
        return self._classes.values()

    def holding(self, keys: Iterable[TaskKey]) -> list[InLine]:
        """Return the items that these tasks are part of, in order."""
        found = (self._places[key] for key in keys if key in self._places)
        each_once = {place.one.task.key: place for place in found}
        return [place.one for place in sorted(each_once.values())]


class WaitingTasks:
    """Keeps the queue up to date with changed tasks; a group is updated as a whole."""

    __slots__ = ("_groups", "_line_up", "line")

    def __init__(self, line_up: LineUp) -> None:
        self.line = Line()
        self._line_up = line_up
        # All tasks of each group with a waiting task.
        self._groups: dict[GroupKey, dict[TaskKey, Task]] = {}

    def update(
        self,
        tasks: Iterable[Task],
        of_groups: Callable[[AbstractSet[GroupKey]], Iterable[Task]],
    ) -> None:
        """Apply changed tasks; `load_group_tasks` returns every task of new groups."""
        grouped: dict[GroupKey, list[Task]] = {}
        for task in tasks:
            if task.group is not None:
                grouped.setdefault(task.group, []).append(task)
            else:
                self._put({task.key: task})
        new = {
            group
            for group, told in grouped.items()
            if group not in self._groups and any(map(is_waiting, told))
        }
        self._groups |= {group: {} for group in new}
        for fellow in of_groups(new) if new else ():
            if fellow.group is not None:
                grouped[fellow.group].append(fellow)
        for group, told in grouped.items():
            if group in self._groups:
                self._regroup(group, told)

    def _regroup(self, group: GroupKey, told: Iterable[Task]) -> None:
        known = self._groups[group]
        known |= {task.key: task for task in told}
        if not self._put(known):
            del self._groups[group]

    def _put(self, tasks: dict[TaskKey, Task]) -> bool:
        """Queue a single task or a group's tasks again, and return whether one of them waits."""
        for key in tasks:
            self.line.discard(key)
        waiting = [task for task in tasks.values() if is_waiting(task)]
        unscored = [task for task in tasks.values() if task.scored_in is None]
        for one in self._line_up(waiting, unscored) if waiting else ():
            self.line.add(one)
        return bool(waiting)


def line_of(
    waiting: Iterable[Task],
    fellows: Iterable[Task],
    value_of: Callable[[Task], Fraction],
) -> list[InLine]:
    """Return the waiting tasks as queue items: the most valuable first, then the older.

    `group_tasks` holds every task of the waiting tasks' groups. A task is left out if its group is
    dead, so that the task can never start, or incomplete, so that it cannot start yet.
    """
    groups = tasks_by_group(fellows)
    barred = {
        group: frozenset(task.node for task in tasks if task.node is not None)
        for group, tasks in groups.items()
        if sum(task.created_at is not None for task in tasks) >= _size_of(tasks)
        and not cannot_reach_verdict(tasks)
    }
    line = []
    for task in waiting:
        if task.group is None:
            line.append(InLine(task, value_of(task), frozenset()))
        elif task.group in barred:
            line.append(InLine(task, value_of(task), barred[task.group]))
    return sort_by_value(line)


def cannot_reach_verdict(tasks: Collection[Task]) -> bool:
    """Return whether no waiting task of a group can start any more, given all tasks of the group.

    Either the group was given up, or a task of it ended before it had a node, or so many tasks
    have ended that the others are no majority, so that their answers would never be compared.
    """
    ended = [task for task in tasks if task.ending is not None]
    is_given_up = any(task.abort_reason in _GIVEN_UP for task in tasks)
    is_broken = any(task.started_at is None and not task.runs for task in ended)
    return is_given_up or is_broken or 0 < _size_of(tasks) <= 2 * len(ended)


def tasks_by_group(tasks: Iterable[Task]) -> dict[GroupKey, list[Task]]:
    """Return the tasks that have a group, by group, in the order given."""
    groups: dict[GroupKey, list[Task]] = {}
    for task in tasks:
        if task.group is not None:
            groups.setdefault(task.group, []).append(task)
    return groups


def drop_with(task: Task, fellows: Collection[Task]) -> Drop | None:
    """Return the drop that removes a waiting task from the queue, or None if it cannot leave.

    `group_tasks`: all tasks of its group. A group leaves as a unit, before any of its tasks has a
    node; the rest of a dead group leaves task by task (contracts/network/TaskOrders.sol).
    """
    if task.group is None or cannot_reach_verdict(fellows):
        return Drop((task.key,), None)
    if not all(map(is_waiting, fellows)):
        return None
    oldest_first = sorted(
        fellows, key=lambda fellow: (fellow.created_at or BEFORE_EVERYTHING, fellow.key)
    )
    return Drop(tuple(fellow.key for fellow in oldest_first), task.group)


def _size_of(tasks: Collection[Task]) -> int:
    """Return the final number of tasks of a group, or 0 if it is unknown."""
    return max((task.group_size or 0 for task in tasks), default=0)


def sort_by_value(line: Iterable[InLine]) -> list[InLine]:
    """Sort queue items: the most valuable first, then the older.

    Tasks that start together are as old as the last of them.
    """
    return sorted(line, key=_serving_order)


def _serving_order(one: InLine) -> tuple[Fraction, Position, TaskKey]:
    return -one.value, one.tasks[-1].created_at or BEFORE_EVERYTHING, one.task.key
