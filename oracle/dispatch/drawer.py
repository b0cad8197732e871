"""Plans the draws of one block after the other, over whatever tells how the network stands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import tee
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
    InLine,
    Pool,
    Turn,
    armed_in,
    line_of,
    next_plan,
)
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import why_not
from oracle.systems.crynux.requirements import (
    Out,
    Requirement,
    misfit,
    requirement_of,
    unavailable,
)
from oracle.systems.legacy.trio_line import never_startable, trios_of
from oracle.systems.legacy.trio_pool import TrioPool
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput


class NetworkView(Protocol):
    """Tasks and nodes as they stand at the end of a block."""

    def waiting(self) -> Sequence[Task]:
        """Return the tasks that were created, and have neither started nor ended."""
        ...

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        """Return every task of these groups."""
        ...

    def nodes(self, addresses: Iterable[Address]) -> Mapping[Address, Node]:
        """Return these nodes, those that are there."""
        ...

    def changed_since(self, block: int | None) -> Iterable[Node]:
        """Return the nodes whose row changed above `block`; None: every node."""
        ...

    def remembered(self, block: int) -> PocketFollower:
        """Return what a policy that remembers knows at the end of `block`."""
        ...


@dataclass(frozen=True, slots=True)
class _PoolAt:
    """The pool at one block time; `rows` holds the nodes that draws stand for.

    `free`: everybody who could be given a task now, were it the right one. `explains`: lists the
    candidates of every draw, which takes several times as long as the draw. `fitting`: by kind of
    task the free nodes that fit it, as far as was asked; a copy begins with the first.
    """

    pool: CandidatePool
    rows: Mapping[Address, Node]
    time: int
    free: Mapping[Address, Node]
    explains: bool
    fitting: dict[Requirement, Iterator[Address]] = field(default_factory=dict)

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        candidates = self.pool.candidates(one.task, self.time, taken) if self.explains else ()
        return Choice(self.pool.draw(one.task, self.time, seed, taken=taken), candidates)

    def suffices(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Look through the free nodes alone, no further than the tasks of one kind ask.

        The pool would get ready for every kind of task that waits; creators invent thousands.
        """
        wanted = requirement_of(one.task)
        if wanted not in self.fitting:
            self.fitting[wanted] = tee(self._fitting(wanted), 1)[0]
        return any(address not in taken for address in copy(self.fitting[wanted]))

    def _fitting(self, wanted: Requirement) -> Iterator[Address]:
        weighting = self.pool.weighting
        counted = weighting.counted(wanted.models)
        for node in self.free.values():
            if misfit(node, wanted) is None and (
                weighting.fallback or counted.issubset(node.models)
            ):
                yield node.address

    def is_eligible(self, task: Task, node: Address) -> bool:
        policy_input = PolicyInput(self.rows, self.pool.rules, self.time)
        row = self.rows.get(node)
        return row is not None and why_not(row, requirement_of(task), policy_input) is None


