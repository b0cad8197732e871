"""Makes snapshots of the state, compares them with the state, and refolds from them.

A snapshot is folded from the raw rows and the previous snapshot. From the state tables it takes
only tasks that ended long ago, so that it also serves as an independent check of the state. If a
rewind goes back further than the undo journal, the state is refolded from a snapshot. See
docs/explanation/storage.md#state-snapshots.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oracle.domain.blocks import BlockRange
from oracle.domain.incidents import IncidentDetector
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import (
    MAX_SNAPSHOTS_TRIED,
    FoldedState,
    compute_snapshot_version,
    fold_state_up_to,
    pack_state,
)
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import find_rebuild_reason
from oracle.indexer.rebuild import RebuildOptions, check_raw_rows_complete, fold_stored_rows
from oracle.indexer.rules_binding import is_folded_with_rules
from oracle.indexer.state_sample import SampleCheck, find_state_mismatch
from oracle.store.bulk import Row
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.group_repository import encode_group_row
from oracle.store.state.incident_repository import encode_incident_row, encode_minute_row
from oracle.store.state.node_repository import encode_node_row
from oracle.store.state.round_rows import encode_kick_row
from oracle.store.state.snapshot_repository import StateSnapshot, decode_state
from oracle.store.state.task_repository import encode_task_row

Key = TypeVar("Key")
Value = TypeVar("Value")

# The number of logs between two snapshots; folding them takes about 0.15 s.
SNAPSHOT_LOGS = 5_000
# One request of the read API may fold at most this many logs. Usually a request folds for 0.2 s,
# and up to twice as long until the next snapshot exists.
MAX_REQUEST_LOGS = 4 * SNAPSHOT_LOGS
# An ended task stays in the snapshots for this many intervals, for later events that refer to it.
_KEPT_INTERVALS = 2


def make_next_snapshot(
    archive: EventArchive, rebuild_options: RebuildOptions
) -> StateSnapshot | None:
    """Make the next snapshot of final blocks, or return None if too few logs are new."""
    version = compute_snapshot_version(archive.reader, archive.rules)
    with archive.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.final_number is None:
            return None
        final_number = min(cursor.final_number, cursor.number)
        rewrite_count = uow.bookmarks.get_rewrite_count()
        previous_snapshot = uow.snapshots.find_newest_block_and_log_count(final_number, version)
        first_block, log_count = (
            (0, 0)
            if previous_snapshot is None
            else (previous_snapshot[0] + 1, previous_snapshot[1])
        )
        block = uow.logs.find_block_of_nth_log(first_block, SNAPSHOT_LOGS)
        if block is None or block > final_number:
            return None
        state = fold_state_up_to(uow, archive.reader, archive.rules, block)
        log_count += uow.logs.count_between(first_block, block)
        packed_state = pack_state(state, _find_first_kept_block(uow, block))
    with rebuild_options.transaction(archive.store) as uow:
        # If rows were repaired or rewound meanwhile, the snapshot may be wrong, so the next tick
        # builds it again.
        if uow.bookmarks.get_rewrite_count() != rewrite_count:
            return None
        snapshot = StateSnapshot(block, log_count, packed_state)
        uow.snapshots.save_and_prune(snapshot, version)
    return snapshot


def _find_first_kept_block(uow: UnitOfWork, block: int) -> int:
    """Return the first block whose ended tasks are kept in a snapshot."""
    return uow.logs.find_block_of_nth_last_log(block, max(1, _KEPT_INTERVALS * SNAPSHOT_LOGS)) or 0


def check_state_sample(archive: EventArchive, node_page: str) -> SampleCheck | None:
    """Compare a sample of the current state with a refold from the newest snapshot.

    The current state is the state at the cursor. The sample consists of the nodes and tasks that
    changed since the snapshot, the nodes whose address begins with `node_page`, the open groups,
    and the contract's state. Returns None if nothing is indexed.

    Raises:
        NoNearbySnapshotError: the next snapshots have to be made first.
    """
    with archive.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        state = fold_state_up_to(
            uow,
            archive.reader,
            archive.rules,
            cursor.number,
            max_logs=MAX_REQUEST_LOGS,
        )
        return _compare_sample(uow, state, cursor, node_page)


def _compare_sample(
    uow: UnitOfWork, state: FoldedState, cursor: Cursor, node_page: str
) -> SampleCheck:
    snapshot_block = -1 if state.snapshot_block is None else state.snapshot_block
    ledger = state.fold.ledger
    folded_contract_state = state.contract_state
    stored_contract_state = uow.rounds.load_contract_state()
    nodes = {
        address: node
        for address, node in ledger.nodes.items()
        if node.changed_at > snapshot_block or address.startswith(node_page)
    }
    tasks = {key: task for key, task in ledger.tasks.items() if task.changed_at > snapshot_block}
    folded_minutes, folded_incidents = _index_detector_rows(ledger.detector)
    stored_minutes, stored_incidents = _index_detector_rows(uow.incidents.load_detector())
    table_pairs: list[tuple[str, Mapping[Any, Row], Mapping[Any, Row]]] = [
        (
            "node",
            _index_rows(nodes, encode_node_row),
            _index_rows(uow.nodes.get_many(nodes), encode_node_row),
        ),
        (
            "task",
            _index_rows(tasks, encode_task_row),
            _index_rows(uow.tasks.get_many(tasks), encode_task_row),
        ),
        (
            "open_group",
            _index_rows(ledger.groups, encode_group_row),
            _index_rows(uow.groups.get_many(ledger.groups), encode_group_row),
        ),
        (
            "kick",
            _index_rows(folded_contract_state.kicks, encode_kick_row),
            _index_rows(stored_contract_state.kicks, encode_kick_row),
        ),
        ("end_minute", folded_minutes, stored_minutes),
        ("incident", folded_incidents, stored_incidents),
    ]
    differing_rows = [
        f"{table} {key}"
        for table, folded_rows, stored_rows in table_pairs
        for key in sorted(folded_rows.keys() | stored_rows.keys(), key=str)
        if folded_rows.get(key) != stored_rows.get(key)
    ]
    changed_nodes = uow.nodes.iterate_changed_since(snapshot_block)
    differing_rows += [
        f"node {node.address}" for node in changed_nodes if node.address not in nodes
    ]
    if state.contract_state.head != stored_contract_state.head:
        differing_rows.append("accepted_round")
    row_count = sum(len(folded_rows) for _, folded_rows, _ in table_pairs)
    return SampleCheck(cursor.number, row_count, tuple(differing_rows))


def _index_detector_rows(
    detector: IncidentDetector,
) -> tuple[Mapping[Any, Row], Mapping[Any, Row]]:
    """Return the detector's counts per minute and its open incidents, both by key."""
    minutes = {row.minute: row for row in detector.minutes}
    incidents = {incident.number: incident for incident in detector.open_incidents}
    return _index_rows(minutes, encode_minute_row), _index_rows(incidents, encode_incident_row)


