"""Plans the draws of consecutive blocks, from any source of tasks and nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Membership, Node, Task
from oracle.errors import FatalError
from oracle.systems.assignment import (
    EMPTY_PLAN,
    AssignmentPlan,
    DrawResult,
    PlanStep,
    Pool,
    compute_next_plan,
    find_ready_tasks,
)
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import find_ineligibility_reason
from oracle.systems.crynux.free_nodes import FreeNodes
from oracle.systems.crynux.requirements import build_requirement
from oracle.systems.legacy.trio_line import TrioPool, build_trio_queue, find_unstartable_tasks
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from oracle.systems.policy import PolicyInput
from oracle.systems.task_queue import (
    QueueBuilder,
    QueueDrop,
    QueueItem,
    TaskQueue,
    WaitingTasks,
    build_queue,
    collect_tasks_by_group,
    find_queue_drop,
    is_group_unstartable,
    sort_items_by_value,
)
from oracle.systems.weighted_draw import draw_nodes


class NetworkView(Protocol):
    """The tasks and nodes of the network at the end of a block."""

    def get_waiting_tasks(self) -> Sequence[Task]:
        """Return the tasks that were created but have neither started nor ended."""
        ...

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]: ...

    def pop_changed_tasks(self) -> Iterable[Task]:
        """Return the tasks that changed since the last call, and possibly others."""
        ...

    def get_nodes_changed_since(self, block: int | None) -> Iterable[Node]:
        """Return the nodes that changed after `block`, or all nodes if `block` is None."""
        ...

    def get_pocket_evaluator(self, block: int) -> PocketEvaluator:
        """Return a stateful policy's (Pocket's) evaluator as of the end of `block`."""
        ...


@dataclass(frozen=True, slots=True)
class _CrynuxPool:
    """The free nodes and the candidates of a Crynux policy at one block time.

    With `explains`, every draw lists its candidates, which makes draws several times slower.
    """

    pool: CandidatePool
    free: FreeNodes
    time: int
    explains: bool

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        candidates = (
            self.pool.list_candidates(item.task, self.time, reserved) if self.explains else ()
        )
        return DrawResult(
            self.pool.draw_nodes(item.task, self.time, seed, reserved=reserved), candidates
        )

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether any free node fits the task.

        The pool is not used, because it would build an index for every kind of waiting task, and a
        creator can invent thousands of kinds.
        """
        return self.free.has_matching_node(item.criteria.requirement, reserved)

    def is_eligible(self, task: Task, node: Address) -> bool:
        policy_input = PolicyInput(self.pool.members, self.pool.rules, self.time)
        member = self.pool.members.get(node)
        return (
            member is not None
            and find_ineligibility_reason(member, build_requirement(task), policy_input) is None
        )


@dataclass(frozen=True, slots=True)
class PocketPool:
    """The candidate pool of Pocket's policies at the end of a block.

    The `evaluator` has applied all events of the block.

    `network` has the rows of all members at the block's time, and `free` the members without a
    running task. With `explains`, every draw lists its candidates. See
    docs/explanation/pocket.md#in-the-daemon.
    """

    evaluator: PocketEvaluator
    network: PolicyInput
    free: Sequence[Node]
    explains: bool

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw one node by tickets.

        Candidates are sorted by address, as in every draw.
        """
        network = replace(self.network, reserved=reserved)
        ranking = self.evaluator.rank_candidates(item.task, network)
        sorted_candidates = sorted((row.node, row.chances) for row in ranking.rows)
        return DrawResult(
            draw_nodes(sorted_candidates, seed, 1), sorted_candidates if self.explains else ()
        )

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether any free node is eligible; every eligible node can be drawn."""
        network = replace(self.network, reserved=reserved)
        return any(
            self.evaluator.find_ineligibility_reason(node, item.task, network) is None
            for node in self.free
        )

    def is_eligible(self, task: Task, node: Address) -> bool:
        row = self.network.nodes.get(node)
        if row is None or row.membership is not Membership.MEMBER:
            return False
        return self.evaluator.find_ineligibility_reason(row, task, self.network) is None


