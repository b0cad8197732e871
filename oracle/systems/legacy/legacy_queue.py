"""Tasks that wait for three nodes: their groups, and which a freed node brings.

Pure: what waits is added and taken away by the caller.
See docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import merge
from itertools import islice
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.crynux_queue import QueuedTask
from oracle.systems.crynux.requirements import requirement_of
from oracle.systems.legacy.grading import TRIO, is_gpt
from oracle.systems.legacy.legacy_eligibility import misfit_of
from oracle.systems.legacy.trio_selection import Combination, combinations
from oracle.systems.weighted_draw import draw

# A task never seen being created came before all others.
_LONG_AGO = Position(-1, -1, -1)


class TaskGroup(NamedTuple):
    """A group of the queue: GPT tasks or any others, by the VRAM in GB that they ask for."""

    gpt: bool
    vram: int

    @property
    def text(self) -> str:
        """Return it as the figure has it: `GPT/24GB`."""
        return f"{'GPT' if self.gpt else 'SD'}/{self.vram}GB"


@dataclass(frozen=True, slots=True)
class TrioTask:
    """What a combination can take out of a group: its best task that three of the nodes can run.

    `partners`: those of the combination that can, two or more.
    """

    group: TaskGroup
    waiting: QueuedTask
    combination: Combination
    partners: Sequence[Node]

    def trio(self, weights: Callable[[Address], int], seed: bytes) -> list[Address]:
        """Return the freed node and two partners, drawn by weight.

        See docs/reference/scoring-rules.md#the-draw.

        Raises:
            ValueError: a negative weight, a seed that has not 32 bytes.
        """
        candidates = [(node.address, weights(node.address)) for node in self.partners]
        drawn = draw(candidates, seed, TRIO - 1)
        return [self.combination.freed.address, *(each.node for each in drawn)]


def group_of(task: Task) -> TaskGroup:
    """Return the group that a task waits in."""
    return TaskGroup(is_gpt(task), requirement_of(task).vram)


class LegacyQueue:
    """The waiting tasks; `value_of` is what a task is worth, in wei a second or otherwise."""

    __slots__ = ("_entries", "_groups", "_value_of")

    def __init__(self, value_of: Callable[[Task], Fraction], tasks: Iterable[Task] = ()) -> None:
        self._value_of = value_of
        self._entries: dict[TaskKey, QueuedTask] = {}
        self._groups: dict[TaskGroup, list[QueuedTask]] = {}
        for task in tasks:
            self.add(task)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, task: Task) -> None:
        """Put a task into its group; one that is there already is put anew."""
        self.discard(task.key)
        created = task.created_at or _LONG_AGO
        entry = QueuedTask(-self._value_of(task), created, task.key, task)
        self._entries[task.key] = entry
        insort(self._groups.setdefault(group_of(task), []), entry, key=_order)

    def discard(self, key: TaskKey) -> None:
        """Take a task out, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        entries = self._groups[group_of(entry.task)]
        del entries[bisect_left(entries, _order(entry), key=_order)]
        if not entries:
            del self._groups[group_of(entry.task)]

    def groups(self) -> dict[TaskGroup, Sequence[QueuedTask]]:
        """Return every group with its tasks, the most valuable first; SD groups before GPT."""
        return {name: tuple(self._groups[name]) for name in sorted(self._groups)}

    def in_order(self) -> Iterator[QueuedTask]:
        """Go through all groups at once, the most valuable task first, then the older."""
        return merge(*self._groups.values(), key=_order)

    def offers_for(self, freed: Node, available: Iterable[Node]) -> list[TrioTask]:
        """Return what the freed node could run with others, best first, one for each group.

        A trio of one card takes any group up to its VRAM, another one SD groups only. Where both
        could take the same task, those of one card do.
        """
        found: dict[TaskGroup, TrioTask] = {}
        for combination in combinations(freed, available):
            for group, entries in self._groups.items():
                if group.vram > combination.vram or (group.gpt and combination.card is None):
                    continue
                offer = _first_offer(group, entries, combination)
                known = found.get(group)
                if offer and (known is None or _by_task(offer) < _by_task(known)):
                    found[group] = offer
        return sorted(found.values(), key=_by_task)

    def next_for(self, freed: Node, available: Iterable[Node]) -> TrioTask | None:
        """Return the most valuable offer, of equal ones the older; None: nothing can be run."""
        return next(iter(self.offers_for(freed, available)), None)

    def overflow(self, capacity: int) -> list[QueuedTask]:
        """Return what has to be dropped so that `capacity` are left: the least valuable first.

        Of equal ones the newest. They stay in until discarded; the largest size is that of
        `crynux.task_queue.capacity_for`.
        """
        excess = max(0, len(self) - capacity)
        tails = map(reversed, self._groups.values())
        return list(islice(merge(*tails, key=_order, reverse=True), excess))


def _first_offer(
    group: TaskGroup, entries: Sequence[QueuedTask], combination: Combination
) -> TrioTask | None:
    for entry in entries:
        wanted = requirement_of(entry.task)
        if misfit_of(combination.freed, wanted, gpt=group.gpt) is not None:
            continue
        able = [
            node for node in combination.partners if misfit_of(node, wanted, gpt=group.gpt) is None
        ]
        if len(able) >= TRIO - 1:
            return TrioTask(group, entry, combination, able)
    return None


def _order(entry: QueuedTask) -> tuple[Fraction, Position, TaskKey]:
    return entry[:3]


def _by_task(offer: TrioTask) -> tuple[Fraction, Position, TaskKey]:
    return _order(offer.waiting)
