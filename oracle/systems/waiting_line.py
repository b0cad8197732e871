"""What waits for nodes: the most valuable first, then the older (decision 0060).

`line_of` puts everything in line at once. `WaitingTasks` keeps the line from block to block: what
a block costs are the tasks that changed, and the classes of those that ask for the same.
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

# Ended so, a task gives up its whole group: no other task of it starts any more
# (contracts/network/TaskVerdicts.sol, endUnvalidated).
_GIVEN_UP = frozenset({AbortReason.GROUP_TIMEOUT, AbortReason.CREATOR_VALIDATION_TIMEOUT})


class NodeCriteria(NamedTuple):
    """All that decides who may have what waits: of equal ones all have candidates, or none."""

    wanted: Requirement
    kind: TaskKind | None
    barred: frozenset[Address]


class InLine(NamedTuple):
    """What waits for nodes: a task, or tasks that start together, each on a node of its own.

    `barred`: nodes that were given another task of the group. `fellows`: the others of a legacy
    group of three, in the order of their creation after `task`; of a task by itself none.
    """

    task: Task
    value: Fraction
    barred: frozenset[Address]
    fellows: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return all that start together, the oldest first."""
        return (self.task, *self.fellows)

    @property
    def asked(self) -> NodeCriteria:
        """Return what is asked of its nodes."""
        return NodeCriteria(requirement_of(self.task), self.task.kind, self.barred)

    def out_of_reach(self, taken: frozenset[Address]) -> frozenset[Address]:
        """Return who cannot be given it, `taken` included; copies nothing for who is alone."""
        return taken | self.barred if self.barred else taken

    @property
    def seed_name(self) -> TaskKey | GroupKey:
        """Return what the seed of the draw is made of beside the block: one seed for all."""
        group = self.task.group
        return group if self.fellows and group is not None else self.task.key


class Drop(NamedTuple):
    """Tasks that leave the queue together; `group` None: one task by itself."""

    tasks: tuple[TaskKey, ...]
    group: GroupKey | None


# Puts waiting tasks in line, by all tasks of the groups of those that are in one.
LineUp = Callable[[Iterable[Task], Iterable[Task]], Iterable[InLine]]


class PlaceInLine(NamedTuple):
    """Somebody in line, led by what the line is in order by, which no two have in common."""

    order: tuple[Fraction, Position, TaskKey]
    asked: NodeCriteria
    one: InLine


class EquivalenceClass:
    """Those in line that ask for the same, in order; as long as there are any."""

    __slots__ = ("_places", "keys")

    def __init__(self) -> None:
        # Of tasks that start together the first stands for all.
        self.keys: set[TaskKey] = set()
        self._places: list[PlaceInLine] = []

    def __iter__(self) -> Iterator[PlaceInLine]:
        return iter(self._places)

    @property
    def first(self) -> InLine:
        """Return the one that is served first."""
        return self._places[0].one

    def add(self, place: PlaceInLine) -> None:
        """Take somebody in who is not there."""
        insort(self._places, place)
        self.keys.add(place.one.task.key)

    def remove(self, place: PlaceInLine) -> None:
        """Take somebody out who is there."""
        del self._places[bisect_left(self._places, place)]
        self.keys.remove(place.one.task.key)


class Line:
    """All in line, by what they ask for; entries are judged as they were when they were added."""

    __slots__ = ("_classes", "_places")

    def __init__(self, entries: Iterable[InLine] = ()) -> None:
        self._classes: dict[NodeCriteria, EquivalenceClass] = {}
        # By every task of an entry.
        self._places: dict[TaskKey, PlaceInLine] = {}
        for one in entries:
            self.add(one)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, one: InLine) -> None:
        """Put an entry in line of whose tasks none is there."""
        place = PlaceInLine(_serving_order(one), one.asked, one)
        self._classes.setdefault(place.asked, EquivalenceClass()).add(place)
        self._places |= dict.fromkeys((task.key for task in one.tasks), place)

    def discard(self, key: TaskKey) -> None:
        """Take out the entry that a task is part of, if it is there."""
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
        """Return those who ask for the same, class by class."""
        return self._classes.values()

    def holding(self, keys: Iterable[TaskKey]) -> list[InLine]:
        """Return the entries that these tasks are part of, in order."""
        found = (self._places[key] for key in keys if key in self._places)
        each_once = {place.one.task.key: place for place in found}
        return [place.one for place in sorted(each_once.values())]


class WaitingTasks:
    """Keeps the line up to date with tasks that change, those of a group all at once."""

    __slots__ = ("_groups", "_line_up", "line")

    def __init__(self, line_up: LineUp) -> None:
        self.line = Line()
        self._line_up = line_up
        # All tasks of the groups of which one waits.
        self._groups: dict[GroupKey, dict[TaskKey, Task]] = {}

    def update(
        self,
        tasks: Iterable[Task],
        of_groups: Callable[[AbstractSet[GroupKey]], Iterable[Task]],
    ) -> None:
        """Take in tasks as they are now; `of_groups` is asked for every task of new groups."""
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
        """Line up anew a task by itself, or all of a group; tell whether one of them waits."""
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
    """Put waiting tasks in order: the most valuable first, then the older.

    `fellows` holds every task of the groups of those that are in one. A task whose group is dead
    can never start, and one whose group is not all there cannot yet: they are left out.
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
    """Return whether no waiting task of a group is started any more, given all its tasks.

    The group was given up, a task of it ended before it had a node, or so many have ended that
    the others are no majority: whatever the rest answered, nobody would compare it.
    """
    ended = [task for task in tasks if task.ending is not None]
    is_given_up = any(task.abort_reason in _GIVEN_UP for task in tasks)
    is_broken = any(task.started_at is None and not task.runs for task in ended)
    return is_given_up or is_broken or 0 < _size_of(tasks) <= 2 * len(ended)


def tasks_by_group(tasks: Iterable[Task]) -> dict[GroupKey, list[Task]]:
    """Return the tasks that are in a group, by their group, in the order given."""
    groups: dict[GroupKey, list[Task]] = {}
    for task in tasks:
        if task.group is not None:
            groups.setdefault(task.group, []).append(task)
    return groups


def drop_with(task: Task, fellows: Collection[Task]) -> Drop | None:
    """Return what leaves the queue where a waiting task does; None: it cannot leave.

    `fellows`: all tasks of its group. A group leaves whole, and before any of it has a node; what
    is left of a dead one leaves task by task (contracts/network/TaskOrders.sol).
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
    """Return how many tasks a group has in the end, 0 where nobody says so."""
    return max((task.group_size or 0 for task in tasks), default=0)


def sort_by_value(line: Iterable[InLine]) -> list[InLine]:
    """Put what waits in order: the most valuable first, then the older.

    Tasks that start together are as old as the last of them.
    """
    return sorted(line, key=_serving_order)


def _serving_order(one: InLine) -> tuple[Fraction, Position, TaskKey]:
    return -one.value, one.tasks[-1].created_at or BEFORE_EVERYTHING, one.task.key
