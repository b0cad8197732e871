"""Snapshots of the folded state at final blocks, by block.

See docs/explanation/storage.md#state-snapshots.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from oracle.store.bulk import upsert_rows
from oracle.store.tables.chain_tables import state_snapshot

# Max total size of all snapshots, and how many of the newest are always kept.
MAX_TOTAL_BYTES = 256 * 2**20
MIN_KEPT_SNAPSHOTS = 8


class StateSnapshot(NamedTuple):
    """The packed state after a block; `logs` is the number of logs folded up to it."""

    block: int
    logs: int
    body: bytes


class SnapshotInfo(NamedTuple):
    """Block and size of a snapshot, without its body; `size_bytes` is that of the body."""

    block: int
    logs: int
    size_bytes: int


class SnapshotRepository:
    """State snapshots; `made_by` is the hash of the fold, profile, rules and settings used."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def iterate_up_to(self, block: int, made_by: bytes) -> Iterator[StateSnapshot]:
        """Yield the intact snapshots at or below a block, newest first."""
        columns = state_snapshot.c
        query = select(state_snapshot).order_by(columns.block.desc()).limit(1)
        below = block + 1
        while True:
            is_match = (columns.block < below) & (columns.made_by == made_by)
            row = self._connection.execute(query.where(is_match)).one_or_none()
            if row is None:
                return
            below = row.block
            if sha256(row.body).digest() == row.checksum:
                yield StateSnapshot(row.block, row.logs, row.body)

    def find_newest(self, block: int, made_by: bytes) -> tuple[int, int] | None:
        """Return block and log count of the newest snapshot at or below a block, or None."""
        columns = state_snapshot.c
        query = select(columns.block, columns.logs).where(
            columns.block <= block, columns.made_by == made_by
        )
        row = self._connection.execute(query.order_by(columns.block.desc()).limit(1)).first()
        return None if row is None else (row[0], row[1])

    def save(self, snapshot: StateSnapshot, made_by: bytes) -> None:
        """Store a snapshot; delete those of another `made_by`, and surplus ones.

        See `choose_snapshots_to_delete`.
        """
        checksum = sha256(snapshot.body).digest()
        block, logs, body = snapshot
        upsert_rows(self._connection, state_snapshot, [(block, logs, made_by, body, checksum)])
        columns = state_snapshot.c
        delete_foreign = delete(state_snapshot).where(columns.made_by != made_by)
        self._connection.execute(delete_foreign)
        size = func.length(columns.body)
        rows = self._connection.execute(
            select(columns.block, columns.logs, size).order_by(columns.block)
        )
        surplus_blocks = choose_snapshots_to_delete(
            [SnapshotInfo(*row) for row in rows.all()], MAX_TOTAL_BYTES
        )
        if surplus_blocks:
            self._connection.execute(
                delete(state_snapshot).where(columns.block.in_(surplus_blocks))
            )

    def delete_above(self, number: int) -> None:
        """Delete the snapshots above block `number`; part of every rollback."""
        self._connection.execute(delete(state_snapshot).where(state_snapshot.c.block > number))

    def count_snapshots_and_bytes(self) -> tuple[int, int]:
        """Return the number of snapshots and their total bytes."""
        size = func.coalesce(func.sum(func.length(state_snapshot.c.body)), 0)
        count_query = select(func.count(), size).select_from(state_snapshot)
        snapshots, total_bytes = self._connection.execute(count_query).one()
        return int(snapshots), int(total_bytes)


def choose_snapshots_to_delete(snapshots: Sequence[SnapshotInfo], max_bytes: int) -> list[int]:
    """Return the blocks of the snapshots to delete so that the others fit into `max_bytes`.

    The snapshot whose removal leaves the smallest gap for its age is deleted first, so that recent
    snapshots are dense and old ones sparse.
    """
    kept, surplus_blocks = list(snapshots), list[int]()
    newest_logs = kept[-1].logs if kept else 0
    while (
        len(kept) > MIN_KEPT_SNAPSHOTS
        and sum(snapshot.size_bytes for snapshot in kept) > max_bytes
    ):
        candidates = range(len(kept) - MIN_KEPT_SNAPSHOTS)

        def weight(index: int) -> float:
            previous_logs = kept[index - 1].logs if index else 0
            gap = kept[index + 1].logs - previous_logs
            return gap / max(1, newest_logs - kept[index].logs)

        surplus_index = min(candidates, key=weight)
        surplus_blocks.append(kept.pop(surplus_index).block)
    return surplus_blocks
