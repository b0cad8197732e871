"""Planned downloads: which node will get a download request for a model, and for which task.

Like draws, planned downloads are not a projection: a rebuild keeps them, and a rewind deletes
those of later blocks. See docs/explanation/dispatch.md#pre-download.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.store.encoding import decode_hex, encode_hex, escape_nul, unescape_nul
from oracle.store.tables.selection_tables import planned_download


@dataclass(frozen=True, slots=True)
class PlannedDownload:
    """A download request planned at the end of `block`; `time` is the block's time in seconds.

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
        """Store the nodes that will get a download request for a model, as planned at a block.

        Raises:
            IntegrityError: a request to one of the nodes for this model was already planned at
                the same block.
        """
        for node in nodes:
            row = (block.number, decode_hex(node), escape_nul(model), decode_hex(task), block.time)
            self._connection.execute(insert(planned_download).values(row))

    def list_since(self, time: int) -> list[PlannedDownload]:
        """Return the downloads planned after a block time, oldest first."""
        columns = planned_download.c
        query = select(planned_download).where(columns.time > time)
        in_order = query.order_by(columns.block, columns.node, columns.model)
        return [
            PlannedDownload(
                task=TaskKey(encode_hex(row.task)),
                model=unescape_nul(row.model) or "",
                node=Address(encode_hex(row.node)),
                block=row.block,
                time=row.time,
            )
            for row in self._connection.execute(in_order)
        ]

    def undo_above(self, block: int) -> None:
        """Delete the downloads that were planned after `block`."""
        is_later = planned_download.c.block > block
        self._connection.execute(delete(planned_download).where(is_later))
