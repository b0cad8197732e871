"""Finds the rows that a fold of given events will touch, so that they can be loaded in bulk.

The steps depend on each other: tasks, then groups and their member tasks, then nodes.
"""

from collections.abc import Iterable, Mapping

from oracle.domain.events.network_events import DomainEvent, GroupValidated, TaskCreated
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.group import OpenGroup
from oracle.domain.state.task import Task


def task_keys_in(events: Iterable[DomainEvent]) -> set[TaskKey]:
    """Return the tasks that events refer to, alone or in a group."""
    named: set[TaskKey] = set()
    for event in events:
        if isinstance(event, GroupValidated):
            named.update(event.tasks, event.possible or ())
        elif hasattr(event, "task"):
            named.add(event.task)
    return named


def open_group_keys_in(
    events: Iterable[DomainEvent], tasks: Mapping[TaskKey, Task], rules: Rules
) -> set[GroupKey]:
    """Return the open groups that may grow or close; empty unless the rules close by counting.

    `tasks`: the existing rows of `collect_task_keys`.
    """
    if rules.close != "terminal":
        return set()
    named = {task.group for task in tasks.values() if task.group is not None}
    created = (event for event in events if isinstance(event, TaskCreated))
    return named | {event.group for event in created if event.group is not None}


def task_keys_of_open_groups(groups: Iterable[OpenGroup]) -> set[TaskKey]:
    """Return the tasks of groups that may still close."""
    return {key for group in groups if not group.closed for key in group.tasks}


def node_addresses_in(
    events: Iterable[DomainEvent], tasks: Mapping[TaskKey, Task]
) -> set[Address]:
    """Return the nodes that events refer to, and the nodes that run their tasks.

    `tasks`: the existing rows of `collect_task_keys` and `collect_open_group_task_keys`.
    """
    named: set[Address] = set()
    for event in events:
        node = getattr(event, "node", None)
        if node is not None:
            named.add(node)
    for task in tasks.values():
        if task.node is not None:
            named.add(task.node)
        named.update(run.node for run in task.runs)
    return named
