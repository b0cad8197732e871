"""The tree of all nodes' leaves, which is updated with each report.

A report evaluates only the nodes that changed since the last evaluation, or whose reliability is
still recovering, because the leaves of other nodes cannot have changed. After a start or a rewind,
the tree is built from the stored leaves of the last report, if they have the report's root. After
a refold, which may change any node, all nodes are evaluated. Legacy rules compare nodes with each
other, so under these rules all nodes are evaluated after any change.

Leaves that another process stored are compared once with the leaves computed from all nodes. A
faulty process may have stored wrong leaves, which every later root would contain.

Between two reports, a thread evaluates the nodes that changed in each window, so that this need
not be done in the loop of the daemon when a report is due. The root does not depend on when a leaf
was computed, because the leaf of a node that neither changes nor recovers is the same at any time.
"""

from concurrent.futures import Future, wait
from contextlib import closing
from functools import partial
from typing import TypeVar

from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import compute_decay_end
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import Report
from oracle.domain.roots.node_leaves import LeafRow, ScoringContext, encode_leaves
from oracle.domain.roots.pieces import PIECE_LEAVES, sort_leaves
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.legacy_tally import compute_window_number
from oracle.domain.scoring.node_scores import count_pool_restarts
from oracle.domain.scoring.rules import Rules
from oracle.errors import TransientError
from oracle.indexer.kickout_reviews import KickoutReviewCache
from oracle.indexer.provenance import FIRST_CUT_KEY, find_stored_block, get_refold_count
from oracle.indexer.round_leaves import LeafCache, load_pieced_round_of_report
from oracle.reporting.leaf_storage import store_changed_pieces
from oracle.rpc.background import run_in_background
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry.logger import get_logger

# Maximum number of seats whose leaves (32 MiB) are kept after all nodes were evaluated, until the
# next report stores them. The leaves of other pieces are computed again for the report, one piece
# at a time.
_MAX_KEPT_SEATS = 32 * PIECE_LEAVES

Batch = TypeVar("Batch")


class _UpdateStoppedError(Exception):
    """Stops an update whose result is not needed because the state is being rewound."""


