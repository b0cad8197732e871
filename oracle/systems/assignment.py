"""Decides which node is drawn for which waiting task, block after block (decision 0060).

The plan is a pure function of the chain: the tasks and nodes at the end of a block, the block's
hash, and the plan of the block before.
"""

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple, Protocol

from oracle.domain.blocks import BEFORE_EVERYTHING, BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state.task import Task
from oracle.systems.waiting_line import EquivalenceClass, OrderedItem, QueueItem, TaskQueue
from oracle.systems.weighted_draw import NodeDraw, compute_draw_seed


class DrawResult(NamedTuple):
    """The drawn nodes, one for each task, in order.

    `candidates`: the candidates with their weights; empty unless draws are explained. `card`: the
    card group that was drawn first, as text; None if any card will do.
    """

    node_draws: Sequence[NodeDraw]
    candidates: Sequence[tuple[Address, int]] = ()
    card: str | None = None


class Pool(Protocol):
    """The nodes at the end of one block. Nodes in `reserved` are never candidates."""

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether there are candidates for all tasks that start together."""
        ...

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw a node for each of the item's tasks; the candidates must suffice."""
        ...

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could start the task now, whatever models it has."""
        ...


@dataclass(frozen=True, slots=True)
class TaskDraw:
    """One draw with its inputs, so that anyone can repeat it.

    `candidates` is empty unless draws are explained; `card` as in `DrawResult`. See
    docs/reference/scoring-rules.md#the-draw.
    """

    task: TaskKey
    block: BlockRef
    seed: bytes
    candidates: tuple[tuple[Address, int], ...]
    node_draw: NodeDraw
    card: str | None = None

    @property
    def node(self) -> Address:
        """Return the node that is to start the task."""
        return self.node_draw.node


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """The plan at the end of a block.

    `active_draws`: nodes of tasks that are drawn and not started yet. `armed_tasks`: tasks with a
    candidate, so that the next block draws for them. All other waiting tasks wait on.
    """

    active_draws: Mapping[TaskKey, Address]
    armed_tasks: frozenset[TaskKey]


class PlanStep(NamedTuple):
    """The changes of the plan in one block. `ended_draws`: draws no longer active."""

    plan: AssignmentPlan
    new_draws: tuple[TaskDraw, ...]
    ended_draws: tuple[TaskKey, ...]


EMPTY_PLAN = AssignmentPlan({}, frozenset())


def compute_next_plan(
    before: AssignmentPlan, block: BlockRef, queue: TaskQueue, pool: Pool
) -> PlanStep:
    """Return the plan at the end of `block`, given the plan of the block before.

    A draw stays active until its task starts or ends, or its node can no longer start it. Armed
    tasks are drawn for by this block's hash. Then all waiting tasks are checked again, including
    those whose draw ended in this block.
    """
    active_draws: dict[TaskKey, Address] = {}
    for item in queue.find_items(before.active_draws):
        active_draws |= _find_remaining_draw(item, before.active_draws, pool)
    ended_draws = tuple(key for key in before.active_draws if key not in active_draws)
    new_draws = tuple(_draw_ready_tasks(before, active_draws, block, queue, pool))
    return PlanStep(
        AssignmentPlan(active_draws, find_ready_tasks(queue, active_draws, pool)),
        new_draws,
        ended_draws,
    )


def find_ready_tasks(
    queue: TaskQueue, active_draws: Mapping[TaskKey, Address], pool: Pool
) -> frozenset[TaskKey]:
    """Return the tasks without a draw that have candidates at the end of a block.

    Tasks that start together are represented by the first of them.
    """
    reserved = frozenset(active_draws.values())
    ready_classes = (
        equivalence_class
        for equivalence_class in queue.get_classes()
        if _has_candidates(pool, equivalence_class.first, reserved)
    )
    return (
        frozenset()
        .union(*(equivalence_class.keys for equivalence_class in ready_classes))
        .difference(active_draws)
    )


def get_queued_items(
    items: Sequence[QueueItem], plan: AssignmentPlan, block: int
) -> list[QueueItem]:
    """Return the items that wait in the queue at the end of `block`, in order.

    A task that was created in this very block is not queued yet: the next block may draw for it.
    """
    return [
        item
        for item in items
        if item.task.key not in plan.active_draws
        and (item.tasks[-1].created_at or BEFORE_EVERYTHING).block < block
    ]


def _find_remaining_draw(
    item: QueueItem, before: Mapping[TaskKey, Address], pool: Pool
) -> Mapping[TaskKey, Address]:
    """Return the item's draws, or none of them if a draw can no longer stay active."""
    node_by_task = {task.key: before[task.key] for task in item.tasks if task.key in before}
    eligibility = (
        node_by_task[task.key] not in item.sibling_nodes
        and pool.is_eligible(task, node_by_task[task.key])
        for task in item.tasks
        if task.key in node_by_task
    )
    return node_by_task if len(node_by_task) == len(item.tasks) and all(eligibility) else {}


def _draw_ready_tasks(
    before: AssignmentPlan,
    active_draws: dict[TaskKey, Address],
    block: BlockRef,
    queue: TaskQueue,
    pool: Pool,
) -> Iterator[TaskDraw]:
    """Draw for the armed tasks in order; each draw reserves its node against later ones."""
    reserved = frozenset(active_draws.values())

    def iter_armed(equivalence_class: EquivalenceClass) -> Iterator[OrderedItem]:
        """Yield the armed items of a class, in order, while there are candidates."""
        for ordered_item in equivalence_class:
            if ordered_item.item.task.key in before.armed_tasks:
                # Many items may be armed for one node.
                if not _has_candidates(pool, ordered_item.item, reserved):
                    return
                yield ordered_item

    for *_, item in merge(*map(iter_armed, queue.get_classes())) if before.armed_tasks else ():
        # Draws since that check may have taken the item's candidates.
        if not _has_candidates(pool, item, reserved):
            continue
        seed = compute_draw_seed(block.hash, item.seed_key)
        result = pool.draw_nodes(item, seed, item.get_unavailable_nodes(reserved))
        for task, node_draw in zip(item.tasks, result.node_draws, strict=True):
            active_draws[task.key] = node_draw.node
            reserved |= {node_draw.node}
            yield TaskDraw(task.key, block, seed, tuple(result.candidates), node_draw, result.card)


def _has_candidates(pool: Pool, item: QueueItem, reserved: frozenset[Address]) -> bool:
    return pool.has_candidates(item, item.get_unavailable_nodes(reserved))
