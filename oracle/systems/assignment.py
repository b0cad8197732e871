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
from oracle.systems.waiting_line import EquivalenceClass, InLine, Line, PlaceInLine
from oracle.systems.weighted_draw import Drawn, seed_for


class Choice(NamedTuple):
    """The drawn nodes, one for each task, in order.

    `candidates`: the candidates with their weights; empty unless draws are explained. `card`: the
    card group that was drawn first, as text; None if any card will do.
    """

    drawn: Sequence[Drawn]
    candidates: Sequence[tuple[Address, int]] = ()
    card: str | None = None


class Pool(Protocol):
    """The nodes at the end of one block. Nodes in `reserved` are never candidates."""

    def has_candidates(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Return whether there are candidates for all tasks that start together."""
        ...

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        """Draw a node for each of the item's tasks; the candidates must suffice."""
        ...

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could start the task now, whatever models it has."""
        ...


@dataclass(frozen=True, slots=True)
class Drawing:
    """One draw with its inputs, so that anyone can repeat it.

    `candidates` is empty unless draws are explained; `card` as in `DrawResult`. See
    docs/reference/scoring-rules.md#the-draw.
    """

    task: TaskKey
    block: BlockRef
    seed: bytes
    candidates: tuple[tuple[Address, int], ...]
    drawn: Drawn
    card: str | None = None

    @property
    def node(self) -> Address:
        """Return the node that is to start the task."""
        return self.drawn.node


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """The plan at the end of a block.

    `active_draws`: nodes of tasks that are drawn and not started yet. `armed_tasks`: tasks with a
    candidate, so that the next block draws for them. All other waiting tasks wait on.
    """

    active: Mapping[TaskKey, Address]
    armed: frozenset[TaskKey]


class PlanStep(NamedTuple):
    """The changes of the plan in one block. `ended_draws`: draws no longer active."""

    plan: AssignmentPlan
    drawn: tuple[Drawing, ...]
    over: tuple[TaskKey, ...]


NOTHING_PLANNED = AssignmentPlan({}, frozenset())


def next_plan(before: AssignmentPlan, block: BlockRef, line: Line, pool: Pool) -> PlanStep:
    """Return the plan at the end of `block`, given the plan of the block before.

    A draw stays active until its task starts or ends, or its node can no longer start it. Armed
    tasks are drawn for by this block's hash. Then all waiting tasks are checked again, including
    those whose draw ended in this block.
    """
    active: dict[TaskKey, Address] = {}
    for one in line.holding(before.active):
        active |= _remaining_draw(one, before.active, pool)
    over = tuple(key for key in before.active if key not in active)
    drawn = tuple(_draw_ready_tasks(before, active, block, line, pool))
    return PlanStep(AssignmentPlan(active, ready_tasks(line, active, pool)), drawn, over)


def ready_tasks(line: Line, active: Mapping[TaskKey, Address], pool: Pool) -> frozenset[TaskKey]:
    """Return the tasks without a draw that have candidates at the end of a block.

    Tasks that start together are represented by the first of them.
    """
    taken = frozenset(active.values())
    alike = (each for each in line.classes() if _has_candidates(pool, each.first, taken))
    return frozenset().union(*(each.keys for each in alike)).difference(active)


def queue_of(line: Sequence[InLine], plan: AssignmentPlan, block: int) -> list[InLine]:
    """Return the items that wait in the queue at the end of `block`, in order.

    A task that was created in this very block is not queued yet: the next block may draw for it.
    """
    return [
        one
        for one in line
        if one.task.key not in plan.active
        and (one.tasks[-1].created_at or BEFORE_EVERYTHING).block < block
    ]


def _remaining_draw(
    one: InLine, before: Mapping[TaskKey, Address], pool: Pool
) -> Mapping[TaskKey, Address]:
    """Return the item's draws, or none of them if a draw can no longer stay active."""
    drawn = {task.key: before[task.key] for task in one.tasks if task.key in before}
    able = (
        drawn[task.key] not in one.barred and pool.is_eligible(task, drawn[task.key])
        for task in one.tasks
        if task.key in drawn
    )
    return drawn if len(drawn) == len(one.tasks) and all(able) else {}


def _draw_ready_tasks(
    before: AssignmentPlan,
    active: dict[TaskKey, Address],
    block: BlockRef,
    line: Line,
    pool: Pool,
) -> Iterator[Drawing]:
    """Draw for the armed tasks in order; each draw reserves its node against later ones."""
    taken = frozenset(active.values())

    def armed_of(alike: EquivalenceClass) -> Iterator[PlaceInLine]:
        """Yield the armed items of a class, in order, while there are candidates."""
        for place in alike:
            if place.one.task.key in before.armed:
                # Many items may be armed for one node.
                if not _has_candidates(pool, place.one, taken):
                    return
                yield place

    for *_, one in merge(*map(armed_of, line.classes())) if before.armed else ():
        # Draws since that check may have taken the item's candidates.
        if not _has_candidates(pool, one, taken):
            continue
        seed = seed_for(block.hash, one.seed_name)
        choice = pool.draw(one, seed, one.out_of_reach(taken))
        for task, drawn in zip(one.tasks, choice.drawn, strict=True):
            active[task.key] = drawn.node
            taken |= {drawn.node}
            yield Drawing(task.key, block, seed, tuple(choice.candidates), drawn, choice.card)


def _has_candidates(pool: Pool, one: InLine, taken: frozenset[Address]) -> bool:
    return pool.has_candidates(one, one.out_of_reach(taken))
