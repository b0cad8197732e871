"""Stores the leaves of cut reports in pieces, and deletes those that no proof needs any more.

See docs/explanation/storage.md#leaf-pieces.
"""

from oracle.domain.blocks import BlockRef
from oracle.domain.reports.report import ReportSettings, compute_period
from oracle.domain.roots.node_tree import NodeTree
from oracle.domain.roots.pieces import KEPT_ROUNDS
from oracle.store.database import UnitOfWork


def store_changed_pieces(uow: UnitOfWork, tree: NodeTree, as_of: BlockRef) -> None:
    """Store the pieces of the tree that differ from those of the last cut."""
    last_digests = uow.leaf_pieces.list_digests(as_of.number)
    for piece, edit in tree.take_edits().items():
        digest = tree.get_piece_digest(piece)
        if last_digests.get(piece) == digest:
            continue
        # After a start, a rewind or a restart of the rules, the edit has all leaves.
        is_whole = edit.has_all_leaves(digest.leaf_count)
        base = b"" if is_whole else uow.leaf_pieces.load_leaves(piece, as_of.number)
        uow.leaf_pieces.add(piece, as_of.number, digest, edit.apply(base))


def prune_pieces(uow: UnitOfWork, settings: ReportSettings, as_of: BlockRef) -> None:
    """Delete the pieces that neither a kept round, nor a cut that may become one, consists of.

    A cut can no longer be accepted when a final block is later than its deadline. The cut as of
    `as_of` is kept.
    """
    cursor = uow.cursor.get()
    final_number = None if cursor is None else cursor.final_number
    final_time = 0 if final_number is None else uow.reports.get_newest_time_up_to(final_number)
    first_period = compute_period(
        max(0, final_time - settings.ttl_seconds), settings.period_seconds
    )
    kept_blocks = {
        as_of.number,
        *uow.rounds.list_newest_as_of_blocks(KEPT_ROUNDS),
        *(stored.cut.as_of for stored in uow.reports.list_outcomes_since(first_period)),
    }
    uow.leaf_pieces.prune(kept_blocks)
