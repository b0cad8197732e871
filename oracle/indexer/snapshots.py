"""Makes snapshots of the state, and checks the state against a refold from a snapshot.

A snapshot is folded from the raw rows and the previous snapshot. The only rows of the state in it
are tasks that ended long before, so it also serves as an independent check of the state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from oracle.chain.protocols import LogReader
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folded_state import FoldedState, folded_up_to, packed_state, snapshot_version
from oracle.indexer.provenance import rebuilds
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.bulk import Row
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.group_repository import group_row
from oracle.store.state.node_repository import node_row
from oracle.store.state.round_rows import index_row, kick_row, word_row
from oracle.store.state.snapshot_repository import StateSnapshot
from oracle.store.state.task_repository import task_row

# Bookmark of the newest comparison, and the number of rows listed in it.
_SAMPLE = "state_sample"
_NAMED_ROWS = 5

Key = TypeVar("Key")
Value = TypeVar("Value")

# Logs between two snapshots; folding that many takes about 0.15 s.
SNAPSHOT_LOGS = 5_000
# Logs that one request of the read API may fold: usually a fifth of a second, and at most twice
# that while the next snapshot is not made yet.
MAX_REQUEST_LOGS = 4 * SNAPSHOT_LOGS
# How long an ended task stays in snapshots, in intervals, for later events about it.
_KEPT_INTERVALS = 2


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """Comparison of a sample of the state at `block` with a refold from a snapshot.

    `differing` lists the rows that are not equal, by table and key.
    """

    block: int
    rows: int
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Inputs of snapshots."""

    store: Store
    reader: LogReader
    rules: Rules
    min_scores: int

    @property
    def snapshot_version(self) -> bytes:
        """Return the version under which snapshots are stored."""
        return snapshot_version(self.reader, self.rules, self.min_scores)


def make_next_snapshot(source: SnapshotSource, manner: RebuildOptions) -> StateSnapshot | None:
    """Make the next snapshot of final blocks, or return None if too few logs are new."""
    with source.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.final_number is None:
            return None
        final, remakes = min(cursor.final_number, cursor.number), uow.bookmarks.remakes()
        before = uow.snapshots.newest_place(final, source.snapshot_version)
        first, logs = (0, 0) if before is None else (before[0] + 1, before[1])
        block = uow.logs.block_after(first, SNAPSHOT_LOGS)
        if block is None or block > final:
            return None
        state = folded_up_to(uow, source.reader, source.rules, block, source.min_scores)
        logs += uow.logs.count_between(first, block)
        body = packed_state(state, _kept_since(uow, block))
    with manner.transaction(source.store) as uow:
        # After a repair or rewind meanwhile, the next tick makes the snapshot again.
        if uow.bookmarks.remakes() != remakes:
            return None
        snapshot = StateSnapshot(block, logs, body)
        uow.snapshots.save(snapshot, source.snapshot_version)
    return snapshot


def _kept_since(uow: UnitOfWork, block: int) -> int:
    """Return the block from which on ended tasks are kept in a snapshot."""
    return uow.logs.block_before(block, max(1, _KEPT_INTERVALS * SNAPSHOT_LOGS)) or 0


def check_sample(source: SnapshotSource, node_page: str) -> SampleCheck | None:
    """Compare a sample of the state at the cursor with a refold from the newest snapshot.

    The sample: nodes and tasks that changed since the snapshot, nodes whose address begins with
    `node_page`, open groups, and the contract's state. Returns None if nothing is indexed.

    Raises:
        NoNearbySnapshotError: the next snapshots have to be made first.
    """
    with source.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        state = folded_up_to(
            uow,
            source.reader,
            source.rules,
            cursor.number,
            source.min_scores,
            max_logs=MAX_REQUEST_LOGS,
        )
        return _compared(uow, state, cursor, node_page)


def store_sample_result(uow: UnitOfWork, check: SampleCheck) -> None:
    """Store the result of the newest comparison, for `status` and the next process."""
    note = _Note(check.block, rebuilds(uow), check.differing[:_NAMED_ROWS], len(check.differing))
    uow.bookmarks.set(_SAMPLE, msgspec.json.encode(note).decode())


def state_mismatch(uow: UnitOfWork) -> str | None:
    """Return where the state differs from a fold of the raw rows, or None.

    Results from before a rebuild no longer count.
    """
    text = uow.bookmarks.get(_SAMPLE)
    if text is None:
        return None
    note = msgspec.json.decode(text, type=_Note)
    if not note.count or note.rebuilds != rebuilds(uow):
        return None
    return (
        f"{note.count} rows of the state at block {note.block} are not what the stored logs fold "
        f"to ({', '.join(note.differing)}): `qos-oracle resync verify --half state` names all, "
        "`qos-oracle resync rebuild` folds them anew"
    )


class _Note(msgspec.Struct, frozen=True):
    block: int
    rebuilds: int
    differing: tuple[str, ...]
    count: int


def _compared(uow: UnitOfWork, state: FoldedState, cursor: Cursor, node_page: str) -> SampleCheck:
    since = -1 if state.snapshot is None else state.snapshot
    ledger, rounds, stored = state.fold.ledger, state.rounds, uow.rounds.load()
    nodes = {
        address: node
        for address, node in ledger.nodes.items()
        if node.changed_at > since or address.startswith(node_page)
    }
    tasks = {key: task for key, task in ledger.tasks.items() if task.changed_at > since}
    pairs: list[tuple[str, Mapping[Any, Row], Mapping[Any, Row]]] = [
        ("node", _rows(nodes, node_row), _rows(uow.nodes.named(nodes), node_row)),
        ("task", _rows(tasks, task_row), _rows(uow.tasks.named(tasks), task_row)),
        (
            "open_group",
            _rows(ledger.groups, group_row),
            _rows(uow.groups.named(ledger.groups), group_row),
        ),
        ("node_index", _rows(rounds.indexes, index_row), _rows(stored.indexes, index_row)),
        ("lane_word", _rows(rounds.words, word_row), _rows(stored.words, word_row)),
        ("kick", _rows(rounds.kicks, kick_row), _rows(stored.kicks, kick_row)),
    ]
    differing = [
        f"{table} {key}"
        for table, folded, held in pairs
        for key in sorted(folded.keys() | held.keys(), key=str)
        if folded.get(key) != held.get(key)
    ]
    changed = uow.nodes.changed_since(since)
    differing += [f"node {node.address}" for node in changed if node.address not in nodes]
    if state.rounds.head != stored.head:
        differing.append("accepted_round")
    checked = sum(len(folded) for _, folded, _ in pairs)
    return SampleCheck(cursor.number, checked, tuple(differing))


def _rows(objects: Mapping[Key, Value], row_of: Callable[[Value], Row]) -> dict[Key, Row]:
    return {key: row_of(value) for key, value in objects.items()}
