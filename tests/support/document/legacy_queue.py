"""The queue of docs/reference/sources.md#crynux-dispatching-of-2024, built as its figure draws it.

Tasks wait for three nodes; a freed node is combined with two others.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import merge
from itertools import islice

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Node, Task
from oracle.systems.crynux.requirements import build_requirement
from oracle.systems.legacy.legacy_eligibility import (
    TRIO_SIZE,
    CardGroup,
    get_card_group,
    hardware_misfit_reason,
)
from oracle.systems.legacy.trio_line import TaskGroup, get_task_group
from oracle.systems.task_queue import QueueItem
from oracle.systems.weighted_draw import draw_nodes
from tests.support.document.crynux_queue import QueuedTask


@dataclass(frozen=True, slots=True)
class Combination:
    """A freed node with any two of its `partners`, by address.

    `vram`: what all three have at least, in GB. `card`: the card of all three, None where only
    the video memory was looked at.
    """

    freed: Node
    partners: Sequence[Node]
    vram: int
    card: CardGroup | None


def combinations(freed: Node, available: Iterable[Node]) -> list[Combination]:
    """Return the same-card trio of a freed node, and that with the largest minimum of VRAM.

    Neither where too few nodes are available. Partners that do equally well all stand in it: who
    of them runs the task is drawn. Of a node whose video memory nobody said it counts as 0.
    """
    other_nodes = [node for node in available if node.address != freed.address]
    other_nodes.sort(key=lambda node: node.address)
    candidates = [_of_one_card(freed, other_nodes), _of_largest_vram(freed, other_nodes)]
    return [candidate for candidate in candidates if candidate is not None]


def _of_one_card(freed: Node, other_nodes: Sequence[Node]) -> Combination | None:
    card = get_card_group(freed)
    same = [node for node in other_nodes if card is not None and get_card_group(node) == card]
    return Combination(freed, same, freed.gpu_vram or 0, card) if _has_three_nodes(same) else None


def _of_largest_vram(freed: Node, other_nodes: Sequence[Node]) -> Combination | None:
    if not _has_three_nodes(other_nodes):
        return None
    largest = sorted((node.gpu_vram or 0 for node in other_nodes), reverse=True)
    min_vram_gb = min(freed.gpu_vram or 0, largest[TRIO_SIZE - 2])
    partners = [node for node in other_nodes if (node.gpu_vram or 0) >= min_vram_gb]
    return Combination(freed, partners, min_vram_gb, None)


def _has_three_nodes(partners: Sequence[Node]) -> bool:
    return len(partners) >= TRIO_SIZE - 1


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
        drawn = draw_nodes(candidates, seed, TRIO_SIZE - 1)
        return [self.combination.freed.address, *(draw.node for draw in drawn)]


def as_one_task(trio: QueueItem) -> Task:
    """Return a group of three as the legacy queue counts it: one task, of all its fees.

    It is as old as its last task.
    """
    fee = sum(task.fee or 0 for task in trio.tasks)
    return replace(trio.task, fee=fee, created_at=trio.tasks[-1].created_at)


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
        created = task.created_at or BEFORE_EVERYTHING
        entry = QueuedTask(-self._value_of(task), created, task.key, task)
        self._entries[task.key] = entry
        insort(self._groups.setdefault(get_task_group(task), []), entry, key=_order)

    def discard(self, key: TaskKey) -> None:
        """Take a task out, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        entries = self._groups[get_task_group(entry.task)]
        del entries[bisect_left(entries, _order(entry), key=_order)]
        if not entries:
            del self._groups[get_task_group(entry.task)]

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
        offer_by_group: dict[TaskGroup, TrioTask] = {}
        for combination in combinations(freed, available):
            for group, entries in self._groups.items():
                if group.vram > combination.vram or (group.gpt and combination.card is None):
                    continue
                offer = _first_offer(group, entries, combination)
                best_offer = offer_by_group.get(group)
                if offer and (best_offer is None or _by_task(offer) < _by_task(best_offer)):
                    offer_by_group[group] = offer
        return sorted(offer_by_group.values(), key=_by_task)

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
        requirement = build_requirement(entry.task)
        if hardware_misfit_reason(combination.freed, requirement, gpt=group.gpt) is not None:
            continue
        able = [
            node
            for node in combination.partners
            if hardware_misfit_reason(node, requirement, gpt=group.gpt) is None
        ]
        if len(able) >= TRIO_SIZE - 1:
            return TrioTask(group, entry, combination, able)
    return None


def _order(entry: QueuedTask) -> tuple[Fraction, Position, TaskKey]:
    return entry[:3]


def _by_task(offer: TrioTask) -> tuple[Fraction, Position, TaskKey]:
    return _order(offer.waiting)
