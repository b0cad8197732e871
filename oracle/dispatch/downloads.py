"""Plans model downloads when tasks start, and finds planned downloads that are still due.

Downloads are planned at the end of every block and, like the draws, depend only on the chain. A
planned download is due until its request is on chain, but for at most `PLANNED_DOWNLOAD_SECONDS`.
See docs/explanation/dispatch.md#pre-download.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import DownloadRequest, Membership, Node, Task
from oracle.store.database import UnitOfWork
from oracle.store.state.draw_repository import PlannedDownload
from oracle.systems.crynux.predownload import has_scarce_model, plan_predownloads
from oracle.systems.policy import PolicyInput

# A planned download expires after this many seconds of block time, because the model may no longer
# be needed. The network gives nodes the same time for a download.
PLANNED_DOWNLOAD_SECONDS = 1_800


def plan_model_downloads(
    uow: UnitOfWork, drawer: BlockDrawer, block: BlockRef, ended_draws: Sequence[TaskKey]
) -> None:
    """Plan and store model downloads for the tasks that started in `block`.

    `drawer` must be at the end of the block, and `ended_draws` are the tasks whose draws ended in
    the block.
    """
    spread, weighting = drawer.settings.spread, drawer.settings.weighting
    for task in _find_started_tasks(uow, block, ended_draws) if spread.per_day else ():
        free_nodes = drawer.iter_free_nodes(block.time)
        if has_scarce_model(task.models, free_nodes, spread.scarce_below):
            planned_downloads = uow.downloads.list_since(block.time - PLANNED_DOWNLOAD_SECONDS)
            network = drawer.build_policy_input(block.time)
            running_nodes = frozenset(() if task.node is None else (task.node,))
            network_after = replace(
                network,
                nodes=simulate_planned_downloads(network, planned_downloads),
                reserved=running_nodes,
            )
            for predownload in plan_predownloads(task, network_after, weighting, spread):
                uow.downloads.add(task.key, predownload.model, predownload.nodes, block)


def find_pending_downloads(uow: UnitOfWork) -> list[PlannedDownload]:
    """Return the planned downloads that are due at the cursor, oldest first.

    A request is due if its node is a member, lacks the model, and has received no request for the
    model since the download was planned.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return []
    planned_downloads = uow.downloads.list_since(cursor.time - PLANNED_DOWNLOAD_SECONDS)
    nodes = uow.nodes.get_many({download.node for download in planned_downloads})
    return [
        download
        for download in planned_downloads
        if _is_download_pending(download, nodes.get(download.node))
    ]


def simulate_planned_downloads(
    network: PolicyInput, planned_downloads: Iterable[PlannedDownload]
) -> Mapping[Address, Node]:
    """Return the nodes as if all planned downloads had already been requested."""
    nodes = dict(network.nodes)
    for download in planned_downloads:
        node = nodes.get(download.node)
        if node is not None and _is_download_pending(download, node):
            request = DownloadRequest(
                download.model, download.time, download.time + PLANNED_DOWNLOAD_SECONDS
            )
            nodes[download.node] = replace(node, downloads=(*node.downloads, request))
    return nodes


def _is_download_pending(planned_download: PlannedDownload, node: Node | None) -> bool:
    return (
        node is not None
        and node.membership is Membership.MEMBER
        and planned_download.model not in node.models
        and not any(
            request.model == planned_download.model
            and request.requested_at >= planned_download.time
            for request in node.downloads
        )
    )


def _find_started_tasks(
    uow: UnitOfWork, block: BlockRef, ended_draws: Sequence[TaskKey]
) -> list[Task]:
    """Return the tasks among `ended_draws` that started in the block, in order of start."""
    positions_with_tasks = [
        (started_task.started_at, started_task)
        for started_task in uow.tasks.get_many(ended_draws).values()
        if started_task.started_at is not None and started_task.started_at.block == block.number
    ]
    return [task for _, task in sorted(positions_with_tasks, key=lambda start: start[0])]
