"""Plans the draws of one block after another, over any view of the network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.pocket_pool import PocketPool
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.errors import FatalError
from oracle.systems.assignment import (
    NOTHING_PLANNED,
    AssignmentPlan,
    Choice,
    PlanStep,
    Pool,
    next_plan,
    ready_tasks,
)
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import ineligibility_reason
from oracle.systems.crynux.free_nodes import FreeNodes
from oracle.systems.crynux.requirements import requirement_of
from oracle.systems.legacy.trio_line import trios_of, unstartable_tasks
from oracle.systems.legacy.trio_pool import TrioPool
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput
from oracle.systems.waiting_line import (
    Drop,
    InLine,
    Line,
    LineUp,
    WaitingTasks,
    cannot_reach_verdict,
    drop_with,
    line_of,
    sort_by_value,
    tasks_by_group,
)


class NetworkView(Protocol):
    """The tasks and nodes at the end of a block."""

    def waiting(self) -> Sequence[Task]:
        """Return the tasks that were created, and have neither started nor ended."""
        ...

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        """Return every task of these groups."""
        ...

    def changed_tasks(self) -> Iterable[Task]:
        """Return the tasks whose row changed since the last call, and possibly others."""
        ...

    def changed_since(self, block: int | None) -> Iterable[Node]:
        """Return the nodes whose row changed above `block`; None: every node."""
        ...

    def remembered(self, block: int) -> PocketFollower:
        """Return the follower of a policy with a memory, at the end of `block`."""
        ...


@dataclass(frozen=True, slots=True)
class _PoolAt:
    """The pool of a Crynux policy at one block time, with its free nodes.

    `explains`: lists the candidates of every draw, which takes several times as long as the draw.
    """

    pool: CandidatePool
    free: FreeNodes
    time: int
    explains: bool

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        candidates = self.pool.candidates(one.task, self.time, taken) if self.explains else ()
        return Choice(self.pool.draw(one.task, self.time, seed, taken=taken), candidates)

    def has_candidates(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Return whether a free node fits, by the free nodes alone.

        The pool would build a view for every kind of waiting task, and creators can invent
        thousands.
        """
        return self.free.has_fitting(one.asked.wanted, taken)

    def is_eligible(self, task: Task, node: Address) -> bool:
        policy_input = PolicyInput(self.pool.members, self.pool.rules, self.time)
        row = self.pool.members.get(node)
        return (
            row is not None
            and ineligibility_reason(row, requirement_of(task), policy_input) is None
        )


