"""Which node was drawn for which task, and by which block's hash.

A record, no projection: rebuild leaves it, a rewind takes back what later blocks did to it.
See docs/explanation/dispatch.md#the-draw.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.store.encoding import hexed, raw
from oracle.store.tables.selection_tables import draw


@dataclass(frozen=True, slots=True)
class StoredDraw:
    """One draw of one task, by the hash of `seed_block`, with the state at its end.

    Task and candidate were both there at the end of the block before. `voided_block`: at its end
    the draw stood no more (the task began, or its node cannot have it); None: it stands.
    `seed_time`: of the seed block, unix seconds.
    """

    task: TaskKey
    seed_block: int
    seed_hash: Hash
    seed_time: int
    node: Address
    voided_block: int | None


class DrawRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, task: TaskKey, seed: BlockRef, node: Address) -> None:
        """Note who was drawn for a task, and by which block.

        Raises:
            IntegrityError: another draw of the task stands, or one was made by this very block.
        """
        row = (raw(task), seed.number, raw(seed.hash), seed.time, raw(node), None)
        self._connection.execute(insert(draw).values(row))

    def void(self, task: TaskKey, block: int) -> None:
        """Note that at the end of `block` the task's draw stood no more.

        Raises:
            ValueError: none stood.
        """
        over = update(draw).where(draw.c.task == raw(task), draw.c.voided_block.is_(None))
        if self._connection.execute(over.values(voided_block=block)).rowcount != 1:
            raise ValueError(f"no draw of task {task} stands")

    def active(self) -> list[StoredDraw]:
        """Return the draws that stand, the oldest first."""
        return self._where(draw.c.voided_block.is_(None))

    def over(self, limit: int) -> list[StoredDraw]:
        """Return the last draws that stand no more, the newest end first."""
        rows = select(draw).where(draw.c.voided_block.is_not(None))
        newest = (draw.c.voided_block.desc(), draw.c.seed_block.desc(), draw.c.task)
        found = self._connection.execute(rows.order_by(*newest).limit(limit))
        return [_draw_of(row) for row in found]

    def of_task(self, task: TaskKey) -> list[StoredDraw]:
        """Return every draw there was for the task, the oldest first."""
        return self._where(draw.c.task == raw(task))

    def of_node(self, node: Address, limit: int) -> list[StoredDraw]:
        """Return the last draws that drew this node, the newest first."""
        rows = select(draw).where(draw.c.node == raw(node))
        newest = (draw.c.seed_block.desc(), draw.c.task)
        return [
            _draw_of(row) for row in self._connection.execute(rows.order_by(*newest).limit(limit))
        ]

    def before(self, block: int) -> tuple[list[StoredDraw], list[TaskKey]]:
        """Return the draws that stood just before a block, and the tasks that it drew for."""
        over = draw.c.voided_block
        stood = self._where((draw.c.seed_block < block) & (over.is_(None) | (over >= block)))
        return stood, [one.task for one in self._where(draw.c.seed_block == block)]

    def take_back_above(self, block: int) -> None:
        """Make the record what it was at the end of `block`."""
        self._connection.execute(delete(draw).where(draw.c.seed_block > block))
        later = update(draw).where(draw.c.voided_block > block)
        self._connection.execute(later.values(voided_block=None))

    def _where(self, chosen: ColumnElement[bool]) -> list[StoredDraw]:
        rows = select(draw).where(chosen).order_by(draw.c.seed_block, draw.c.task)
        return [_draw_of(row) for row in self._connection.execute(rows)]


def _draw_of(row: Any) -> StoredDraw:  # noqa: ANN401  a row of any driver
    return StoredDraw(
        task=TaskKey(hexed(row.task)),
        seed_block=row.seed_block,
        seed_hash=Hash(hexed(row.seed_hash)),
        seed_time=row.seed_time,
        node=Address(hexed(row.node)),
        voided_block=row.voided_block,
    )
