"""Refolds from a snapshot if a rewind ends below the undo journal.

See docs/explanation/storage.md#state-snapshots.
"""

from oracle.domain.blocks import BlockRange
from oracle.indexer.completeness import check_complete
from oracle.indexer.folded_state import snapshot_version
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import why_rebuild
from oracle.indexer.rebuild import RebuildOptions, fold_stored_rows
from oracle.indexer.rules_binding import is_folded_by
from oracle.indexer.snapshots import state_mismatch
from oracle.store.database import UnitOfWork
from oracle.store.state.snapshot_codec import unpack

# Number of snapshots tried before everything is folded from the start.
_MAX_SNAPSHOTS = 3


def refold_from_snapshot(
    uow: UnitOfWork, folder: Folder, last: int, min_scores: int, manner: RebuildOptions
) -> int | None:
    """Restore the newest usable snapshot below `last_block`, refold, and return its block.

    The cursor has to be at `last_block`, in the caller's transaction. Returns None, and changes
    nothing, if no snapshot is usable: each is of other rules, of another version of the fold or
    profile, or damaged, or the state itself is known to differ from the raw rows.

    Raises:
        IncompleteLogsError: raw rows were lost or changed; the transaction has to end.
    """
    if not _is_state_trusted(uow, folder):
        return None
    block = _restore_newest(uow, last, snapshot_version(folder.reader, folder.rules, min_scores))
    if block is None:
        return None
    check_complete(uow, last)
    fold_stored_rows(uow, folder, BlockRange(block + 1, last), manner)
    return block


def _is_state_trusted(uow: UnitOfWork, folder: Folder) -> bool:
    """Return whether the stored state equals a fold of the stored rows by this program.

    Rows of tasks that ended long before a snapshot are taken from that state.
    """
    return (
        why_rebuild(uow, folder.reader) is None
        and is_folded_by(uow, folder.rules)
        and state_mismatch(uow) is None
    )


def _restore_newest(uow: UnitOfWork, last: int, made_by: bytes) -> int | None:
    for tried, snapshot in enumerate(uow.snapshots.newest_to(last - 1, made_by)):
        if tried == _MAX_SNAPSHOTS:
            return None
        if uow.projections.restore(snapshot.block, unpack(snapshot.body)):
            return snapshot.block
    return None
