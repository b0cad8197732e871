"""Finds the rows that a fold of given events will use, so that they can be loaded in bulk.

The steps depend on each other: first tasks, then groups and their member tasks, then nodes.
"""

from collections.abc import Iterable, Mapping

from oracle.domain.events.network_events import DomainEvent, GroupValidated, TaskCreated
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import OpenGroup, Task


def collect_task_keys(events: Iterable[DomainEvent]) -> set[TaskKey]:
    """Return the keys of all tasks that the events refer to, including members of groups."""
    task_keys: set[TaskKey] = set()
    for event in events:
        if isinstance(event, GroupValidated):
            task_keys.update(event.tasks, event.possible or ())
        elif hasattr(event, "task"):
            task_keys.add(event.task)
    return task_keys


def collect_open_group_keys(
    events: Iterable[DomainEvent], tasks: Mapping[TaskKey, Task], rules: Rules
) -> set[GroupKey]:
    """Return the groups that may grow or close; empty unless the rules close groups by counting.

    `tasks` holds the existing rows of `collect_task_keys`.
    """
    if rules.close != "terminal":
        return set()
    group_keys = {task.group for task in tasks.values() if task.group is not None}
    creation_events = (event for event in events if isinstance(event, TaskCreated))
    return group_keys | {event.group for event in creation_events if event.group is not None}


def collect_open_group_task_keys(groups: Iterable[OpenGroup]) -> set[TaskKey]:
    """Return the keys of all tasks in groups that are not closed."""
    return {key for group in groups if not group.closed for key in group.tasks}


def collect_node_addresses(
    events: Iterable[DomainEvent], tasks: Mapping[TaskKey, Task]
) -> set[Address]:
    """Return the nodes that the events refer to, and the nodes that run the given tasks.

    `tasks` holds the existing rows of `collect_task_keys` and `collect_open_group_task_keys`.
    """
    addresses: set[Address] = set()
    for event in events:
        node = getattr(event, "node", None)
        if node is not None:
            addresses.add(node)
    for task in tasks.values():
        if task.node is not None:
            addresses.add(task.node)
        addresses.update(run.node for run in task.runs)
    return addresses
