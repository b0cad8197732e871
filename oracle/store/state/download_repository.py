"""Planned downloads: the node to be asked for a model, and the task that needs it.

A record, not a projection, like the draws: a rebuild keeps it, a rewind undoes the changes of
later blocks. See docs/explanation/dispatch.md#pre-download.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.store.encoding import as_said, hexed, plain, raw
from oracle.store.tables.selection_tables import planned_download


@dataclass(frozen=True, slots=True)
class PlannedDownload:
    """A request planned at the end of `block`, whose `time` is in seconds.

    `task` had just started, and too few available nodes had its `model`.
    """

    task: TaskKey
    model: str
    node: Address
    block: int
    time: int


class DownloadRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, task: TaskKey, model: str, nodes: Iterable[Address], block: BlockRef) -> None:
        """Record the nodes to be asked for a model, as of the end of a block.

        Raises:
            IntegrityError: a request of a node for this model was planned by the same block
                already.
        """
        for node in nodes:
            row = (block.number, raw(node), plain(model), raw(task), block.time)
            self._connection.execute(insert(planned_download).values(row))

    def since(self, time: int) -> list[PlannedDownload]:
        """Return the downloads planned after a block time, oldest first."""
        columns = planned_download.c
        chosen = select(planned_download).where(columns.time > time)
        ordered = chosen.order_by(columns.block, columns.node, columns.model)
        return [
            PlannedDownload(
                task=TaskKey(hexed(row.task)),
                model=as_said(row.model) or "",
                node=Address(hexed(row.node)),
                block=row.block,
                time=row.time,
            )
            for row in self._connection.execute(ordered)
        ]

    def take_back_above(self, block: int) -> None:
        """Restore the record as of the end of `block`."""
        later = planned_download.c.block > block
        self._connection.execute(delete(planned_download).where(later))