class LeafTree:
    """The tree of all leaves, and the state that it is computed from.

    All methods are called by the same thread. Each method except `start_update` waits for the
    update that runs in the background. `discard_edits` may be called only after `refresh`.
    `edits_are_complete` is whether the tree's edits have every leaf that changed since the pieces
    of the last report were stored.
    """

    def __init__(self, rules: Rules, policy: KickoutPolicy) -> None:
        self._rules = rules
        self._reviews = KickoutReviewCache(policy)
        self._running_update: Future[None] | None = None
        self._must_stop = False
        # Block of this process's first report. Leaves need no comparison from this report on.
        self._first_own_report_block: int | None = None
        self._clear()

    def refresh(self, uow: UnitOfWork, as_of: BlockRef, *, needs_edits: bool) -> RoundTree:
        """Update the tree to the last block `as_of` of the state in `uow`, and return it.

        If `needs_edits` is set, the tree's edits have every leaf that changed since the pieces of
        the last report were stored.
        """
        self._finish_update()
        if needs_edits and not self.edits_are_complete:
            self._clear()
        if needs_edits:
            self._restore_last_cut(uow)
        self._evaluate_nodes(uow, as_of.number, as_of.time, is_cut=True, keeps_leaves=needs_edits)
        return self._tree

    def store_pieces(self, uow: UnitOfWork, as_of: BlockRef) -> None:
        """Store the pieces that changed since the last report.

        `refresh(as_of)` must be called first.
        """
        if self._first_own_report_block is None:
            self._first_own_report_block = as_of.number
        dropped_pieces = self._tree.edits.dropped_pieces
        store_changed_pieces(uow, self._tree, as_of)
        self._store_dropped_pieces(uow, as_of, dropped_pieces)
        refold_count = get_refold_count(uow)
        last_rebuild = uow.bookmarks.get(FIRST_CUT_KEY)
        if last_rebuild is None or int(last_rebuild.split()[0]) != refold_count:
            uow.bookmarks.set(FIRST_CUT_KEY, f"{refold_count} {as_of.number}")

    def _store_dropped_pieces(self, uow: UnitOfWork, as_of: BlockRef, pieces: set[int]) -> None:
        """Compute and store pieces whose changed leaves were not kept in memory."""
        context = self._build_context(uow, as_of.time)
        last_digests = uow.leaf_pieces.get_digest_by_piece(as_of.number)
        for piece in sorted(pieces):
            digest = self._tree.get_piece_digest(piece)
            if last_digests.get(piece) == digest:
                continue
            seats = range(PIECE_LEAVES * piece, PIECE_LEAVES * (piece + 1))
            with closing(uow.nodes.iterate_leaf_rows_of_seats(seats)) as batches:
                leaves = b"".join(self._encode_leaves(rows, context) for rows in batches)
            uow.leaf_pieces.add(piece, as_of.number, digest, sort_leaves(leaves))

    def count_wrong_leaves(self, uow: UnitOfWork, report: Report) -> int:
        """Count a report's stored leaves that differ from the leaves computed for the nodes.

        The tree must be empty, and is not used afterwards. Nodes that changed or recovered since
        the report, and the leaves of legacy rules, which depend on the time, are not compared.
        """
        cursor = uow.cursor.get()
        if cursor is None or self._rules.legacy is not None or not self._restore_cut(uow, report):
            return 0
        self._evaluate_nodes(uow, cursor.number, cursor.time, is_cut=True, keeps_leaves=False)
        return self._compare_with_all_nodes(uow, self._build_context(uow, cursor.time), 0)

    def discard_edits(self) -> None:
        """Discard the changed leaves, because they will not be stored."""
        self._tree.edits.discard()
        self.edits_are_complete = False

    def start_update(self, store: Store) -> None:
        """Evaluate the nodes changed up to the cursor, in the background.

        Nothing is started while an earlier update is running. Under legacy rules, all leaves
        depend on the time of the report, so nothing can be computed before the report is due.
        """
        if self._rules.legacy is not None:
            return
        if self._running_update is not None and not self._running_update.done():
            return
        self._finish_update()
        store.call_before_close(self._cancel_update)
        self._running_update = run_in_background(
            partial(self._update_to_cursor, store), "leaf-tree"
        )

    def reset(self) -> None:
        """Discard the tree, because the state was rewound or a transaction was rolled back.

        The reviews of kickouts that became due up to the final block are kept.
        """
        self._cancel_update()
        self._clear()

    def follow_rewind(self, uow: UnitOfWork, ancestor: int) -> None:
        """Discard the tree, and the kickout reviews from above the block `ancestor`."""
        self.reset()
        self._reviews.follow_rewind(uow, ancestor)

    def clear_kickout_reviews(self) -> None:
        """Discard the kickout reviews, because a refold may change them."""
        self._finish_update()
        self._reviews.clear()

    def _clear(self) -> None:
        self._tree = RoundTree((), keccak)
        self.edits_are_complete = True
        # Number of the block up to which changed nodes were evaluated, or None if no node was.
        self._number: int | None = None
        # Block time of the last evaluation of all nodes, or of all recovering nodes.
        self._time = 0
        # True if the tree contains leaves of another process that have not been compared yet.
        self._needs_comparison = False
        # Under legacy rules, the maxima of the population when all nodes were last evaluated.
        self._population_maxima: PopulationMaxima | None = None
        self._reviews.drop_non_final_reviews()

    def _update_to_cursor(self, store: Store) -> None:
        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None:
                return
            if not self.edits_are_complete:
                self._clear()
            self._restore_last_cut(uow)
            self._evaluate_nodes(uow, cursor.number, cursor.time, is_cut=False, keeps_leaves=True)
        self._tree.hash_changed()

    def _restore_last_cut(self, uow: UnitOfWork) -> None:
        """Restore an empty tree from the stored leaves of the last report.

        Nothing is done if the state does not continue that report, or if the stored leaves do not
        have the root of the report.
        """
        last_cut = self._find_resumable_cut(uow) if self._number is None else None
        if last_cut is not None and self._restore_cut(uow, last_cut):
            number = last_cut.as_of.number
            self._needs_comparison = (
                self._first_own_report_block is None or number < self._first_own_report_block
            )

    def _restore_cut(self, uow: UnitOfWork, report: Report) -> bool:
        """Restore an empty tree from the stored leaves of a report.

        Return False, with an empty tree, if the stored leaves do not have the root of the report.
        """
        pieced_round = load_pieced_round_of_report(uow, LeafCache(), report)
        if pieced_round is None:
            return False
        number = report.as_of.number
        pieces = range(len(pieced_round.digests))
        self._tree.append_stored_leaves(
            self._pass_batch_unless_stopped(uow.leaf_pieces.load_leaves(piece, number))
            for piece in pieces
        )
        if self._tree.node_count != pieced_round.summary.node_count or any(
            self._tree.get_piece_digest(piece) != pieced_round.digests[piece] for piece in pieces
        ):
            self._clear()
            return False
        self._number, self._time = number, report.as_of.time
        return True

    def _find_resumable_cut(self, uow: UnitOfWork) -> Report | None:
        """Return the last report, if only new blocks have changed the state since.

        A refold may change any node. A rewind leaves no report above its block, except accepted
        reports, whose blocks may have left the chain.
        """
        stored_report = next(iter(uow.reports.list_newest(1)), None)
        first_cut = uow.bookmarks.get(FIRST_CUT_KEY)
        if stored_report is None or first_cut is None or self._rules.legacy is not None:
            return None
        report = stored_report.report
        refold_count, first_block = map(int, first_cut.split())
        block = find_stored_block(uow, report.as_of.number)
        is_continued = (
            refold_count == get_refold_count(uow)
            and report.as_of.number >= first_block
            and (block is None or block.hash == report.as_of.hash)
        )
        return report if is_continued else None

    def _finish_update(self) -> None:
        """Wait for the running update.

        If it failed, the next evaluation reads all nodes.
        """
        update, self._running_update = self._running_update, None
        if update is None:
            return
        try:
            update.result()
        except TransientError:
            self._clear()

    def _cancel_update(self) -> None:
        """Stop the running update at its next batch of rows, and ignore its result."""
        update, self._running_update = self._running_update, None
        if update is not None:
            self._must_stop = True
            wait([update])
            self._must_stop = False

    def _evaluate_nodes(
        self, uow: UnitOfWork, number: int, time: int, *, is_cut: bool, keeps_leaves: bool
    ) -> None:
        """Evaluate the nodes changed up to a block.

        For a report, recovering nodes are evaluated as well. Unless `keeps_leaves` is set, the
        tree's edits keep no changed leaves.
        """
        max_kept_seats = None if keeps_leaves else 0
        self._reviews.refresh(uow)
        if self._number is None or self._needs_full_evaluation(uow, self._number, number, time):
            self._clear()
            is_complete = True
            self._population_maxima = compute_population_maxima(
                uow.nodes.iterate_all(), time, self._rules
            )
            batches = uow.nodes.iterate_leaf_rows()
            max_kept_seats = _MAX_KEPT_SEATS if keeps_leaves else 0
        else:
            is_complete = is_cut or self._needs_comparison
            batches = uow.nodes.iterate_changed_leaf_rows(
                self._number,
                self._time if is_complete else None,
                self._tree.node_count,
                compute_decay_end(self._rules.tau_seconds),
            )
        context = self._build_context(uow, time)
        with closing(batches):
            self._tree.update(
                (self._encode_leaves(rows, context) for rows in batches), max_kept_seats
            )
        if self._needs_comparison:
            wrong_count = self._compare_with_all_nodes(uow, context, max_kept_seats)
            if wrong_count:
                get_logger().error("stored_leaves_corrected", leaves=wrong_count)
        self._number = number
        if is_complete:
            self._time = time

    def _compare_with_all_nodes(
        self, uow: UnitOfWork, context: ScoringContext, max_kept_seats: int | None
    ) -> int:
        """Replace the leaves that differ from those computed for all nodes, and count them.

        The leaves of all changed nodes are evaluated first.
        """
        self._needs_comparison = False
        with closing(uow.nodes.iterate_leaf_rows()) as batches:
            return self._tree.update(
                (self._encode_leaves(rows, context) for rows in batches), max_kept_seats
            )

    def _build_context(self, uow: UnitOfWork, time: int) -> ScoringContext:
        """Build the scoring context for an evaluation at `time`."""
        return ScoringContext(
            self._rules,
            time,
            uow.nodes.get_many,
            partial(self._reviews.get_or_load_review, uow),
            self._population_maxima,
        )

    def _encode_leaves(self, rows: list[LeafRow], context: ScoringContext) -> bytes:
        """Encode leaves, and discard the reviews of nodes whose kickout is no longer due."""
        self._reviews.discard_settled_reviews(self._pass_batch_unless_stopped(rows))
        return encode_leaves(rows, context, keccak)

    def _pass_batch_unless_stopped(self, batch: Batch) -> Batch:
        """Return the batch, or raise an error if the running update has to stop."""
        if self._must_stop:
            raise _UpdateStoppedError
        return batch

    def _needs_full_evaluation(
        self, uow: UnitOfWork, last_number: int, number: int, time: int
    ) -> bool:
        """Return whether all nodes must be evaluated again for a block and its time."""
        # When the pools restart, kickouts that were due may no longer be due, although no event
        # occurred.
        has_restarted = count_pool_restarts(self._time, self._rules) != count_pool_restarts(
            time, self._rules
        )
        if has_restarted or last_number > number:
            return True
        legacy = self._rules.legacy
        if legacy is None:
            return False
        is_touched = next(iter(uow.nodes.iterate_changed_since(last_number)), None) is not None
        return is_touched or compute_window_number(self._time, legacy) != compute_window_number(
            time, legacy
        )
