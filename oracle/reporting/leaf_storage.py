"""Stores the leaves of reports in pieces, and deletes pieces that no proof needs.

See docs/explanation/storage.md#leaf-pieces.
"""

from oracle.domain.blocks import BlockRef
from oracle.domain.reports.report import Lanes, Report, ReportSettings, compute_period_number
from oracle.domain.roots.pieces import KEPT_ROUNDS
from oracle.domain.roots.round_tree import RoundTree
from oracle.indexer.round_leaves import (
    load_lanes_of_round,
    load_leaves,
    load_pieced_round,
    load_pieced_round_of_report,
)
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork


def store_changed_pieces(uow: UnitOfWork, tree: RoundTree, as_of: BlockRef) -> None:
    """Store the tree's pieces that differ from those of the last report.

    Pieces whose changed leaves the tree did not keep are left out (`PieceEdits.dropped_pieces`).
    """
    last_digests = uow.leaf_pieces.get_digest_by_piece(as_of.number)
    for piece, edit in tree.edits.take().items():
        digest = tree.get_piece_digest(piece)
        if last_digests.get(piece) == digest:
            continue
        # The edit contains every leaf after a start, after a rewind, and after the rules have
        # restarted the pools.
        has_all_leaves = edit.has_all_leaves(digest.leaf_count)
        base_leaves = b"" if has_all_leaves else uow.leaf_pieces.load_leaves(piece, as_of.number)
        uow.leaf_pieces.add(piece, as_of.number, digest, edit.apply(base_leaves))


def prune_pieces(
    uow: UnitOfWork, settings: ReportSettings, as_of: BlockRef, final_number: int
) -> None:
    """Delete the pieces that no kept or possible future round needs.

    A report can no longer be accepted once a final block is later than its deadline. The report as
    of `as_of` is kept. A report that an operator released is kept until a later report lands,
    because the sanity gate compares later reports with it.

    `final_number` is the chain's final block and not the cursor's, which lags by a window, so that
    databases that read the chain in different windows keep the same pieces.
    """
    final_time = uow.reports.get_newest_time_up_to(final_number)
    first_period = compute_period_number(
        max(0, final_time - settings.ttl_seconds), settings.period_seconds
    )
    released_report = find_released_report(uow)
    kept_blocks = {
        as_of.number,
        *(() if released_report is None else [released_report.as_of.number]),
        *uow.rounds.list_newest_as_of_blocks(KEPT_ROUNDS),
        *(
            stored_report.header.as_of
            for stored_report in uow.reports.list_headers_since(first_period)
        ),
    }
    uow.leaf_pieces.prune_except(kept_blocks)


def find_released_report(uow: UnitOfWork) -> Report | None:
    """Return the newest report that an operator released, unless a later report landed."""
    period = uow.holds.find_newest_released_period()
    newest_landed_period = uow.reports.find_newest_landed_period()
    if period is None or (newest_landed_period is not None and newest_landed_period >= period):
        return None
    stored_report = uow.reports.get(period)
    return None if stored_report is None else stored_report.report


def load_report_leaves(context: ReportingContext, uow: UnitOfWork, report: Report) -> bytes | None:
    """Return a report's encoded leaves in seat order, or None if they are not stored."""
    pieced_round = load_pieced_round_of_report(uow, context.leaf_cache, report)
    return None if pieced_round is None else load_leaves(uow, pieced_round)


def load_report_lanes(context: ReportingContext, uow: UnitOfWork, report: Report) -> Lanes | None:
    """Return a report's lanes in seat order, or None if its leaves are not stored."""
    pieced_round = load_pieced_round_of_report(uow, context.leaf_cache, report)
    return None if pieced_round is None else load_lanes_of_round(uow, pieced_round)


def load_last_round_leaves(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> bytes | None:
    """Return the encoded leaves of the round before a report.

    The result is None if they are not stored. Before the first round, there are no leaves, so the
    result is empty.
    """
    accepted_round = uow.rounds.find_accepted_round(report.head_round)
    if accepted_round is None:
        return b"" if report.head_round == 0 else None
    pieced_round = load_pieced_round(uow, context.leaf_cache, accepted_round)
    return None if pieced_round is None else load_leaves(uow, pieced_round)
