"""Plans model downloads as tasks start, and finds the planned ones that are still due.

Downloads are planned at the end of every block, like the draws, as a function of the chain. A plan
is kept until its request is on-chain, and no longer than `PLANNED_DOWNLOAD_SECONDS`. See
docs/explanation/dispatch.md#pre-download.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state.node import DownloadRequest, Membership, Node
from oracle.domain.state.task import Task
from oracle.store.database import UnitOfWork
from oracle.store.state.download_repository import PlannedDownload
from oracle.systems.crynux.predownload import is_any_scarce, predownloads
from oracle.systems.policy import PolicyInput

# Lifetime of a planned download, in block time, because later the model may no longer be needed.
# The network gives a node the same time for a download.
PLANNED_SECONDS = 1_800


def plan_downloads(
    uow: UnitOfWork, drawer: BlockDrawer, block: BlockRef, over: Sequence[TaskKey]
) -> None:
    """Store the downloads to request for the models of the tasks that started in `block`.

    `drawer` is at the end of the block; `ended_draws` are the tasks whose draws ended in it.
    """
    spread, weighting = drawer.settings.spread, drawer.settings.weighting
    for task in _started(uow, block, over) if spread.per_day else ():
        free = drawer.free_at(block.time)
        if is_any_scarce(task.models, free, spread.scarce_below):
            planned = uow.downloads.since(block.time - PLANNED_SECONDS)
            network = drawer.network_at(block.time)
            runs = frozenset(() if task.node is None else (task.node,))
            after = replace(network, nodes=with_planned(network, planned), taken=runs)
            for one in predownloads(task, after, weighting, spread):
                uow.downloads.add(task.key, one.model, one.nodes, block)


def wanted_downloads(uow: UnitOfWork) -> list[PlannedDownload]:
    """Return the download requests that are due at the cursor, the oldest first.

    The node is a member that lacks the model and has not been asked for it since.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return []
    planned = uow.downloads.since(cursor.time - PLANNED_SECONDS)
    nodes = uow.nodes.named({each.node for each in planned})
    return [each for each in planned if _is_wanted(each, nodes.get(each.node))]


def with_planned(
    network: PolicyInput, planned: Iterable[PlannedDownload]
) -> Mapping[Address, Node]:
    """Return the nodes as if the planned downloads had been requested already."""
    nodes = dict(network.nodes)
    for each in planned:
        node = nodes.get(each.node)
        if node is not None and _is_wanted(each, node):
            request = DownloadRequest(each.model, each.time, each.time + PLANNED_SECONDS)
            nodes[each.node] = replace(node, downloads=(*node.downloads, request))
    return nodes


def _is_wanted(planned: PlannedDownload, node: Node | None) -> bool:
    return (
        node is not None
        and node.membership is Membership.MEMBER
        and planned.model not in node.models
        and not any(
            asked.model == planned.model and asked.asked_at >= planned.time
            for asked in node.downloads
        )
    )


def _started(uow: UnitOfWork, block: BlockRef, over: Sequence[TaskKey]) -> list[Task]:
    """Return those of the tasks that started in the block, in the order of their starts."""
    places = [
        (each.started_at, each)
        for each in uow.tasks.named(over).values()
        if each.started_at is not None and each.started_at.block == block.number
    ]
    return [task for _, task in sorted(places, key=lambda place: place[0])]
