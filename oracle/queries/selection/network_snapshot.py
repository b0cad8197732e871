"""The network at a time: its nodes, its waiting tasks, and the planned downloads.

A snapshot is made from a file of events, or from the database: from the stored state if that is
sufficient, otherwise by folding the stored events again in memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from oracle.dispatch.downloads import wanted_downloads
from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.errors import InputError
from oracle.indexer.stored_events import stored_events
from oracle.queries.explain import EventArchive
from oracle.store.state.download_repository import PlannedDownload
from oracle.systems.policy import Follower
from oracle.systems.waiting import is_waiting

# Events per folded batch, so that memory use stays flat.
_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """The network after `block` (None: before any event) at `time`, in seconds.

    `nodes`: every node ever seen. `waiting`: tasks that wait for a node, in order of creation.
    `group_tasks`: every unscored task of the groups of those tasks. `nodes_by_group`: the nodes
    that had a task of these groups, or of the requested group. `drawn_node_by_task`: the node of
    each active draw. `planned_downloads`: the daemon's planned download requests. A file or an
    earlier time has neither draws nor planned downloads.
    """

    rules: Rules
    block: int | None
    time: int
    nodes: Mapping[Address, Node]
    waiting: Sequence[Task]
    given: Mapping[GroupKey, frozenset[Address]]
    drawn: Mapping[TaskKey, Address] = field(default_factory=dict)
    planned: Sequence[PlannedDownload] = ()
    fellows: Sequence[Task] = ()

    def given_in(self, group: GroupKey | None) -> frozenset[Address]:
        """Return the nodes that had a task of the group, and so get no other task of it."""
        return frozenset() if group is None else self.given.get(group, frozenset())

    def taken_from(self, task: Task) -> frozenset[Address]:
        """Return the nodes that must not get the task although they are free.

        See docs/reference/scoring-rules.md#selection-weight.
        """
        drawn = {node for key, node in self.drawn.items() if key != task.key}
        return self.given_in(task.group) | drawn


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """The parameters of a snapshot.

    `max_time`: the time of the snapshot in seconds, later events are left out; None for the last
    event's time, or the cursor's. `follower`: receives every event while it is folded. `group`: a
    group whose nodes are included beside those of the waiting tasks.
    """

    rules: Rules
    at: int | None = None
    follower: Follower | None = None
    group: GroupKey | None = None


def snapshot_of_events(events: Sequence[DomainEvent], asked: SnapshotQuery) -> NetworkSnapshot:
    """Fold events, sorted by position, from an empty state.

    Raises:
        InputError: there is no event, and the query has no time.
    """
    if asked.at is None and not events:
        raise InputError("no events: there is nothing to fold")
    time = events[-1].time if asked.at is None else asked.at
    return _folded(events, asked, time)


def snapshot_of_store(archive: EventArchive, asked: SnapshotQuery) -> NetworkSnapshot:
    """Read the network at the database's cursor, or fold the stored events up to a time.

    Events are folded again for other rules than the database's, for an earlier time, and for a
    follower.

    Raises:
        InputError: nothing is indexed yet.
    """
    with archive.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; `qos-oracle run --once` does it")
        time = cursor.time if asked.at is None else asked.at
        drawn = {each.task: each.node for each in uow.draws.active()}
        if time < cursor.time or asked.rules != archive.rules or asked.follower is not None:
            blocks = BlockRange(0, cursor.number)
            folded = _folded(stored_events(uow, archive.reader, blocks), asked, time)
            return folded if time < cursor.time else replace(folded, drawn=drawn)
        waiting = sorted(uow.tasks.waiting(), key=_age)
        fellows = uow.tasks.of_groups(_groups(waiting, asked))
        return NetworkSnapshot(
            rules=asked.rules,
            block=cursor.number,
            time=time,
            nodes={node.address: node for node in uow.nodes.all()},
            waiting=waiting,
            given=_given(fellows),
            drawn=drawn,
            planned=wanted_downloads(uow),
            fellows=fellows,
        )


def _folded(events: Iterable[DomainEvent], asked: SnapshotQuery, time: int) -> NetworkSnapshot:
    fold = Fold(asked.rules)
    for batch in _batches(event for event in events if event.time <= time):
        fold.many(batch, is_whole=False)
        # The changes are discarded, because nothing is stored here.
        fold.drain()
        if asked.follower is not None:
            for event in batch:
                asked.follower.take(event)
    fold.finish()
    tasks = fold.ledger.tasks.values()
    waiting = sorted(filter(is_waiting, tasks), key=_age)
    groups = _groups(waiting, asked)
    # A scored group accepts no more tasks.
    fellows = [task for task in tasks if task.group in groups and not task.scored_in]
    return NetworkSnapshot(
        rules=asked.rules,
        block=None if fold.last is None else fold.last.at.block,
        time=time,
        nodes=fold.ledger.nodes,
        waiting=waiting,
        given=_given(fellows),
        fellows=fellows,
    )


def _age(task: Task) -> tuple[Position | tuple[()], TaskKey]:
    return task.created_at or (), task.key


def _groups(waiting: Iterable[Task], asked: SnapshotQuery) -> set[GroupKey]:
    groups = {task.group for task in waiting} | {asked.group}
    return {group for group in groups if group is not None}


def _given(tasks: Iterable[Task]) -> dict[GroupKey, frozenset[Address]]:
    """Return the nodes that had a task of each group."""
    given: dict[GroupKey, set[Address]] = {}
    for task in tasks:
        if task.group is not None:
            nodes = given.setdefault(task.group, set())
            nodes.update(run.node for run in task.runs)
            if task.node is not None:
                nodes.add(task.node)
    return {group: frozenset(nodes) for group, nodes in given.items()}


def _batches(events: Iterator[DomainEvent]) -> Iterator[list[DomainEvent]]:
    while batch := list(islice(events, _AT_ONCE)):
        yield batch