def _index_rows(
    value_by_key: Mapping[Key, Value], encode_row: Callable[[Value], Row]
) -> dict[Key, Row]:
    return {key: encode_row(value) for key, value in value_by_key.items()}


def refold_from_snapshot(
    uow: UnitOfWork,
    folder: EventFolder,
    last_block: int,
    rebuild_options: RebuildOptions,
) -> int | None:
    """Restore the newest usable snapshot and refold from it.

    The result is the block of the snapshot, which is below `last_block`. The cursor has to be at
    `last_block`, in the caller's transaction. Nothing is changed and the result is None if the
    state is known to differ from the raw rows, or if no snapshot is usable. A snapshot is not
    usable if it is damaged, or if it was made with other rules or with another version of the fold
    or the profile.

    Raises:
        IncompleteLogsError: raw rows were lost or changed; the transaction has to end.
    """
    if not _is_state_trusted(uow, folder):
        return None
    snapshot_block = _restore_newest_snapshot(
        uow, last_block, compute_snapshot_version(folder.reader, folder.rules)
    )
    if snapshot_block is None:
        return None
    check_raw_rows_complete(uow, last_block)
    fold_stored_rows(uow, folder, BlockRange(snapshot_block + 1, last_block), rebuild_options)
    return snapshot_block


def _is_state_trusted(uow: UnitOfWork, folder: EventFolder) -> bool:
    """Return whether this program would fold the stored rows to the stored state.

    This matters because a restored snapshot takes the rows of tasks that ended long ago from the
    stored state.
    """
    return (
        find_rebuild_reason(uow, folder.reader) is None
        and is_folded_with_rules(uow, folder.rules)
        and find_state_mismatch(uow) is None
    )


def _restore_newest_snapshot(uow: UnitOfWork, last_block: int, version: bytes) -> int | None:
    for tried_count, snapshot in enumerate(
        uow.snapshots.iterate_snapshots_up_to(last_block - 1, version)
    ):
        if tried_count == MAX_SNAPSHOTS_TRIED:
            return None
        if uow.projections.restore_snapshot(snapshot.block, decode_state(snapshot.body)):
            return snapshot.block
    return None
