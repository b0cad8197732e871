"""Builds ("cuts") a report at a period's end, in the transaction that folds the next block.

The tree of all leaves is updated in the background after each window
(`oracle.reporting.leaf_tree`), so that a report evaluates only the nodes that changed since then.
"""

from array import array
from collections.abc import Sequence
from itertools import pairwise

from typing_extensions import override

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import (
    Lanes,
    PreviousRound,
    Report,
    ReportSettings,
    compute_period_number,
    cut_report,
)
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.scoring.rules import Rules
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.indexer.round_leaves import LeafCache, load_lanes_of_round, load_pieced_round
from oracle.indexer.rules_binding import get_rules_replacement_block
from oracle.reporting.leaf_storage import prune_pieces, store_changed_pieces
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.recompute import find_as_of_block, fold_round_tree
from oracle.signing.typed_data import Domain
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportState


class ReportCutter(BlockHook):
    """Builds a report at the end of each period, and keeps the tree of all leaves up to date."""

    def __init__(
        self,
        reader: EventReader,
        rules: Rules,
        settings: ReportSettings,
        domain: Domain,
        *,
        anchor_window: int,
    ) -> None:
        """Create a cutter of reports for the contract of `domain`.

        The contract can check `anchor_window` blocks below the head.
        """
        self._reader = reader
        self._rules = rules
        self._leaf_tree = LeafTree(rules, KickoutPolicy(rules, reader.holds_kickouts))
        self._domain = domain
        self.settings = settings
        # Number of blocks below the head whose headers are all fetched, in order to find the ends
        # of periods.
        self.header_depth = anchor_window
        # Root of the newest round whose lanes were loaded, and these lanes.
        self._round_lanes: tuple[Hash, Lanes] = ZERO_HASH, array("H")

    def is_due(self, parent: BlockRef, block: BlockRef, newest_block: int) -> bool:
        """Return whether a report as of `parent` is due, because `block` starts a later period.

        `newest_block` is the height of the newest known header. During backfill, no reports are
        cut. See docs/explanation/reports.md#cut-at-period-end.
        """
        period_seconds = self.settings.period_seconds
        opens_period = compute_period_number(block.time, period_seconds) > compute_period_number(
            parent.time, period_seconds
        )
        return opens_period and newest_block - parent.number <= self.header_depth

    @override
    def select_stop_blocks(self, headers: Sequence[BlockRef], newest_block: int) -> list[BlockRef]:
        return [
            previous_header
            for previous_header, header in pairwise(headers)
            if self.is_due(previous_header, header, newest_block)
        ]

    @override
    def on_window(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last_block: BlockRef, newest_block: int
    ) -> None:
        """Record the period since which no report is missing.

        Reports of earlier periods are missing, because no reports are cut during backfill. The
        schedule of submissions needs this period (`domain.reports.round_schedule`).
        """
        old_headers = [
            old_header
            for old_header in headers
            if newest_block - old_header.number > self.header_depth
        ]
        if headers and not old_headers:
            return
        first_kept_block = (
            headers[min(len(old_headers), len(headers) - 1)] if headers else last_block
        )
        uow.reports.raise_first_complete_period(
            compute_period_number(first_kept_block.time, self.settings.period_seconds)
        )

    @override
    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> HookNote | None:
        """Build and store the report as of `block`.

        If a report of this or a later period exists, nothing is written and the result is None.
        This happens only if block time went back, because reports are cut once per period.
        """
        period = compute_period_number(block.time, self.settings.period_seconds)
        newest_period = uow.reports.find_newest_period()
        if newest_period is not None and newest_period >= period:
            return None
        lanes = self._load_round_lanes(uow, contract_state)
        tree = self._leaf_tree.refresh(uow, block, needs_edits=True)
        report = self._build_report(tree, contract_state, block, lanes)
        # This is the only place where a daemon that publishes nothing marks reports that have
        # become too old to send.
        oldest_block = block.number + 1 - self.header_depth
        uow.reports.mark_unsigned_missed_below(oldest_block, "as-of left the anchor window")
        uow.reports.add(report)
        self._leaf_tree.store_pieces(uow, block)
        prune_pieces(uow, self.settings, block, final_number)
        return HookNote("reports", report.period)

    @override
    def on_committed(self, store: Store, last_block: BlockRef, newest_block: int) -> None:
        """Update the leaves in the background if indexing is near the head."""
        if newest_block - last_block.number <= self.header_depth:
            self._leaf_tree.start_update(store)

    @override
    def get_stored_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        return [report.as_of for report in _load_reproducible_reports(uow, blocks)]

    @override
    def find_difference(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef
    ) -> HookNote | None:
        (kept_report,) = _load_reproducible_reports(uow, BlockRange(block.number, block.number))
        is_reproduced = self.build_report(uow, contract_state, block) == kept_report
        # Clear the reviews now, because the next fold may still fail and be rolled back.
        self._leaf_tree.clear_kickout_reviews()
        return None if is_reproduced else HookNote("reports", kept_report.period)

    def build_report(
        self, uow: UnitOfWork, contract_state: ContractState, as_of: BlockRef
    ) -> Report:
        """Compute the report as of a block without comparing lanes or writing anything."""
        tree = self._leaf_tree.refresh(uow, as_of, needs_edits=False)
        # The lanes are not compared. If few nodes changed, comparing a million lanes would take
        # longer than computing the root.
        report = self._build_report(tree, contract_state, as_of, tree.lanes)
        self._leaf_tree.discard_edits()
        return report

    def _build_report(
        self,
        tree: RoundTree,
        contract_state: ContractState,
        as_of: BlockRef,
        round_lanes: Lanes | None,
    ) -> Report:
        root = tree.compute_round_root(
            self._domain.chain_id,
            self._domain.contract,
            contract_state.head_round + 1,
            as_of.number,
        )
        last_round = PreviousRound.from_state(contract_state, round_lanes)
        return cut_report(as_of, last_round, tree.lanes, root, self.settings)

    def _load_round_lanes(self, uow: UnitOfWork, contract_state: ContractState) -> Lanes | None:
        """Return the lanes of the last accepted round, or None if there is no such round."""
        head = contract_state.head
        if head is None:
            return None
        if self._round_lanes[0] != head.root:
            self._round_lanes = head.root, self._load_or_fold_lanes(uow, head)
        return self._round_lanes[1]

    def _load_or_fold_lanes(self, uow: UnitOfWork, accepted_round: RoundAccepted) -> Lanes:
        """Return the lanes of a round, which are empty if they cannot be computed.

        A database in which the report of the round was not cut, for example a new database, folds
        the state of the round once and stores its leaves.
        """
        cache = LeafCache()
        pieced_round = load_pieced_round(uow, cache, accepted_round)
        lanes = None if pieced_round is None else load_lanes_of_round(uow, pieced_round)
        if lanes is not None:
            return lanes
        tree = fold_round_tree(uow, self._reader, accepted_round, self._rules)
        as_of = find_as_of_block(uow, accepted_round)
        if tree is None or as_of is None:
            return array("H")
        # This database may already contain a different report as of the same block.
        uow.leaf_pieces.delete_as_of(as_of.number)
        store_changed_pieces(uow, tree, as_of)
        return tree.lanes

    @override
    def reset(self) -> None:
        self._leaf_tree.reset()
        self._round_lanes = ZERO_HASH, array("H")

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        self._leaf_tree.follow_rewind(uow, ancestor)

    @override
    def on_rebuild(self) -> None:
        self._leaf_tree.clear_kickout_reviews()


def _load_reproducible_reports(uow: UnitOfWork, blocks: BlockRange) -> list[Report]:
    """Load the stored reports in a block range that the current rules should reproduce.

    Missed reports are left out, because their block may have left the chain. Reports before the
    replacement of the rules are left out, because they were cut under other rules.
    """
    first_block = max(blocks.first, get_rules_replacement_block(uow) + 1)
    return [
        stored_report.report
        for stored_report in uow.reports.list_between(first_block, blocks.last)
        if stored_report.state is not ReportState.MISSED
    ]