class BlockDrawer:
    """Draws nodes block by block.

    `plan` is the plan at the end of the block `block_number`. The drawer stays in memory between
    two blocks; `resume` restores it after a reset.
    """

    def __init__(self, settings: DispatchSettings, *, explains: bool = False) -> None:
        """Create a drawer.

        With `explains`, every draw lists its candidates and their weights.
        """
        self.settings = settings
        self.explains = explains
        # The value is computed once, because it is read at every change of a node.
        self._has_memory = settings.pocket_policy is not None
        self._legacy_policy = settings.legacy_policy
        self.reset()

    def reset(self) -> None:
        """Discard data in memory that a rewind or a rollback has invalidated."""
        self.block_number: int | None = None
        self.plan = EMPTY_PLAN
        self._pool = CandidatePool(self.settings.rules, self.settings.weighting)
        self._free_nodes = FreeNodes(self.settings.rules, self.settings.weighting)
        # All members, for policies that compare each node with the others (Pocket's and `legacy`).
        self._members: dict[Address, Node] = {}
        # The block up to which changes of nodes have been applied to the pool.
        self._nodes_seen_through: int | None = None
        self._waiting_tasks: WaitingTasks | None = None

    @property
    def is_tracking_tasks(self) -> bool:
        """Return whether waiting tasks are tracked.

        The view must then supply the changed tasks.
        """
        return self._waiting_tasks is not None

    def restore_plan(
        self, view: NetworkView, block: BlockRef, active_draws: Mapping[TaskKey, Address]
    ) -> None:
        """Restore the plan at the end of `block` from the active draws."""
        queue = self._update_queue(view)
        armed_keys = (
            find_ready_tasks(queue, active_draws, self._update_pool(view, block)) if queue else ()
        )
        self.plan = AssignmentPlan(dict(active_draws), frozenset(armed_keys))
        self.block_number = block.number

    def skip_to_block(self, block: int) -> None:
        """Advance to the end of `block`.

        Until then, no task may wait, and no draw may be active.
        """
        self.plan, self.block_number = EMPTY_PLAN, block

    def draw_at_block(self, view: NetworkView, block: BlockRef) -> PlanStep:
        """Draw nodes at the end of `block`.

        If it is the start block, the plan begins empty.

        Raises:
            FatalError: `block` does not follow the drawer's block.
        """
        if block.number == self.settings.start_block:
            self.plan = EMPTY_PLAN
        elif self.block_number != block.number - 1:
            raise FatalError(
                f"draws: block {block.number} does not follow block {self.block_number}, the last "
                "block for which draws were computed"
            )
        queue = self._update_queue(view)
        if queue or self.plan.active_draws:
            draw_step = compute_next_plan(self.plan, block, queue, self._update_pool(view, block))
        else:
            draw_step = PlanStep(EMPTY_PLAN, (), ())
        self.plan, self.block_number = draw_step.plan, block.number
        return draw_step

    def iter_free_nodes(self, time: int) -> Iterator[Node]:
        """Yield the nodes that are free at `time`.

        The nodes are as of the last block that had waiting tasks or active draws.
        """
        self._free_nodes.advance_to(time)
        return iter(self._free_nodes.nodes.values())

    def build_policy_input(self, time: int) -> PolicyInput:
        """Build the policy's input for a block time.

        The members are those as of the last block that had waiting tasks or active draws.
        """
        return PolicyInput(self._pool.members, self.settings.rules, time)

    def _update_queue(self, view: NetworkView) -> TaskQueue:
        if self._waiting_tasks is None:
            self._waiting_tasks = WaitingTasks(_select_queue_builder(self.settings))
            self._waiting_tasks.update(view.get_waiting_tasks(), view.get_group_tasks)
        else:
            self._waiting_tasks.update(view.pop_changed_tasks(), view.get_group_tasks)
        return self._waiting_tasks.queue

    def _update_pool(self, view: NetworkView, block: BlockRef) -> Pool:
        self._free_nodes.advance_to(block.time)
        for node in view.get_nodes_changed_since(self._nodes_seen_through):
            self._update_node(node)
        self._nodes_seen_through = block.number
        legacy_policy, free_nodes = self._legacy_policy, self._free_nodes
        network = PolicyInput(self._members, self.settings.rules, block.time)
        if self._has_memory:
            evaluator = view.get_pocket_evaluator(block.number)
            return PocketPool(
                evaluator, network, list(free_nodes.iter_idle_nodes()), self.explains
            )
        if legacy_policy is not None:
            return TrioPool(legacy_policy, network, free_nodes.nodes, self.explains)
        return _CrynuxPool(self._pool, free_nodes, block.time, self.explains)

    def _update_node(self, node: Node) -> None:
        """Store a copy of a node's row, because the fold keeps changing its own row."""
        address = node.address
        if not self._has_memory and self._legacy_policy is None:
            self._pool.update_node(node)
        elif node.membership is Membership.MEMBER:
            self._members[address] = replace(node)
        else:
            self._members.pop(address, None)
        row = self._pool.members.get(address) or self._members.get(address)
        if row is None:
            self._free_nodes.remove_node(address)
        else:
            self._free_nodes.update_node(row)


@dataclass(frozen=True, slots=True)
class QueueView:
    """The waiting tasks, and all tasks of their groups, as of the cursor."""

    settings: DispatchSettings
    waiting_tasks: Sequence[Task]
    group_tasks: Sequence[Task]

    @property
    def items(self) -> list[QueueItem]:
        """Return the queue items, most valuable first; a legacy item is a group of three."""
        return sort_items_by_value(
            _select_queue_builder(self.settings)(self.waiting_tasks, self.group_tasks)
        )

    def find_queue_drops(self, overflow: Iterable[Task]) -> list[QueueDrop]:
        """Return the queue drops for overflowing tasks and for tasks that can never start.

        A task can never start if the policy cannot start it on any node, or if its group can no
        longer reach a verdict; its fee would be locked for nothing. A group is listed once, and is
        left out while a node runs a task of the group.
        """
        groups = collect_tasks_by_group(self.group_tasks)
        if self.settings.legacy_policy is not None:
            unstartable_tasks = find_unstartable_tasks(self.waiting_tasks, self.group_tasks)
        else:
            unstartable_groups = {
                group for group, tasks in groups.items() if is_group_unstartable(tasks)
            }
            unstartable_tasks = [
                task for task in self.waiting_tasks if task.group in unstartable_groups
            ]
        drops = (
            find_queue_drop(task, () if task.group is None else groups[task.group])
            for task in (*unstartable_tasks, *overflow)
        )
        return list(dict.fromkeys(drop for drop in drops if drop is not None))


def load_queue_view(view: NetworkView, settings: DispatchSettings) -> QueueView:
    """Load the waiting tasks and all tasks of their groups."""
    waiting_tasks = view.get_waiting_tasks()
    groups = frozenset(task.group for task in waiting_tasks if task.group is not None)
    return QueueView(settings, waiting_tasks, view.get_group_tasks(groups) if groups else ())


def _select_queue_builder(settings: DispatchSettings) -> QueueBuilder:
    build_queue_items = build_queue if settings.legacy_policy is None else build_trio_queue
    return partial(build_queue_items, get_value=settings.pricing.compute_value)
