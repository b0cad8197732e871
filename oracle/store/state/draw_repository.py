"""Stores the nodes that were drawn for tasks and planned to download models.

A draw is seeded by the hash of a block (docs/explanation/dispatch.md#the-draw). A planned download
is a request that a node will get to download a model for a task
(docs/explanation/dispatch.md#pre-download). Neither of them is a projection: a rebuild keeps the
rows, and a rewind undoes the changes of later blocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.store.encoding import (
    decode_hex,
    encode_hex,
    encode_wei,
    escape_nul,
    unescape_nul,
)
from oracle.store.tables.selection_tables import draw, planned_download

# This query is built once, because building it takes longer than running it.
_DRAWS_OF_NODE = (
    select(draw)
    .where(draw.c.node == bindparam("drawn_node"))
    .order_by(draw.c.seed_block.desc(), draw.c.task)
    .limit(bindparam("row_limit", type_=BigInteger))
)


@dataclass(frozen=True, slots=True)
class StoredDraw:
    """A draw of a node for a task.

    The draw depends on the hash of `seed_block` and on the state at the end of that block. The
    task and a candidate both existed at the end of the previous block. `voided_block` is the block
    at whose end the draw was no longer active (the task started, or its node became ineligible),
    or None while the draw is active. `seed_time` is the time of the seed block in unix seconds.
    `total_weight` is the sum of the weights of all candidates, or their number if all weights are
    0. `number_in_block` is the index (from 0) among the draws of the seed block; it matters
    because a drawn node is no candidate of later draws.
    """

    task: TaskKey
    seed_block: int
    seed_hash: Hash
    seed_time: int
    node: Address
    voided_block: int | None
    total_weight: int
    candidate_count: int
    number_in_block: int


class DrawRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, new_draw: StoredDraw) -> None:
        """Store a new draw, which chooses a node for a task.

        Raises:
            IntegrityError: another draw of the task is active, or has the same seed block.
        """
        row = (
            decode_hex(new_draw.task),
            new_draw.seed_block,
            decode_hex(new_draw.seed_hash),
            new_draw.seed_time,
            decode_hex(new_draw.node),
            new_draw.voided_block,
            encode_wei(new_draw.total_weight),
            new_draw.candidate_count,
            new_draw.number_in_block,
        )
        self._connection.execute(insert(draw).values(row))

    def void(self, task: TaskKey, block: int) -> None:
        """Void the task's active draw at the end of `block`.

        Raises:
            ValueError: the task has no active draw.
        """
        void_statement = update(draw).where(
            draw.c.task == decode_hex(task), draw.c.voided_block.is_(None)
        )
        if self._connection.execute(void_statement.values(voided_block=block)).rowcount != 1:
            raise ValueError(f"task {task} has no active draw")

    def list_active(self) -> list[StoredDraw]:
        """Return the active draws, oldest first."""
        return self._select_draws(draw.c.voided_block.is_(None))

    def list_voided(self, limit: int) -> list[StoredDraw]:
        """Return the most recently voided draws, newest first."""
        query = select(draw).where(draw.c.voided_block.is_not(None))
        order_columns = (draw.c.voided_block.desc(), draw.c.seed_block.desc(), draw.c.task)
        results = self._connection.execute(query.order_by(*order_columns).limit(limit))
        return [_decode_draw_row(row) for row in results]

    def list_newest(self, limit: int) -> list[StoredDraw]:
        """Return the newest draws of all tasks, newest first."""
        order_columns = draw.c.seed_block.desc(), draw.c.place.desc()
        query = select(draw).order_by(*order_columns).limit(limit)
        return [_decode_draw_row(row) for row in self._connection.execute(query)]

    def list_for_task(self, task: TaskKey) -> list[StoredDraw]:
        """Return all draws of the task, oldest first."""
        return self._select_draws(draw.c.task == decode_hex(task))

    def list_for_node(self, node: Address, limit: int) -> list[StoredDraw]:
        """Return the node's last draws, newest first."""
        parameters = {"drawn_node": decode_hex(node), "row_limit": limit}
        return list(map(_decode_draw_row, self._connection.execute(_DRAWS_OF_NODE, parameters)))

    def load_draws_before(self, block: int) -> tuple[list[StoredDraw], list[TaskKey]]:
        """Return the draws that were active before a block, and the tasks drawn with its hash."""
        voided_block = draw.c.voided_block
        active_draws = self._select_draws(
            (draw.c.seed_block < block) & (voided_block.is_(None) | (voided_block >= block))
        )
        return active_draws, [
            stored_draw.task for stored_draw in self._select_draws(draw.c.seed_block == block)
        ]

    def rollback_to(self, block: int) -> None:
        """Restore the draws to their state at the end of `block`."""
        self._connection.execute(delete(draw).where(draw.c.seed_block > block))
        reactivate_statement = update(draw).where(draw.c.voided_block > block)
        self._connection.execute(reactivate_statement.values(voided_block=None))

    def _select_draws(self, condition: ColumnElement[bool]) -> list[StoredDraw]:
        query = select(draw).where(condition).order_by(draw.c.seed_block, draw.c.task)
        return [_decode_draw_row(row) for row in self._connection.execute(query)]


def _decode_draw_row(row: Any) -> StoredDraw:  # noqa: ANN401  a row of any driver
    # The row is unpacked by position, because access by name would take most of the time.
    task, seed_block, seed_hash, seed_time, node, voided_block, *totals = row
    total_weight, candidate_count, number_in_block = totals
    return StoredDraw(
        task=TaskKey(encode_hex(task)),
        seed_block=seed_block,
        seed_hash=Hash(encode_hex(seed_hash)),
        seed_time=seed_time,
        node=Address(encode_hex(node)),
        voided_block=voided_block,
        total_weight=int.from_bytes(total_weight, "big"),
        candidate_count=candidate_count,
        number_in_block=number_in_block,
    )


@dataclass(frozen=True, slots=True)
class PlannedDownload:
    """A request to download a model, planned at the end of `block`.

    `time` is the block's time in unix seconds. The request was planned because `task` had started
    and too few available nodes had its `model`.
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
        """Store which nodes are asked to download a model, as planned at `block`.

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
        ordered_query = query.order_by(columns.block, columns.node, columns.model)
        return [
            PlannedDownload(
                task=TaskKey(encode_hex(row.task)),
                model=unescape_nul(row.model) or "",
                node=Address(encode_hex(row.node)),
                block=row.block,
                time=row.time,
            )
            for row in self._connection.execute(ordered_query)
        ]

    def delete_above(self, block: int) -> None:
        """Delete the downloads that were planned after `block`."""
        is_later = planned_download.c.block > block
        self._connection.execute(delete(planned_download).where(is_later))
