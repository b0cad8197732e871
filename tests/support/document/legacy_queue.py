"""The queue of docs/reference/sources.md#crynux-dispatching-of-2024, built like its figure.

Tasks wait for three nodes; a freed node is combined with two other nodes.
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
    GpuGroup,
    find_gpu_group,
    find_hardware_misfit_reason,
)
from oracle.systems.legacy.trio_line import get_legacy_queue_group
from oracle.systems.task_queue import QueueGroup, QueueItem
from oracle.systems.weighted_draw import draw_nodes
from tests.support.document.crynux_queue import QueuedTask


@dataclass(frozen=True, slots=True)
class Combination:
    """A freed node with any two of its `partners`, which are ordered by address.

    `vram`: the minimum video memory of all three in GB. `gpu`: the GPU of all three, or None if
    only the video memory is compared.
    """

    freed: Node
    partners: Sequence[Node]
    vram: int
    gpu: GpuGroup | None


def list_combinations(freed: Node, available: Iterable[Node]) -> list[Combination]:
    """Return a freed node's combinations: with nodes of its GPU, and with the most VRAM.

    A combination is missing if too few nodes are available. Partners that fit equally well are all
    included; a draw decides which of them run the task. A node with unknown video memory counts as
    0.
    """
    other_nodes = [node for node in available if node.address != freed.address]
    other_nodes.sort(key=lambda node: node.address)
    candidates = [
        _find_gpu_combination(freed, other_nodes),
        _find_largest_vram_combination(freed, other_nodes),
    ]
    return [candidate for candidate in candidates if candidate is not None]


def _find_gpu_combination(freed: Node, other_nodes: Sequence[Node]) -> Combination | None:
    gpu = find_gpu_group(freed)
    same = [node for node in other_nodes if gpu is not None and find_gpu_group(node) == gpu]
    return Combination(freed, same, freed.gpu_vram or 0, gpu) if _has_three_nodes(same) else None


def _find_largest_vram_combination(freed: Node, other_nodes: Sequence[Node]) -> Combination | None:
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
    """The best task of a group that three nodes of a combination can run.

    `partners`: the two or more partners that can run the task.
    """

    group: QueueGroup
    waiting: QueuedTask
    combination: Combination
    partners: Sequence[Node]

    def trio(self, weights: Callable[[Address], int], seed: bytes) -> list[Address]:
        """Return the freed node and two partners, drawn by weight.

        See docs/reference/scoring-rules.md#the-draw.

        Raises:
            ValueError: a weight is negative, or the seed does not have 32 bytes.
        """
        candidates = [(node.address, weights(node.address)) for node in self.partners]
        drawn = draw_nodes(candidates, seed, TRIO_SIZE - 1)
        return [self.combination.freed.address, *(draw.node for draw in drawn)]


def merge_group_into_task(trio: QueueItem) -> Task:
    """Return a group of three as the legacy queue counts it: one task with the sum of the fees.

    Its age is that of its last task.
    """
    fee = sum(task.fee or 0 for task in trio.tasks)
    return replace(trio.task, fee=fee, created_at=trio.tasks[-1].created_at)


class LegacyQueue:
    """The waiting tasks; `value_of` returns a task's value, for example in wei per second."""

    __slots__ = ("_entries", "_groups", "_value_of")

    def __init__(self, value_of: Callable[[Task], Fraction], tasks: Iterable[Task] = ()) -> None:
        self._value_of = value_of
        self._entries: dict[TaskKey, QueuedTask] = {}
        self._groups: dict[QueueGroup, list[QueuedTask]] = {}
        for task in tasks:
            self.add(task)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, task: Task) -> None:
        """Add a task to its group, or replace the task if it is already there."""
        self.discard(task.key)
        created = task.created_at or BEFORE_EVERYTHING
        entry = QueuedTask(-self._value_of(task), created, task.key, task)
        self._entries[task.key] = entry
        insort(self._groups.setdefault(get_legacy_queue_group(task), []), entry, key=_get_sort_key)

    def discard(self, key: TaskKey) -> None:
        """Remove a task if it is in the queue."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        entries = self._groups[get_legacy_queue_group(entry.task)]
        del entries[bisect_left(entries, _get_sort_key(entry), key=_get_sort_key)]
        if not entries:
            del self._groups[get_legacy_queue_group(entry.task)]

    def groups(self) -> dict[QueueGroup, Sequence[QueuedTask]]:
        """Return each group with its tasks, the most valuable first.

        SD groups before GPT groups.
        """
        return {name: tuple(self._groups[name]) for name in sorted(self._groups)}

    def in_order(self) -> Iterator[QueuedTask]:
        """Yield the tasks of all groups, the most valuable first, then the older."""
        return merge(*self._groups.values(), key=_get_sort_key)

    def offers_for(self, freed: Node, available: Iterable[Node]) -> list[TrioTask]:
        """Return the best task of each group that the freed node can run with others, best first.

        A trio with one GPU takes any group up to its VRAM, another trio only SD groups. If both
        trios could take the same task, the one with one GPU does.
        """
        offer_by_group: dict[QueueGroup, TrioTask] = {}
        for combination in list_combinations(freed, available):
            for group, entries in self._groups.items():
                needs_equal_gpus = group.kind == "gpt"
                if group.vram > combination.vram or (needs_equal_gpus and combination.gpu is None):
                    continue
                offer = _find_first_offer(group, entries, combination)
                best_offer = offer_by_group.get(group)
                if offer and (
                    best_offer is None
                    or _get_task_sort_key(offer) < _get_task_sort_key(best_offer)
                ):
                    offer_by_group[group] = offer
        return sorted(offer_by_group.values(), key=_get_task_sort_key)

    def next_for(self, freed: Node, available: Iterable[Node]) -> TrioTask | None:
        """Return the most valuable task that the freed node can run with others, or None.

        Of equal tasks, the older one is returned.
        """
        return next(iter(self.offers_for(freed, available)), None)

    def overflow(self, capacity: int) -> list[QueuedTask]:
        """Return the tasks to drop until `capacity` are left, the least valuable first.

        Of equal tasks the newest is dropped. The tasks stay in the queue until they are discarded.
        The maximum size is `oracle.systems.task_queue.compute_queue_capacity`.
        """
        excess = max(0, len(self) - capacity)
        tails = map(reversed, self._groups.values())
        return list(islice(merge(*tails, key=_get_sort_key, reverse=True), excess))


def format_group(group: QueueGroup) -> str:
    """Return the name of the group as in the source's figure, such as `GPT/24GB`."""
    return f"{group.kind}/{group.vram}GB".upper()


def _find_first_offer(
    group: QueueGroup, entries: Sequence[QueuedTask], combination: Combination
) -> TrioTask | None:
    is_gpt = group.kind == "gpt"
    for entry in entries:
        requirement = build_requirement(entry.task)
        if (
            find_hardware_misfit_reason(combination.freed, requirement, is_gpt_part=is_gpt)
            is not None
        ):
            continue
        able = [
            node
            for node in combination.partners
            if find_hardware_misfit_reason(node, requirement, is_gpt_part=is_gpt) is None
        ]
        if len(able) >= TRIO_SIZE - 1:
            return TrioTask(group, entry, combination, able)
    return None


def _get_sort_key(entry: QueuedTask) -> tuple[Fraction, Position, TaskKey]:
    return entry[:3]


def _get_task_sort_key(offer: TrioTask) -> tuple[Fraction, Position, TaskKey]:
    return _get_sort_key(offer.waiting)
