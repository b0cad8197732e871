"""Stores snapshots of the folded state, as table rows in compressed msgpack.

Snapshots are of the state at final blocks. See docs/explanation/storage.md#state-snapshots.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec.msgpack import decode, encode
from sqlalchemy import Connection, delete, func, select

from oracle.domain.blocks import Position
from oracle.domain.incidents import IncidentDetector
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.state import LastEvent, Node, OpenGroup, Task
from oracle.store.bulk import upsert_rows
from oracle.store.state.cursor_repository import encode_last_event_row
from oracle.store.state.group_repository import decode_group_values, encode_group_row
from oracle.store.state.incident_repository import (
    decode_incident_row,
    decode_minute_row,
    encode_incident_row,
    encode_minute_row,
)
from oracle.store.state.node_repository import decode_node_row, encode_node_row
from oracle.store.state.round_rows import decode_kick_row, encode_kick_row
from oracle.store.state.task_repository import decode_task_row, encode_task_row
from oracle.store.tables.chain_tables import state_snapshot

# Maximum total size of the snapshots, and number of the newest that are kept even if they exceed
# it.
MAX_TOTAL_BYTES = 256 * 2**20
MIN_KEPT_SNAPSHOTS = 8


class StateSnapshot(NamedTuple):
    """The packed state after a block.

    `logs` is the number of logs folded up to this block.
    """

    block: int
    logs: int
    body: bytes


class SnapshotInfo(NamedTuple):
    """The block and the size in bytes of a snapshot, without its body."""

    block: int
    logs: int
    size_bytes: int


class SnapshotRepository:
    """Access to state snapshots.

    `version` is a digest of fold, profile, rules and settings.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def iterate_snapshots_up_to(self, block: int, version: bytes) -> Iterator[StateSnapshot]:
        """Yield the intact snapshots at or below a block, newest first."""
        columns = state_snapshot.c
        query = select(state_snapshot).order_by(columns.block.desc()).limit(1)
        block_bound = block + 1
        while True:
            is_match = (columns.block < block_bound) & (columns.made_by == version)
            row = self._connection.execute(query.where(is_match)).one_or_none()
            if row is None:
                return
            block_bound = row.block
            if sha256(row.body).digest() == row.checksum:
                yield StateSnapshot(row.block, row.logs, row.body)

    def find_newest_block_and_log_count(
        self, block: int, version: bytes
    ) -> tuple[int, int] | None:
        """Return block and log count of the newest snapshot at or below a block, or None."""
        columns = state_snapshot.c
        query = select(columns.block, columns.logs).where(
            columns.block <= block, columns.made_by == version
        )
        row = self._connection.execute(query.order_by(columns.block.desc()).limit(1)).first()
        return None if row is None else (row[0], row[1])

    def save_and_prune(self, snapshot: StateSnapshot, version: bytes) -> None:
        """Store a snapshot, and delete snapshots that are surplus or of another `version`.

        See `choose_snapshots_to_delete`.
        """
        checksum = sha256(snapshot.body).digest()
        block, logs, body = snapshot
        upsert_rows(self._connection, state_snapshot, [(block, logs, version, body, checksum)])
        columns = state_snapshot.c
        delete_statement = delete(state_snapshot).where(columns.made_by != version)
        self._connection.execute(delete_statement)
        body_size = func.length(columns.body)
        rows = self._connection.execute(
            select(columns.block, columns.logs, body_size).order_by(columns.block)
        )
        surplus_blocks = choose_snapshots_to_delete(
            [SnapshotInfo(*row) for row in rows.all()], MAX_TOTAL_BYTES
        )
        if surplus_blocks:
            self._connection.execute(
                delete(state_snapshot).where(columns.block.in_(surplus_blocks))
            )

    def delete_above(self, number: int) -> None:
        """Delete the snapshots above block `number`, as required by every rollback."""
        self._connection.execute(delete(state_snapshot).where(state_snapshot.c.block > number))

    def count_snapshots_and_bytes(self) -> tuple[int, int]:
        """Return the number of snapshots and their total size in bytes."""
        total_size = func.coalesce(func.sum(func.length(state_snapshot.c.body)), 0)
        count_query = select(func.count(), total_size).select_from(state_snapshot)
        snapshot_count, total_bytes = self._connection.execute(count_query).one()
        return int(snapshot_count), int(total_bytes)


def choose_snapshots_to_delete(snapshots: Sequence[SnapshotInfo], max_bytes: int) -> list[int]:
    """Choose the snapshots to delete, so that the others fit into `max_bytes`.

    The result contains the blocks of these snapshots. The snapshot whose removal leaves the
    smallest gap relative to its age is deleted first, so that recent snapshots are dense and old
    snapshots are sparse.
    """
    kept_snapshots = list(snapshots)
    surplus_blocks = list[int]()
    newest_log_count = kept_snapshots[-1].logs if kept_snapshots else 0
    while (
        len(kept_snapshots) > MIN_KEPT_SNAPSHOTS
        and sum(snapshot.size_bytes for snapshot in kept_snapshots) > max_bytes
    ):
        candidate_indexes = range(len(kept_snapshots) - MIN_KEPT_SNAPSHOTS)

        def compute_relative_gap(index: int) -> float:
            log_count_before = kept_snapshots[index - 1].logs if index else 0
            log_count_between = kept_snapshots[index + 1].logs - log_count_before
            return log_count_between / max(1, newest_log_count - kept_snapshots[index].logs)

        surplus_index = min(candidate_indexes, key=compute_relative_gap)
        surplus_blocks.append(kept_snapshots.pop(surplus_index).block)
    return surplus_blocks


# This is the fastest level. It reduces the size to a third.
_COMPRESSION = 1


class PackedState(NamedTuple):
    """The state from which a fold continues after a block.

    Rounds and settings of the contract are left out. They are only appended, so that the database
    contains them as of every block.
    """

    nodes: Iterable[Node]
    tasks: Iterable[Task]
    groups: Iterable[OpenGroup]
    last: LastEvent | None
    kicks: Iterable[NodeKick]
    detector: IncidentDetector


def encode_state(state: PackedState) -> bytes:
    """Encode the state to bytes.

    Equal states give equal bytes on every database.
    """
    state_parts = (
        sorted(map(encode_node_row, state.nodes)),
        sorted(map(encode_task_row, state.tasks)),
        sorted(map(encode_group_row, state.groups)),
        None if state.last is None else encode_last_event_row(state.last),
        sorted(map(encode_kick_row, state.kicks)),
        list(map(encode_minute_row, state.detector.minutes)),
        list(map(encode_incident_row, state.detector.open_incidents)),
        state.detector.incident_count,
    )
    return zlib.compress(encode(state_parts), _COMPRESSION)


def decode_state(body: bytes) -> PackedState:
    """Decode a state encoded by `encode_state`."""
    state_parts: list[Any] = decode(zlib.decompress(body))
    nodes, tasks, groups, last, kicks, minutes, incidents, incident_count = state_parts
    return PackedState(
        nodes=map(decode_node_row, nodes),
        tasks=map(decode_task_row, tasks),
        groups=map(decode_group_values, groups),
        last=None if last is None else LastEvent(Position(*last[1:5]), *last[5:]),
        kicks=map(decode_kick_row, kicks),
        detector=IncidentDetector(
            map(decode_minute_row, minutes), map(decode_incident_row, incidents), incident_count
        ),
    )
