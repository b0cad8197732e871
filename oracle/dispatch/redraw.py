"""Folds history in memory and repeats its draws block by block, to verify the daemon's draws.

Block hashes and times are read from the chain, and nothing that the daemon stored is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import groupby
from typing import NamedTuple

from oracle.chain.source import ChainSource
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Node, Task
from oracle.errors import FatalError, TransientError
from oracle.systems.assignment import TaskDraw
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from oracle.systems.task_queue import is_waiting

# Number of headers per request.
_HEADER_BATCH = 128


class TaskStart(NamedTuple):
    """A task started by `node` in `block`, and the node drawn for it, if any."""

    task: TaskKey
    node: Address | None
    block: int
    drawn_node: Address | None


def is_started_at_creation(task: Task) -> bool:
    """Return whether the task was created and started in the same transaction.

    Such a task never waited, so no draw can precede its start.
    """
    created, started = task.created_at, task.started_at
    return created is not None and started is not None and created[:2] == started[:2]


class HeaderReader:
    """Reads the chain's headers in batches, and compares them with stored headers."""

    def __init__(
        self, chain: ChainSource, stored_by_number: Mapping[int, BlockRef], last: int
    ) -> None:
        self._chain = chain
        self._stored_by_number = stored_by_number
        self._last = last
        # Headers by height; None if the chain skipped the height.
        self._prefetched: dict[int, BlockRef | None] = {}

    def get_header(self, number: int) -> BlockRef | None:
        """Return the chain's block at a height, or None if the height was skipped.

        Raises:
            TransientError: the block is missing, or differs from the stored block.
        """
        if number not in self._prefetched:
            blocks = BlockRange(number, min(self._last, number + _HEADER_BATCH - 1))
            self._prefetched = dict.fromkeys(range(blocks.first, blocks.last + 1))
            self._prefetched |= {
                block.number: block for block in self._chain.fetch_headers(blocks)
            }
        block = self._prefetched[number]
        stored_block = self._stored_by_number.get(number)
        if stored_block is not None and (block is None or stored_block.hash != block.hash):
            raise TransientError(
                f"block {number} is {'skipped' if block is None else block.hash} on the chain but "
                f"{stored_block.hash} in the database; wait until the daemon has followed the "
                "chain"
            )
        return block

    def get_header_at_or_below(self, number: int) -> BlockRef:
        """Return the block at a height, or the next lower block if the height was skipped.

        Raises:
            TransientError: see `get_header`.
        """
        return self.get_header(number) or self._chain.fetch_header_at_or_below(number)


class Redrawer:
    """Folds history in memory, and draws at the end of every block with waiting tasks."""

    def __init__(self, settings: DispatchSettings, headers: HeaderReader) -> None:
        self._start_block = settings.start_block
        self._view = WorkingSetView(settings)
        self._drawer = BlockDrawer(settings, explains=True)
        self._headers = headers

    @property
    def active_draws(self) -> Mapping[TaskKey, Address]:
        """Return the drawn node of each task with an active draw."""
        return self._drawer.plan.active_draws

    def iter_draws_and_starts(
        self, last: int, events: Iterable[DomainEvent]
    ) -> Iterator[TaskDraw | TaskStart]:
        """Yield all draws and starts up to the end of block `last`, in block order."""
        drawn_through = self._start_block - 1
        for number, block_events in groupby(events, key=lambda event: event.at.block):
            if number > last:
                break
            yield from self._draw_in_block_range(drawn_through + 1, number - 1)
            draws_before = self.active_draws
            for task in self._view.fold_block(number, list(block_events)):
                if not is_started_at_creation(task):
                    yield TaskStart(task.key, task.node, number, draws_before.get(task.key))
            yield from self._draw_in_block_range(number, number)
            drawn_through = max(drawn_through, number)
        yield from self._draw_in_block_range(drawn_through + 1, last)

    def _draw_in_block_range(self, first: int, last: int) -> Iterator[TaskDraw]:
        """Yield the draws at the end of each block, skipping blocks without waiting tasks."""
        for number in range(max(first, self._start_block), last + 1):
            if self._view.is_idle and not self._drawer.plan.active_draws:
                self._drawer.skip_to_block(last)
                return
            header = self._headers.get_header(number)
            if header is not None:
                yield from self._drawer.draw_at_block(self._view, header).new_draws


class WorkingSetView:
    """The tasks and nodes of an in-memory fold, in the form that a block drawer reads."""

    def __init__(self, settings: DispatchSettings) -> None:
        self._fold = Fold(settings.rules)
        self._evaluator = (
            None if settings.pocket_policy is None else settings.pocket_policy.create_evaluator()
        )
        self._waiting_task_by_key: dict[TaskKey, Task] = {}
        self._groups: dict[GroupKey, dict[TaskKey, Task]] = {}
        self._changed_nodes: set[Address] = set()
        self._changed_tasks: dict[TaskKey, Task] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no task waits for a node."""
        return not self._waiting_task_by_key

    def fold_block(self, number: int, events: Sequence[DomainEvent]) -> list[Task]:
        """Fold a block, and return the tasks that started in it."""
        self._fold.fold_block(number, events, journal=False)
        if self._evaluator is not None:
            for event in events:
                self._evaluator.apply_event(event)
        changes = self._fold.drain_changes()
        self._changed_nodes.update(changes.nodes)
        self._changed_tasks |= changes.tasks
        for key, task in changes.tasks.items():
            if task.group is not None:
                self._groups.setdefault(task.group, {})[key] = task
            if is_waiting(task):
                self._waiting_task_by_key[key] = task
            else:
                self._waiting_task_by_key.pop(key, None)
        tasks = changes.tasks.values()
        return [
            started_task
            for started_task in tasks
            if started_task.started_at and started_task.started_at.block == number
        ]

    def get_waiting_tasks(self) -> Sequence[Task]:
        return list(self._waiting_task_by_key.values())

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for group in groups for task in self._groups.get(group, {}).values()]

    def pop_changed_tasks(self) -> Sequence[Task]:
        tasks = list(self._changed_tasks.values())
        self._changed_tasks.clear()
        return tasks

    def get_nodes_changed_since(self, block: int | None) -> Iterable[Node]:
        """Return the nodes that changed since the last call, or all nodes if `block` is None.

        The drawer calls in the order of blocks, and passes the block of its last call.
        """
        node_by_address = self._fold.ledger.nodes
        nodes = (
            list(node_by_address.values())
            if block is None
            else [node_by_address[address] for address in self._changed_nodes]
        )
        self._changed_nodes.clear()
        return nodes

    def get_pocket_evaluator(self, block: int) -> PocketEvaluator:
        """Return the single evaluator, which is always at the fold's current block."""
        del block
        if self._evaluator is None:
            raise FatalError("this policy has no evaluator, because it is not stateful")
        return self._evaluator
