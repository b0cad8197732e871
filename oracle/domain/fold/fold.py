"""Folds events into the state: applies them one by one and collects the changed rows.

The fold is a pure function of events and rules. The caller first loads the rows of tasks, then of
groups and their member tasks, then of nodes. See docs/reference/events-and-jsonl.md#what-is-legal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent, GroupValidated, TaskCreated
from oracle.domain.fold import (
    group_validation,
    node_lifecycle,
    task_endings,
    task_lifecycle,
    task_runs,
)
from oracle.domain.fold.preconditions import Violation
from oracle.domain.fold.working_set import Changes, EventHandlers, PreImages, WorkingSet
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import LastEvent, OpenGroup, Task

# Increment this number when the same events fold to different rows, or the same rows give
# different leaves. The daemon then folds an older database again and recomputes all leaves before
# it continues.
FOLD_VERSION = 13

HANDLERS: EventHandlers = {
    **node_lifecycle.HANDLERS,
    **task_lifecycle.HANDLERS,
    network_events.ResultCommitted: task_runs.apply_run_answer,
    **dict.fromkeys(get_args(task_endings.Terminal), task_endings.apply_task_ended),
    network_events.GroupValidated: group_validation.apply_group_validated,
}


class Fold:
    """Applies events to the rows of `ledger`.

    The caller loads and stores the rows between calls. `last` is the newest folded event, or None
    before the first event; a caller sets it to resume a fold.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.ledger = WorkingSet(rules)
        self.last: LastEvent | None = None

    def fold_block(self, number: int, events: Sequence[DomainEvent], *, journal: bool) -> None:
        """Apply the events of one block to the rows.

        The events are sorted by position. With `journal`, the old rows are kept.

        Raises:
            ValueError: an event is in another block, or does not follow the last folded event.
        """
        if not events:
            return
        if events[0].at.block != number or events[-1].at.block != number:
            raise ValueError(f"block {number}: some of the events belong to another block")
        if not journal:
            self.fold_events(events)
            return
        pre_images = PreImages(number, {}, {}, {}, (self.last,))
        self.ledger.pre_images = pre_images
        self.ledger.detector.pre_images = pre_images.incidents
        try:
            self.fold_events(events)
        finally:
            self.ledger.pre_images = self.ledger.detector.pre_images = None
        self.ledger.changes.pre_images.append(pre_images)

    def fold_events(self, events: Iterable[DomainEvent], *, is_complete: bool = True) -> None:
        """Apply events from any number of blocks, sorted by position.

        If the last transaction continues in the next call, the caller passes `is_complete=False`,
        and calls `score_groups_closed_in_transaction` at the end of the transaction.

        Raises:
            ValueError: an event does not follow the last folded event.
        """
        ledger, handlers = self.ledger, HANDLERS
        last_position, last_time, ledger.node_count = BEFORE_EVERYTHING, 0, 0
        if self.last is not None:
            last_position, last_time = self.last.at, self.last.time
            ledger.node_count = self.last.node_count
        event = None
        for event in events:
            if event.at <= last_position:
                raise ValueError(
                    f"the event at {tuple(event.at)} is not after position {tuple(last_position)}"
                )
            if event.time < last_time:
                ledger.record_anomaly(event, Violation.TIME_FELL)
            if ledger.closing_groups:
                self.score_groups_closed_in_transaction(event.at)
            last_position, last_time = event.at, event.time
            ledger.at = last_position
            handlers[type(event)](ledger, event)
        if event is not None:
            self.last = ledger.changes.last = LastEvent(
                last_position, last_time, ledger.node_count
            )
        if is_complete:
            self.score_groups_closed_in_transaction()

    def score_groups_closed_in_transaction(self, next_position: Position | None = None) -> None:
        """Score the groups that closed in the newest transaction.

        All verdicts of the transaction must have been folded before. With `next_position`, the
        groups are scored only if this position is in another transaction.
        """
        if next_position is None or next_position[:2] != self.ledger.at[:2]:
            group_validation.score_closed_groups(self.ledger)

    def drain_changes(self) -> Changes:
        """Return the changes since the last call, and clear them.

        The ledger shares the returned rows, so the caller must store them before the fold
        continues.
        """
        changes = self.ledger.changes
        changes.incidents = self.ledger.detector.drain_changes()
        self.ledger.changes = Changes()
        return changes


def collect_task_keys(events: Iterable[DomainEvent]) -> set[TaskKey]:
    """Return the keys of all tasks that the events refer to, including group members."""
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
    """Return the keys of the groups that the events may add tasks to, or close.

    The result is empty unless the rules close a group when all of its tasks have ended. `tasks`
    holds the existing rows of `collect_task_keys`.
    """
    if rules.close != "terminal":
        return set()
    group_keys = {task.group for task in tasks.values() if task.group is not None}
    creation_events = (event for event in events if isinstance(event, TaskCreated))
    return group_keys | {event.group for event in creation_events if event.group is not None}


def collect_open_group_task_keys(groups: Iterable[OpenGroup]) -> set[TaskKey]:
    """Return the keys of all tasks in open groups."""
    return {key for group in groups if not group.closed for key in group.tasks}


def collect_node_addresses(
    events: Iterable[DomainEvent], tasks: Mapping[TaskKey, Task]
) -> set[Address]:
    """Return the nodes that the events name, and the nodes that run the tasks.

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
