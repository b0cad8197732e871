"""Decides for each block which nodes are drawn for waiting tasks (decision 0060).

The plan is a pure function of the chain. It only depends on the tasks and nodes at the end of a
block, the block's hash, and the plan of the previous block.
"""

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple, Protocol

from oracle.domain.blocks import BEFORE_EVERYTHING, BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Task
from oracle.systems.task_queue import EquivalenceClass, OrderedItem, QueueItem, TaskQueue
from oracle.systems.weighted_draw import NodeDraw, compute_draw_seed


class DrawResult(NamedTuple):
    """The nodes that were drawn, one for each task, in order.

    `candidates` holds the candidates with their weights if draws are explained, and is empty
    otherwise. `gpu` is the text of the GPU model that was drawn first, or None if any GPU is
    accepted.
    """

    node_draws: Sequence[NodeDraw]
    candidates: Sequence[tuple[Address, int]] = ()
    gpu: str | None = None


class Pool(Protocol):
    """The candidates at the end of one block.

    Nodes in `reserved` are never candidates.
    """

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether there are enough candidates for all tasks of the item."""
        ...

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw a node for each task of the item.

        There must be enough candidates.
        """
        ...

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could start the task now, regardless of its models."""
        ...


@dataclass(frozen=True, slots=True)
class TaskDraw:
    """A draw and its inputs, with which anyone can repeat it.

    `candidates` is empty unless draws are explained, and `gpu` is as in `DrawResult`. See
    docs/reference/scoring-rules.md#the-draw.
    """

    task: TaskKey
    block: BlockRef
    seed: bytes
    candidates: tuple[tuple[Address, int], ...]
    node_draw: NodeDraw
    gpu: str | None = None

    @property
    def node(self) -> Address:
        """The node that should start the task."""
        return self.node_draw.node


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """The active draws and the armed tasks at the end of a block.

    `active_draws` holds the drawn node of each task that is not started yet. `armed_tasks` are the
    tasks that have candidates, so nodes are drawn for them with the next block. All other waiting
    tasks keep waiting.
    """

    active_draws: Mapping[TaskKey, Address]
    armed_tasks: frozenset[TaskKey]


class PlanStep(NamedTuple):
    """The changes of the plan in one block.

    `ended_draws` are the draws that ended.
    """

    plan: AssignmentPlan
    new_draws: tuple[TaskDraw, ...]
    ended_draws: tuple[TaskKey, ...]


EMPTY_PLAN = AssignmentPlan({}, frozenset())


def compute_next_plan(
    previous_plan: AssignmentPlan, block: BlockRef, queue: TaskQueue, pool: Pool
) -> PlanStep:
    """Compute the plan at the end of `block` from the plan of the previous block.

    A draw stays active until its task starts or ends, or its node can no longer start the task.
    The hash of `block` decides the draws for the armed tasks. After that, all waiting tasks are
    checked for candidates again, including the tasks whose draw ended in this block.
    """
    active_draws: dict[TaskKey, Address] = {}
    for item in queue.find_items_of_tasks(previous_plan.active_draws):
        active_draws |= _find_remaining_draws(item, previous_plan.active_draws, pool)
    ended_draws = tuple(key for key in previous_plan.active_draws if key not in active_draws)
    new_draws = tuple(_draw_ready_tasks(previous_plan, active_draws, block, queue, pool))
    return PlanStep(
        AssignmentPlan(active_draws, find_ready_tasks(queue, active_draws, pool)),
        new_draws,
        ended_draws,
    )


def find_ready_tasks(
    queue: TaskQueue, active_draws: Mapping[TaskKey, Address], pool: Pool
) -> frozenset[TaskKey]:
    """Return the tasks without a draw for which there are candidates after a block.

    Of tasks that start together, only the first task is returned.
    """
    reserved_nodes = frozenset(active_draws.values())
    ready_classes = (
        equivalence_class
        for equivalence_class in queue.get_equivalence_classes()
        if _has_candidates(pool, equivalence_class.first, reserved_nodes)
    )
    return (
        frozenset()
        .union(*(equivalence_class.keys for equivalence_class in ready_classes))
        .difference(active_draws)
    )


def filter_queued_items(
    items: Sequence[QueueItem], plan: AssignmentPlan, block: int
) -> list[QueueItem]:
    """Return the items that are in the queue at the end of `block`, in order.

    A task that was created in `block` itself is not in the queue yet, because a node may be drawn
    for it with the next block.
    """
    return [
        item
        for item in items
        if item.task.key not in plan.active_draws
        and (item.tasks[-1].created_at or BEFORE_EVERYTHING).block < block
    ]


def _find_remaining_draws(
    item: QueueItem, previous_draws: Mapping[TaskKey, Address], pool: Pool
) -> Mapping[TaskKey, Address]:
    """Return the draws of an item if all of them stay active, else an empty mapping."""
    node_by_task = {
        task.key: previous_draws[task.key] for task in item.tasks if task.key in previous_draws
    }
    remaining_eligibility = (
        node_by_task[task.key] not in item.sibling_nodes
        and pool.is_eligible(task, node_by_task[task.key])
        for task in item.tasks
        if task.key in node_by_task
    )
    return (
        node_by_task if len(node_by_task) == len(item.tasks) and all(remaining_eligibility) else {}
    )


def _draw_ready_tasks(
    previous_plan: AssignmentPlan,
    active_draws: dict[TaskKey, Address],
    block: BlockRef,
    queue: TaskQueue,
    pool: Pool,
) -> Iterator[TaskDraw]:
    """Draw a node for each armed task in order, and reserve this node for it."""
    reserved_nodes = frozenset(active_draws.values())

    def iter_armed_items(equivalence_class: EquivalenceClass) -> Iterator[OrderedItem]:
        """Yield the armed items of a class in order until there are no more candidates."""
        for ordered_item in equivalence_class:
            if ordered_item.item.task.key in previous_plan.armed_tasks:
                # Many items may be armed although only one node is available. Check whether this
                # item has candidates.
                if not _has_candidates(pool, ordered_item.item, reserved_nodes):
                    return
                yield ordered_item

    for *_, item in (
        merge(*map(iter_armed_items, queue.get_equivalence_classes()))
        if previous_plan.armed_tasks
        else ()
    ):
        # Draws made since that check may have taken the item's last candidates.
        if not _has_candidates(pool, item, reserved_nodes):
            continue
        seed = compute_draw_seed(block.hash, item.seed_key)
        drawn_nodes = pool.draw_nodes(item, seed, item.get_unavailable_nodes(reserved_nodes))
        for task, node_draw in zip(item.tasks, drawn_nodes.node_draws, strict=True):
            active_draws[task.key] = node_draw.node
            reserved_nodes |= {node_draw.node}
            yield TaskDraw(
                task.key, block, seed, tuple(drawn_nodes.candidates), node_draw, drawn_nodes.gpu
            )


def _has_candidates(pool: Pool, item: QueueItem, reserved: frozenset[Address]) -> bool:
    return pool.has_candidates(item, item.get_unavailable_nodes(reserved))
