"""Plans the draws of one block after the other, over whatever tells how the network stands."""

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
    """Tasks and nodes as they stand at the end of a block."""

    def waiting(self) -> Sequence[Task]:
        """Return the tasks that were created, and have neither started nor ended."""
        ...

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        """Return every task of these groups."""
        ...

    def changed_tasks(self) -> Iterable[Task]:
        """Return the tasks whose row changed since this or `waiting` was asked; perhaps others."""
        ...

    def changed_since(self, block: int | None) -> Iterable[Node]:
        """Return the nodes whose row changed above `block`; None: every node."""
        ...

    def remembered(self, block: int) -> PocketFollower:
        """Return what a policy that remembers knows at the end of `block`."""
        ...


@dataclass(frozen=True, slots=True)
class _PoolAt:
    """The pool at one block time, with those of it that could be given a task.

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
        """Look through the free nodes alone.

        The pool would get ready for every kind of task that waits; creators invent thousands.
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
    """The plan at the end of block `at`, and the pool that it draws from.

    Kept in memory between two blocks; `resume` gives back what was forgotten.
    """

    def __init__(self, settings: DispatchSettings, *, explains: bool = False) -> None:
        """`explains`: say with every draw who the candidates were, and their weights."""
        self.settings = settings
        self.explains = explains
        # Looked up once: it is asked for at every change of a node.
        self._remembers, self._trios = settings.pocket is not None, settings.trios
        self.forget()

    def forget(self) -> None:
        """Know nothing: the state went back, or is not what memory says."""
        self.at: int | None = None
        self.plan = NOTHING_PLANNED
        self._pool = CandidatePool(self.settings.rules, self.settings.weighting)
        self._free = FreeNodes(self.settings.rules, self.settings.weighting)
        # Of the policies that measure a node among all: Pocket's, and the legacy one's B.
        self._members: dict[Address, Node] = {}
        # The block up to which the pool has seen the nodes' changes.
        self._seen: int | None = None
        self._waiting: WaitingTasks | None = None

    @property
    def is_following(self) -> bool:
        """Tell whether tasks that change have to be told of: those that wait are known."""
        return self._waiting is not None

    def resume(
        self, view: NetworkView, block: BlockRef, active: Mapping[TaskKey, Address]
    ) -> None:
        """Stand at the end of `block`, where these draws stand; what is armed follows."""
        line = self._line_at(view)
        armed = ready_tasks(line, active, self._pool_at(view, block)) if line else ()
        self.plan, self.at = AssignmentPlan(dict(active), frozenset(armed)), block.number

    def rest(self, block: int) -> None:
        """Stand at the end of `block`: up to there nobody waits and no draw stands."""
        self.plan, self.at = NOTHING_PLANNED, block

    def turn(self, view: NetworkView, block: BlockRef) -> PlanStep:
        """Go on to the end of `block`; the first one starts from an empty plan.

        Raises:
            FatalError: it does not follow the block that we stand at.
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
        """Yield who could be given a task, as the last turn left them."""
        self._free.settle(time)
        return iter(self._free.nodes.values())

    def network_at(self, time: int) -> PolicyInput:
        """Return the members, as the last turn that had to draw or to look at a draw saw them."""
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
        """Take in a copy of a node's row as it is now: the fold goes on changing its own."""
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
    """What waits, and every task of the groups of what is in one, as they stand at the cursor."""

    settings: DispatchSettings
    waiting: Sequence[Task]
    fellows: Sequence[Task]

    @property
    def line(self) -> list[InLine]:
        """Return what waits in order: the most valuable first; under a legacy policy by threes."""
        return sort_by_value(_line_up_of(self.settings)(self.waiting, self.fellows))

    def drops(self, overflow: Iterable[Task]) -> list[Drop]:
        """Return what leaves the queue together: `overflow`, and what can never start.

        That is what the policy never starts, whoever is free, and what is left of dead groups:
        their fees would lie there for nothing. A group is named once, and not while a task of it
        has a node.
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
    """Read what waits, once."""
    waiting = view.waiting()
    groups = frozenset(task.group for task in waiting if task.group is not None)
    return QueueView(settings, waiting, view.of_groups(groups) if groups else ())


def _line_up_of(settings: DispatchSettings) -> LineUp:
    by_value = line_of if settings.trios is None else trios_of
    return partial(by_value, value_of=settings.pricing.value_of)
