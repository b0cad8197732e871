"""Guesses who was the third of a group of which the stream shows two: nobody says it.

A member that timed out has no row in its group's transaction; its 0 is given silently. The three
of a group are started together, and it is judged when the last of them has ended: so it is the
task that started and timed out nearest (docs/explanation/relay-audit.md#silent-members).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.feed.relay_groups import NEAR
from oracle.domain.events.network_events import (
    DomainEvent,
    GroupValidated,
    TaskStarted,
    TaskTimedOut,
)
from oracle.domain.ids import TaskKey

GROUP_SIZE = 3
# Starts of one group lie within so many ids of each other.
_NEAR_STARTS = 24
# Who is so many times as far may have been meant as well.
_RIVAL = 3


@dataclass(slots=True)
class _Tasks:
    """Where tasks started and timed out, by the ids of their rows."""

    started: dict[TaskKey, int] = field(default_factory=dict)
    timed_out: dict[TaskKey, int] = field(default_factory=dict)

    def nearest(self, group: GroupValidated) -> list[tuple[int, TaskKey]]:
        """Return who may be missing from a group and how far it is, the most likely first."""
        starts = [self.started[task] for task in group.tasks if task in self.started]
        if not starts:
            return []
        ranked = []
        for task, ended in self.timed_out.items():
            apart = min(abs(self.started.get(task, 0) - start) for start in starts)
            if ended < group.at.log and apart <= _NEAR_STARTS:
                ranked.append((apart + group.at.log - ended, task))
        return sorted(ranked)


@dataclass(frozen=True, slots=True)
class Completed:
    """Events in which groups name their silent members, and which tasks these are.

    `contested`: tasks of which another may have been meant, and the row of the group.
    """

    events: list[DomainEvent]
    assumed: frozenset[TaskKey] = frozenset()
    contested: Mapping[TaskKey, int] = field(default_factory=dict)


def completed(events: Sequence[DomainEvent], ambiguous: Collection[int]) -> Completed:
    """Put the silent members into their groups, each task into one at most.

    Beside rows that could be of two groups nobody is assumed, and who may be meant is contested.
    """
    tasks, assumed, whole = _Tasks(), set[TaskKey](), list[DomainEvent]()
    contested: dict[TaskKey, int] = {}
    for event in events:
        said = event
        if isinstance(event, TaskStarted):
            tasks.started.setdefault(event.task, event.at.log)
        elif isinstance(event, TaskTimedOut):
            tasks.timed_out.setdefault(event.task, event.at.log)
        elif isinstance(event, GroupValidated):
            row, missing = event.at.log, GROUP_SIZE - len(event.tasks)
            doubted = any(abs(row - number) <= 2 * NEAR for number in ambiguous)
            ranked = tasks.nearest(event) if missing else []
            found = [] if doubted else [task for _, task in ranked[:missing]]
            # Nobody is assumed beside a doubt: then whoever may be missing is in doubt, too.
            rivals = [task for _, task in ranked] if doubted else _contested(ranked, missing)
            contested |= dict.fromkeys(rivals, row)
            said = replace(event, tasks=(*event.tasks, *found))
            assumed |= set(found)
            _forget(tasks, (*event.tasks, *found))
        whole.append(said)
    return Completed(whole, frozenset(assumed), contested)


def _contested(ranked: Sequence[tuple[int, TaskKey]], missing: int) -> list[TaskKey]:
    """Return the tasks that may be meant, where there are more of them than are missing."""
    if len(ranked) <= missing:
        return []
    taken = ranked[missing - 1][0]
    near = [task for apart, task in ranked if apart <= _RIVAL * taken + NEAR]
    return near if len(near) > missing else []


def _forget(tasks: _Tasks, keys: Iterable[TaskKey]) -> None:
    for key in keys:
        tasks.timed_out.pop(key, None)