class BlockDrawer:
    """The plan at the end of block `at`, and the pool that it draws from.

    Kept in memory between two blocks; `resume` gives back what was forgotten.
    """

    def __init__(self, settings: DispatchSettings, *, explains: bool = False) -> None:
        """`explains`: say with every draw who the candidates were, and their weights."""
        self.settings = settings
        self.explains = explains
        self._remembers = settings.pocket is not None
        self.forget()

    def forget(self) -> None:
        """Know nothing: the state went back, or is not what memory says."""
        self.at: int | None = None
        self.plan = NOTHING_PLANNED
        self._pool = CandidatePool(self.settings.rules, self.settings.weighting)
        # Neither busy nor paused, whatever their reliability.
        self._idle: dict[Address, Node] = {}
        # Of the policies that measure a node among all: Pocket's, and the legacy one's B.
        self._members: dict[Address, Node] = {}
        # The block up to which the pool has seen the nodes' changes.
        self._seen: int | None = None

    def resume(
        self, view: NetworkView, block: BlockRef, active: Mapping[TaskKey, Address]
    ) -> None:
        """Stand at the end of `block`, where these draws stand; what is armed follows."""
        line = line_at(view, self.settings)
        armed = armed_in(line, active, self._pool_at(view, block, active)) if line else ()
        self.plan, self.at = AssignmentPlan(dict(active), frozenset(armed)), block.number

    def rest(self, block: int) -> None:
        """Stand at the end of `block`: up to there nobody waits and no draw stands."""
        self.plan, self.at = NOTHING_PLANNED, block

    def turn(self, view: NetworkView, block: BlockRef) -> Turn:
        """Go on to the end of `block`; the first one starts from an empty plan.

        Raises:
            FatalError: it does not follow the block that we stand at.
        """
        if block.number == self.settings.start_block:
            self.plan = NOTHING_PLANNED
        elif self.at != block.number - 1:
            raise FatalError(f"block {block.number} was to be drawn for after block {self.at}")
        line = line_at(view, self.settings)
        if line or self.plan.active:
            turn = next_plan(self.plan, block, line, self._pool_at(view, block, self.plan.active))
        else:
            turn = Turn(NOTHING_PLANNED, (), ())
        self.plan, self.at = turn.plan, block.number
        return turn

    def free_at(self, time: int) -> Iterator[Node]:
        """Yield who could be given a task, as the last turn left them."""
        rules = self.settings.rules
        return (one for one in self._idle.values() if unavailable(one, time, rules) is None)

    def network_at(self, time: int) -> PolicyInput:
        """Return the members, as the last turn that had to draw or to look at a draw saw them."""
        return PolicyInput(self._pool.members, self.settings.rules, time)

    def _pool_at(
        self, view: NetworkView, block: BlockRef, active: Mapping[TaskKey, Address]
    ) -> Pool:
        for node in view.changed_since(self._seen):
            self._put(node, block.time)
        self._seen = block.number
        rules, trios = self.settings.rules, self.settings.trios
        if self._remembers:
            network = PolicyInput(self._members, rules, block.time)
            follower, idle = view.remembered(block.number), list(self._idle.values())
            return PocketPool(follower, network, idle, self.explains)
        free = {one.address: one for one in self.free_at(block.time)}
        if trios is not None:
            return TrioPool(
                trios, PolicyInput(self._members, rules, block.time), free, self.explains
            )
        rows = view.nodes(active.values())
        return _PoolAt(self._pool, rows, block.time, free, self.explains)

    def _put(self, node: Node, time: int) -> None:
        """Take in a node's row as it is now."""
        address = node.address
        self._idle.pop(address, None)
        if unavailable(node, time, self.settings.rules) in {None, Out.EXCLUDED}:
            self._idle[address] = node
        if not self._remembers and self.settings.trios is None:
            self._pool.put(node)
        elif node.membership is Membership.MEMBER:
            # A copy, as the pool keeps: the fold goes on changing its own.
            self._members[address] = replace(node)
        else:
            self._members.pop(address, None)


def line_at(view: NetworkView, settings: DispatchSettings) -> list[InLine]:
    """Return what waits in order: the most valuable first; under a legacy policy by threes."""
    waiting, fellows = _waiting_in(view)
    by_value = line_of if settings.trios is None else trios_of
    return by_value(waiting, fellows, settings.pricing.value_of)


def never_startable_at(view: NetworkView, settings: DispatchSettings) -> list[Task]:
    """Return the waiting tasks that the policy never starts, whoever is free."""
    return [] if settings.trios is None else never_startable(*_waiting_in(view))


def _waiting_in(view: NetworkView) -> tuple[Sequence[Task], Sequence[Task]]:
    """Return what waits, and every task of the groups of those that are in one."""
    waiting = view.waiting()
    groups = frozenset(task.group for task in waiting if task.group is not None)
    return waiting, view.of_groups(groups) if groups else ()
