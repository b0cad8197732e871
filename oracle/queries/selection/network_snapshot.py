"""The state of the network at one time: its nodes, waiting tasks and planned downloads.

A snapshot is made from a file of events, or from the database. From the database, the stored state
is read if that is sufficient; otherwise, the stored events are folded again in memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from oracle.dispatch.downloads import find_pending_downloads
from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.stored_events import iterate_stored_events
from oracle.store.database import UnitOfWork
from oracle.store.state.draw_repository import PlannedDownload
from oracle.systems.policy import CandidateEvaluator
from oracle.systems.task_queue import is_waiting

# Number of events per batch, which limits the memory use.
_EVENTS_PER_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """The network after `block`, at the block time `time` in seconds.

    `block` is None before the first event. `nodes` are all nodes ever seen. `waiting` are the
    tasks that wait for a node, in order of creation. `group_tasks` are all unscored tasks of the
    groups of those tasks. `nodes_by_group` are the nodes that had a task of these groups, or of
    the requested group. `drawn_node_by_task` has the node of each active draw. `planned_downloads`
    are the daemon's planned download requests. A snapshot from a file, or of an earlier time, has
    neither draws nor planned downloads.
    """

    rules: Rules
    block: int | None
    time: int
    nodes: Mapping[Address, Node]
    waiting: Sequence[Task]
    nodes_by_group: Mapping[GroupKey, frozenset[Address]]
    drawn_node_by_task: Mapping[TaskKey, Address] = field(default_factory=dict)
    planned_downloads: Sequence[PlannedDownload] = ()
    group_tasks: Sequence[Task] = ()

    def get_group_nodes(self, group: GroupKey | None) -> frozenset[Address]:
        """Return the nodes that had a task of the group, and therefore get no other task of it."""
        return frozenset() if group is None else self.nodes_by_group.get(group, frozenset())

    def find_unavailable_nodes(self, task: Task) -> frozenset[Address]:
        """Return the nodes that must not be given the task although they may be free.

        See docs/reference/scoring-rules.md#selection-weight.
        """
        drawn_nodes = {
            node for task_key, node in self.drawn_node_by_task.items() if task_key != task.key
        }
        return self.get_group_nodes(task.group) | drawn_nodes


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """The options for building a snapshot.

    `max_time` is the time of the snapshot in seconds, after which events are left out; None means
    the time of the last event, or of the cursor. `evaluator` receives every event that is folded.
    `group` is a group whose nodes are included, in addition to those of the waiting tasks.
    """

    rules: Rules
    max_time: int | None = None
    evaluator: CandidateEvaluator | None = None
    group: GroupKey | None = None


def build_snapshot_from_events(
    events: Sequence[DomainEvent], query: SnapshotQuery
) -> NetworkSnapshot:
    """Build the network's state by folding events, sorted by position, from scratch.

    Raises:
        InputError: there is no event, and the query has no time.
    """
    if query.max_time is None and not events:
        raise InputError("there are no events to fold")
    time = events[-1].time if query.max_time is None else query.max_time
    return _fold_snapshot(events, query, time)


def load_snapshot(archive: EventArchive, query: SnapshotQuery) -> NetworkSnapshot:
    """Load the network at the database's cursor, or by folding stored events up to a time.

    Events are folded again if the query has an evaluator, an earlier time, or other rules than the
    database.

    Raises:
        InputError: nothing is indexed yet.
    """
    with archive.store.read_transaction() as uow:
        return load_snapshot_in_transaction(uow, archive, query)


def load_snapshot_in_transaction(
    uow: UnitOfWork, archive: EventArchive, query: SnapshotQuery
) -> NetworkSnapshot:
    """Load the network within the caller's open transaction.

    Raises:
        InputError: nothing is indexed yet.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet; run `qos-oracle run --once` first")
    time = cursor.time if query.max_time is None else query.max_time
    drawn_node_by_task = {draw.task: draw.node for draw in uow.draws.list_active()}
    if time < cursor.time or query.rules != archive.rules or query.evaluator is not None:
        blocks = BlockRange(0, cursor.number)
        snapshot = _fold_snapshot(iterate_stored_events(uow, archive.reader, blocks), query, time)
        if time < cursor.time:
            return snapshot
        return replace(snapshot, drawn_node_by_task=drawn_node_by_task)
    waiting_tasks = sorted(uow.tasks.list_waiting(), key=_get_age_sort_key)
    group_tasks = uow.tasks.list_unscored_in_groups(_collect_relevant_groups(waiting_tasks, query))
    return NetworkSnapshot(
        rules=query.rules,
        block=cursor.number,
        time=time,
        nodes={node.address: node for node in uow.nodes.iterate_all()},
        waiting=waiting_tasks,
        nodes_by_group=_collect_group_nodes(group_tasks),
        drawn_node_by_task=drawn_node_by_task,
        planned_downloads=find_pending_downloads(uow),
        group_tasks=group_tasks,
    )


def _fold_snapshot(
    events: Iterable[DomainEvent], query: SnapshotQuery, time: int
) -> NetworkSnapshot:
    fold = Fold(query.rules)
    for batch in _split_into_batches(event for event in events if event.time <= time):
        fold.fold_events(batch, is_complete=False)
        # The recorded changes are discarded, because a snapshot is not stored.
        fold.drain_changes()
        if query.evaluator is not None:
            for event in batch:
                query.evaluator.apply_event(event)
    fold.score_groups_closed_in_transaction()
    tasks = fold.ledger.tasks.values()
    waiting_tasks = sorted(filter(is_waiting, tasks), key=_get_age_sort_key)
    groups = _collect_relevant_groups(waiting_tasks, query)
    # Leave out groups with scores, because they accept no more tasks.
    group_tasks = [task for task in tasks if task.group in groups and not task.scored_in]
    return NetworkSnapshot(
        rules=query.rules,
        block=None if fold.last is None else fold.last.at.block,
        time=time,
        nodes=fold.ledger.nodes,
        waiting=waiting_tasks,
        nodes_by_group=_collect_group_nodes(group_tasks),
        group_tasks=group_tasks,
    )


def _get_age_sort_key(task: Task) -> tuple[Position | tuple[()], TaskKey]:
    return task.created_at or (), task.key


def _collect_relevant_groups(waiting_tasks: Iterable[Task], query: SnapshotQuery) -> set[GroupKey]:
    groups = {task.group for task in waiting_tasks} | {query.group}
    return {group for group in groups if group is not None}


def _collect_group_nodes(tasks: Iterable[Task]) -> dict[GroupKey, frozenset[Address]]:
    """Return the nodes that had a task of each group."""
    nodes_by_group: dict[GroupKey, set[Address]] = {}
    for task in tasks:
        if task.group is not None:
            nodes = nodes_by_group.setdefault(task.group, set())
            nodes.update(run.node for run in task.runs)
            if task.node is not None:
                nodes.add(task.node)
    return {group: frozenset(nodes) for group, nodes in nodes_by_group.items()}


def _split_into_batches(events: Iterator[DomainEvent]) -> Iterator[list[DomainEvent]]:
    while batch := list(islice(events, _EVENTS_PER_BATCH)):
        yield batch
