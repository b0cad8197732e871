"""Which node is drawn for which waiting task, block after block (decision 0060).

A pure function of the chain: tasks and nodes as they stand at the end of a block, the block's own
hash, and what the same function said of the block before.
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
    """The nodes drawn, one for each task, in order.

    `candidates`: among whom, with their weights; empty where nobody asks. `card`: the card group
    that was drawn first, in words; None where any card will do.
    """

    drawn: Sequence[Drawn]
    candidates: Sequence[tuple[Address, int]] = ()
    card: str | None = None


class Pool(Protocol):
    """The nodes at the end of one block. `taken` are no candidates, whatever else they are."""

    def has_candidates(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Tell whether there are candidates for all that start together."""
        ...

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        """Draw a node for each of them; the candidates suffice."""
        ...

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Tell whether the node could start the task now, whatever models it has."""
        ...


@dataclass(frozen=True, slots=True)
class Drawing:
    """One draw, with what went into it: everybody draws the same node.

    `candidates` is empty where the drawer was not asked to explain; `card` as in `Choice`.
    See docs/reference/scoring-rules.md#the-draw.
    """

    task: TaskKey
    block: BlockRef
    seed: bytes
    candidates: tuple[tuple[Address, int], ...]
    drawn: Drawn
    card: str | None = None

    @property
    def node(self) -> Address:
        """Return who is to start the task."""
        return self.drawn.node


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """What is decided at the end of a block.

    `active`: drawn and not started yet. `armed`: tasks for which a candidate is there, so that
    the next block draws. All other waiting tasks wait on.
    """

    active: Mapping[TaskKey, Address]
    armed: frozenset[TaskKey]


class PlanStep(NamedTuple):
    """What one block did to the plan. `over`: draws that no longer stand."""

    plan: AssignmentPlan
    drawn: tuple[Drawing, ...]
    over: tuple[TaskKey, ...]


NOTHING_PLANNED = AssignmentPlan({}, frozenset())


def next_plan(before: AssignmentPlan, block: BlockRef, line: Line, pool: Pool) -> PlanStep:
    """Return what the end of `block` makes of the plan that the block before left.

    What was drawn stands until the task has started or ended, or its node could not start it any
    more. What was armed is drawn for, by this block's hash. Then all that wait are looked at anew,
    those included whose draw fell this very block.
    """
    active: dict[TaskKey, Address] = {}
    for one in line.holding(before.active):
        active |= _remaining_draw(one, before.active, pool)
    over = tuple(key for key in before.active if key not in active)
    drawn = tuple(_draw_ready_tasks(before, active, block, line, pool))
    return PlanStep(AssignmentPlan(active, ready_tasks(line, active, pool)), drawn, over)


def ready_tasks(line: Line, active: Mapping[TaskKey, Address], pool: Pool) -> frozenset[TaskKey]:
    """Return the tasks without a draw for which candidates are there, at the end of a block.

    Of tasks that start together the first stands for all.
    """
    taken = frozenset(active.values())
    alike = (each for each in line.classes() if _has_candidates(pool, each.first, taken))
    return frozenset().union(*(each.keys for each in alike)).difference(active)


def queue_of(line: Sequence[InLine], plan: AssignmentPlan, block: int) -> list[InLine]:
    """Return what waits in the queue at the end of `block`, in order.

    A task that was created in this very block is not in it yet: the next block may draw for it.
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
    """Return the draw that stands on; of tasks that start together all fall, or none."""
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
    """Draw for what was armed, in order; each draw takes its node away from those after it."""
    taken = frozenset(active.values())

    def armed_of(alike: EquivalenceClass) -> Iterator[PlaceInLine]:
        """Go through those that ask for the same, as far as there are candidates."""
        for place in alike:
            if place.one.task.key in before.armed:
                # Many may be armed for one node.
                if not _has_candidates(pool, place.one, taken):
                    return
                yield place

    for *_, one in merge(*map(armed_of, line.classes())) if before.armed else ():
        # Since it was looked at, others may have taken its candidates.
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
