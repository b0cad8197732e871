"""Caches the members' GPU models, and how fast each model answered recently, for one block."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, permutations
from statistics import median_low
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.state import Membership, Node
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Number of the newest groups over which GPUs are compared.
MAX_GROUPS = 1_000


class Gpu(NamedTuple):
    """A GPU model, and its video memory in GB if that is known."""

    name: str
    vram: int | None


class GpuComparison(NamedTuple):
    """A comparison of the answer times of two GPU models, in groups that both answered.

    `time_ratio` is in units of 10^-18. It is the median over all pairs of answers in these groups,
    each pair giving the GPU's time divided by the other GPU's time.
    """

    shared_groups: int
    time_ratio: int


class GpuTable(NamedTuple):
    """The number of members by GPU model, and comparisons of GPU pairs by `(other, gpu)`."""

    nodes_by_gpu: Mapping[Gpu, int]
    comparisons: Mapping[tuple[Gpu, Gpu], GpuComparison]


def get_node_gpu(node: Node) -> Gpu | None:
    return None if node.gpu_name is None else Gpu(node.gpu_name, node.gpu_vram)


class GpuTableCache:
    """A thread-safe cache of the newest `GpuTable`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._table = GpuTable({}, {})

    def load_gpu_table(
        self,
        uow: UnitOfWork,
        cursor: Cursor,
        nodes: Mapping[Address, Node],
        nodes_by_gpu: Mapping[Gpu, int],
    ) -> GpuTable:
        """Return the GPU table as of the cursor of this snapshot.

        `nodes` are all nodes as of the cursor.
        """
        with self._lock:
            if self._epoch != cursor.epoch:
                answer_times_by_group = uow.results.list_newest_answer_times(MAX_GROUPS)
                self._table = GpuTable(nodes_by_gpu, compare_gpus(answer_times_by_group, nodes))
                self._epoch = cursor.epoch
            return self._table


def count_members_by_gpu(nodes: Iterable[Node]) -> Counter[Gpu]:
    """Count the members with each GPU model, without members whose GPU is unknown."""
    return Counter(
        Gpu(node.gpu_name, node.gpu_vram)
        for node in nodes
        if node.membership is Membership.MEMBER and node.gpu_name is not None
    )


def compare_gpus(
    groups: Sequence[Sequence[tuple[Address, int]]], nodes: Mapping[Address, Node]
) -> dict[tuple[Gpu, Gpu], GpuComparison]:
    """Compare the answer times of each pair of GPU models, in groups that both answered.

    Each group is a list of its ranked answers, and each answer is a pair of a node and its time in
    seconds. A node counts with the GPU that it has now.
    """
    ratios_by_pair: dict[tuple[Gpu, Gpu], list[list[int]]] = defaultdict(list)
    for answers in groups:
        times_by_gpu = defaultdict(list)
        for address, elapsed in answers:
            gpu = get_node_gpu(nodes[address]) if address in nodes else None
            if gpu is not None:
                times_by_gpu[gpu].append(elapsed)
        for other_gpu, gpu in permutations(times_by_gpu, 2):
            ratios_by_pair[other_gpu, gpu].append(
                [
                    elapsed * UNIT // other_elapsed
                    for elapsed in times_by_gpu[gpu]
                    for other_elapsed in times_by_gpu[other_gpu]
                ]
            )
    return {
        pair: GpuComparison(len(ratios), median_low(chain.from_iterable(ratios)))
        for pair, ratios in ratios_by_pair.items()
    }
