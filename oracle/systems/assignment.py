"""Which node is drawn for which waiting task, block after block (decision 0060).

A pure function of the chain: tasks and nodes as they stand at the end of a block, the block's own
hash, and what the same function said of the block before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.task import Task
from oracle.systems.weighted_draw import Drawn, seed_for

# Ended so, a task gives up its whole group: no other task of it starts any more
# (contracts/network/TaskVerdicts.sol, endUnvalidated).
_GIVEN_UP = frozenset({AbortReason.GROUP_TIMEOUT, AbortReason.CREATOR_VALIDATION_TIMEOUT})
_NOWHERE = Position(-1, 0, 0, 0)


class InLine(NamedTuple):
    """What waits for nodes: a task, or tasks that start together, each on a node of its own.

    `barred`: nodes that were given another task of the group. `fellows`: the others of a legacy
    group of three, in the order of their creation after `task`; of a task by itself none.
    """

    task: Task
    value: Fraction
    barred: frozenset[Address]
    fellows: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return all that start together, the oldest first."""
        return (self.task, *self.fellows)

    def out_of_reach(self, taken: frozenset[Address]) -> frozenset[Address]:
        """Return who cannot be given it, `taken` included; copies nothing for who is alone."""
        return taken | self.barred if self.barred else taken

    @property
    def seed_name(self) -> TaskKey | GroupKey:
        """Return what the seed of the draw is made of beside the block: one seed for all."""
        group = self.task.group
        return group if self.fellows and group is not None else self.task.key


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

    def suffices(self, one: InLine, taken: AbstractSet[Address]) -> bool:
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


class Turn(NamedTuple):
    """What one block did to the plan. `over`: draws that no longer stand."""

    plan: AssignmentPlan
    drawn: tuple[Drawing, ...]
    over: tuple[TaskKey, ...]


NOTHING_PLANNED = AssignmentPlan({}, frozenset())


def line_of(
    waiting: Iterable[Task],
    fellows: Iterable[Task],
    value_of: Callable[[Task], Fraction],
) -> list[InLine]:
    """Put waiting tasks in order: the most valuable first, then the older.

    `fellows` holds every task of the groups of those that are in one. A task whose group was
    given up can never start, and one whose group is not all there cannot yet: they are left out.
    """
    barred: dict[GroupKey, set[Address]] = {}
    given_up, there = set(), Counter[GroupKey]()
    for fellow in fellows:
        if fellow.group is not None and fellow.created_at is not None:
            there[fellow.group] += 1
        if fellow.group is not None and fellow.node is not None:
            barred.setdefault(fellow.group, set()).add(fellow.node)
        if fellow.abort_reason in _GIVEN_UP:
            given_up.add(fellow.group)
    line = []
    for task in waiting:
        if task.group is None:
            line.append(InLine(task, value_of(task), frozenset()))
        elif task.group not in given_up and there[task.group] >= (task.group_size or 0):
            nodes = frozenset(barred.get(task.group, ()))
            line.append(InLine(task, value_of(task), nodes))
    return in_turn(line)


def in_turn(line: Iterable[InLine]) -> list[InLine]:
    """Put what waits in order: the most valuable first, then the older.

    Tasks that start together are as old as the last of them.
    """
    return sorted(line, key=_turn)


def next_plan(before: AssignmentPlan, block: BlockRef, line: Sequence[InLine], pool: Pool) -> Turn:
    """Return what the end of `block` makes of the plan that the block before left.

    What was drawn stands until the task has started or ended, or its node could not start it any
    more. What was armed is drawn for, by this block's hash. Then all that wait are looked at anew,
    those included whose draw fell this very block.
    """
    active: dict[TaskKey, Address] = {}
    for one in line:
        active |= _still_active(one, before.active, pool)
    over = tuple(key for key in before.active if key not in active)
    drawn = tuple(_drawings(before, active, block, line, pool))
    return Turn(AssignmentPlan(active, armed_in(line, active, pool)), drawn, over)


def armed_in(
    line: Sequence[InLine], active: Mapping[TaskKey, Address], pool: Pool
) -> frozenset[TaskKey]:
    """Return the tasks without a draw for which candidates are there, at the end of a block.

    Of tasks that start together the first stands for all.
    """
    taken = frozenset(active.values())
    return frozenset(
        one.task.key
        for one in line
        if one.task.key not in active and pool.suffices(one, one.out_of_reach(taken))
    )


def queue_of(line: Sequence[InLine], plan: AssignmentPlan, block: int) -> list[InLine]:
    """Return what waits in the queue at the end of `block`, in order.

    A task that was created in this very block is not in it yet: the next block may draw for it.
    """
    return [
        one
        for one in line
        if one.task.key not in plan.active and (one.tasks[-1].created_at or _NOWHERE).block < block
    ]


def _still_active(
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


def _drawings(
    before: AssignmentPlan,
    active: dict[TaskKey, Address],
    block: BlockRef,
    line: Sequence[InLine],
    pool: Pool,
) -> Iterable[Drawing]:
    """Draw for what was armed, in order; each draw takes its node away from those after it."""
    taken = frozenset(active.values())
    for one in line:
        # The quick question first: many may be armed for one node.
        if one.task.key not in before.armed or not pool.suffices(one, one.out_of_reach(taken)):
            continue
        seed = seed_for(block.hash, one.seed_name)
        choice = pool.draw(one, seed, one.out_of_reach(taken))
        for task, drawn in zip(one.tasks, choice.drawn, strict=True):
            active[task.key] = drawn.node
            taken |= {drawn.node}
            yield Drawing(task.key, block, seed, tuple(choice.candidates), drawn, choice.card)


def _turn(one: InLine) -> tuple[Fraction, Position, TaskKey]:
    return -one.value, one.tasks[-1].created_at or _NOWHERE, one.task.key
