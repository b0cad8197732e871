"""Refolds from a snapshot if a rewind goes back further than the undo journal.

See docs/explanation/storage.md#state-snapshots.
"""

from oracle.domain.blocks import BlockRange
from oracle.indexer.completeness import check_raw_rows
from oracle.indexer.folded_state import compute_snapshot_version
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import rebuild_reason
from oracle.indexer.rebuild import RebuildOptions, fold_stored_rows
from oracle.indexer.rules_binding import is_folded_by
from oracle.indexer.snapshots import state_mismatch
from oracle.store.database import UnitOfWork
from oracle.store.state.snapshot_codec import unpack_state

# Maximum number of snapshots tried before everything is folded from the start.
_MAX_SNAPSHOTS = 3


def refold_from_snapshot(
    uow: UnitOfWork,
    folder: EventFolder,
    last_block: int,
    min_scores: int,
    rebuild_options: RebuildOptions,
) -> int | None:
    """Restore the newest usable snapshot below `last_block`, refold, and return its block.

    The cursor has to be at `last_block`, in the caller's transaction. Returns None, and changes
    nothing, if the state is known to differ from the raw rows or if no snapshot is usable. A
    snapshot is not usable if it is damaged, or has other rules or another version of the fold or
    profile.

    Raises:
        IncompleteLogsError: raw rows were lost or changed; the transaction has to end.
    """
    if not _is_state_trusted(uow, folder):
        return None
    snapshot_block = _restore_newest_snapshot(
        uow, last_block, compute_snapshot_version(folder.reader, folder.rules, min_scores)
    )
    if snapshot_block is None:
        return None
    check_raw_rows(uow, last_block)
    fold_stored_rows(uow, folder, BlockRange(snapshot_block + 1, last_block), rebuild_options)
    return snapshot_block


def _is_state_trusted(uow: UnitOfWork, folder: EventFolder) -> bool:
    """Return whether the stored state equals a fold of the stored rows by this program.

    A restored snapshot takes the rows of tasks that ended long before from that state.
    """
    return (
        rebuild_reason(uow, folder.reader) is None
        and is_folded_by(uow, folder.rules)
        and state_mismatch(uow) is None
    )


def _restore_newest_snapshot(uow: UnitOfWork, last_block: int, version: bytes) -> int | None:
    for tried_count, snapshot in enumerate(uow.snapshots.iterate_up_to(last_block - 1, version)):
        if tried_count == _MAX_SNAPSHOTS:
            return None
        if uow.projections.restore(snapshot.block, unpack_state(snapshot.body)):
            return snapshot.block
    return None