class BlockDrawer:
    """The plan at the end of block `block_number`, and the pool it draws from.

    The drawer is kept in memory between two blocks; `resume` restores it after a reset.
    """

    def __init__(self, settings: DispatchSettings, *, explains: bool = False) -> None:
        """Create a drawer; with `explains`, every draw lists its candidates and their weights."""
        self.settings = settings
        self.explains = explains
        # Computed once, because every change of a node reads it.
        self._remembers, self._trios = settings.pocket is not None, settings.trios
        self.forget()

    def forget(self) -> None:
        """Discard everything, because the state was rewound or differs from memory."""
        self.at: int | None = None
        self.plan = NOTHING_PLANNED
        self._pool = CandidatePool(self.settings.rules, self.settings.weighting)
        self._free = FreeNodes(self.settings.rules, self.settings.weighting)
        # Used by policies that compare each node with all others: Pocket's, and the legacy one's
        # B.
        self._members: dict[Address, Node] = {}
        # The block up to which the pool has seen the nodes' changes.
        self._seen: int | None = None
        self._waiting: WaitingTasks | None = None

    @property
    def is_following(self) -> bool:
        """Return whether changed tasks must be passed on, because the waiting tasks are tracked."""
        return self._waiting is not None

    def resume(
        self, view: NetworkView, block: BlockRef, active: Mapping[TaskKey, Address]
    ) -> None:
        """Restore the plan at the end of `block` from the active draws."""
        line = self._line_at(view)
        armed = ready_tasks(line, active, self._pool_at(view, block)) if line else ()
        self.plan, self.at = AssignmentPlan(dict(active), frozenset(armed)), block.number

    def rest(self, block: int) -> None:
        """Move to the end of `block`, with no waiting task and no active draw up to there."""
        self.plan, self.at = NOTHING_PLANNED, block

    def turn(self, view: NetworkView, block: BlockRef) -> PlanStep:
        """Advance to the end of `block`; the start block begins with an empty plan.

        Raises:
            FatalError: `block` does not follow the drawer's block.
        """
        if block.number == self.settings.start_block:
            self.plan = NOTHING_PLANNED
        elif self.at != block.number - 1:
            raise FatalError(f"block {block.number} was to be drawn for after block {self.at}")
        line = self._line_at(view)
        if line or self.plan.active:
            turn = next_plan(self.plan, block, line, self._pool_at(view, block))
        else:
            turn = PlanStep(NOTHING_PLANNED, (), ())
        self.plan, self.at = turn.plan, block.number
        return turn

    def free_at(self, time: int) -> Iterator[Node]:
        """Yield the nodes that could be given a task, as of the last block drawn for."""
        self._free.settle(time)
        return iter(self._free.nodes.values())

    def network_at(self, time: int) -> PolicyInput:
        """Return the members as of the last block that had waiting tasks or active draws."""
        return PolicyInput(self._pool.members, self.settings.rules, time)

    def _line_at(self, view: NetworkView) -> Line:
        if self._waiting is None:
            self._waiting = WaitingTasks(_line_up_of(self.settings))
            self._waiting.update(view.waiting(), view.of_groups)
        else:
            self._waiting.update(view.changed_tasks(), view.of_groups)
        return self._waiting.line

    def _pool_at(self, view: NetworkView, block: BlockRef) -> Pool:
        self._free.settle(block.time)
        for node in view.changed_since(self._seen):
            self._put(node)
        self._seen = block.number
        trios, free = self._trios, self._free
        network = PolicyInput(self._members, self.settings.rules, block.time)
        if self._remembers:
            follower = view.remembered(block.number)
            return PocketPool(follower, network, list(free.idle()), self.explains)
        if trios is not None:
            return TrioPool(trios, network, free.nodes, self.explains)
        return _PoolAt(self._pool, free, block.time, self.explains)

    def _put(self, node: Node) -> None:
        """Apply a copy of a node's current row, because the fold goes on changing its own row."""
        address = node.address
        if not self._remembers and self._trios is None:
            self._pool.put(node)
        elif node.membership is Membership.MEMBER:
            self._members[address] = replace(node)
        else:
            self._members.pop(address, None)
        row = self._pool.members.get(address) or self._members.get(address)
        if row is None:
            self._free.drop(address)
        else:
            self._free.put(row)


@dataclass(frozen=True, slots=True)
class QueueView:
    """The waiting tasks, and every task of their groups, as of the cursor."""

    settings: DispatchSettings
    waiting: Sequence[Task]
    fellows: Sequence[Task]

    @property
    def line(self) -> list[InLine]:
        """Return the queue items, the most valuable first; groups of three if legacy."""
        return sort_by_value(_line_up_of(self.settings)(self.waiting, self.fellows))

    def drops(self, overflow: Iterable[Task]) -> list[Drop]:
        """Return the drops: the tasks of `overflow`, and tasks that can never start.

        Tasks never start if the policy cannot start them whichever node is free, or if their group
        is dead: their fees would be locked for nothing. A group is listed once, and not while a
        node runs one of its tasks.
        """
        groups = tasks_by_group(self.fellows)
        if self.settings.trios is not None:
            lost = unstartable_tasks(self.waiting, self.fellows)
        else:
            dead = {group for group, tasks in groups.items() if cannot_reach_verdict(tasks)}
            lost = [task for task in self.waiting if task.group in dead]
        drops = (
            drop_with(task, () if task.group is None else groups[task.group])
            for task in (*lost, *overflow)
        )
        return list(dict.fromkeys(drop for drop in drops if drop is not None))


def queue_at(view: NetworkView, settings: DispatchSettings) -> QueueView:
    """Load the waiting tasks and the tasks of their groups, once."""
    waiting = view.waiting()
    groups = frozenset(task.group for task in waiting if task.group is not None)
    return QueueView(settings, waiting, view.of_groups(groups) if groups else ())


def _line_up_of(settings: DispatchSettings) -> LineUp:
    by_value = line_of if settings.trios is None else trios_of
    return partial(by_value, value_of=settings.pricing.value_of)
