"""Cuts a report at the end of a period, inside the transaction that folds the next block.

Only nodes that changed since the last cut, or whose reliability is still recovering, are evaluated
again, because the leaves of other nodes cannot have changed. After a start or a rewind, all nodes
are evaluated. Legacy rules compare nodes with each other, so under these rules all nodes are
evaluated after any change.
"""

from array import array
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise

from typing_extensions import override

from oracle.chain.proofs.keccak import keccak
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.domain.reports.report import (
    Lanes,
    PreviousRound,
    Report,
    ReportSettings,
    compute_period,
    cut_report,
)
from oracle.domain.roots.node_leaves import LeafRow, encode_leaves
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.roots.scoring_context import ScoringContext
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.legacy_tally import compute_window_number
from oracle.domain.scoring.node_scores import count_restarts
from oracle.domain.scoring.rules import Rules
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.indexer.kickout_reviews import KickoutReviewCache
from oracle.indexer.round_leaves import LeafCache, load_lanes, load_round_of
from oracle.reporting.leaf_storage import prune_pieces, store_changed_pieces
from oracle.reporting.recompute import find_as_of_block, fold_tree_of_round
from oracle.signing.typed_data import Domain
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportState


class ReportCutter(BlockHook):
    """Cuts a report at the end of each period; keeps the tree of the last report."""

    def __init__(
        self,
        reader: LogReader,
        rules: Rules,
        settings: ReportSettings,
        domain: Domain,
        *,
        anchor_window: int,
    ) -> None:
        """Create the cutter of the reports for the contract of `domain`.

        The contract can check `anchor_window` blocks below the head.
        """
        self._reader = reader
        self._rules = rules
        self._reviews = KickoutReviewCache(KickoutPolicy(rules, reader.holds_kickouts))
        self._domain = domain
        self.settings = settings
        # All headers at most this far below the head are fetched, to find the ends of periods.
        self.header_depth = anchor_window
        self._tree = RoundTree((), keccak)
        self._last_cut: BlockRef | None = None
        # Whether the leaves as of the last cut are stored.
        self._is_last_cut_stored = False
        # Under legacy rules, the population maxima at the last evaluation of all nodes.
        self._population_maxima: PopulationMaxima | None = None
        # The root of the newest round whose lanes were loaded, and these lanes.
        self._round_lanes: tuple[Hash, Lanes] = ZERO_HASH, array("H")

    def is_due(self, parent: BlockRef, block: BlockRef, newest_block: int) -> bool:
        """Return whether a report is due as of `parent`, because `block` opens a later period.

        `newest_block` is the height of the newest known header. No reports are cut during
        backfill. See docs/explanation/reports.md#cut-at-period-end.
        """
        length = self.settings.period_seconds
        opens_period = compute_period(block.time, length) > compute_period(parent.time, length)
        return opens_period and newest_block - parent.number <= self.header_depth

    @override
    def select_stop_blocks(self, headers: Sequence[BlockRef], newest_block: int) -> list[BlockRef]:
        return [old for old, new in pairwise(headers) if self.is_due(old, new, newest_block)]

    @override
    def on_window(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last: BlockRef, newest_block: int
    ) -> None:
        """Record the first period since which no report is missing.

        Reports of earlier periods are missing, because none are cut during backfill. The
        submission schedule needs this period (`domain.reports.round_schedule`).
        """
        too_old = [old for old in headers if newest_block - old.number > self.header_depth]
        if headers and not too_old:
            return
        first_kept = headers[min(len(too_old), len(headers) - 1)] if headers else last
        uow.reports.set_first_complete_period(
            compute_period(first_kept.time, self.settings.period_seconds)
        )

    @override
    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> HookNote | None:
        """Store the report as of `block`.

        If a report of this or a later period exists, write nothing and return None. As reports are
        cut once per period, that happens only if block time went back.
        """
        period = compute_period(block.time, self.settings.period_seconds)
        newest_period = uow.reports.get_newest_period()
        if newest_period is not None and newest_period >= period:
            return None
        if not self._is_last_cut_stored:
            self.reset()
        lanes = self._load_round_lanes(uow, contract_state)
        self._refresh_tree(uow, block)
        report = self._build_report(contract_state, block, lanes)
        # A daemon that publishes nothing marks reports that are too old to be sent only here.
        oldest_block = block.number + 1 - self.header_depth
        uow.reports.mark_unsigned_missed_below(oldest_block, "as-of left the anchor window")
        uow.reports.add(report)
        store_changed_pieces(uow, self._tree, block)
        self._is_last_cut_stored = True
        prune_pieces(uow, self.settings, block, final_number)
        return HookNote("reports", report.period)

    @override
    def get_stored_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        return [report.as_of for report in _load_kept_reports(uow, blocks)]

    @override
    def find_difference(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef
    ) -> HookNote | None:
        (kept,) = _load_kept_reports(uow, BlockRange(block.number, block.number))
        is_same = self.build_report(uow, contract_state, block) == kept
        # The refold may still fail and be rolled back.
        self._reviews.clear()
        return None if is_same else HookNote("reports", kept.period)

    def build_report(
        self, uow: UnitOfWork, contract_state: ContractState, as_of: BlockRef
    ) -> Report:
        """Compute the report as of `as_of`, except what it changes; write nothing."""
        self._refresh_tree(uow, as_of)
        # Comparing the lanes of a million nodes takes longer than the root after few changes.
        report = self._build_report(contract_state, as_of, self._tree.lanes)
        self._tree.edits.discard()
        self._is_last_cut_stored = False
        return report

    def _build_report(
        self, contract_state: ContractState, as_of: BlockRef, round_lanes: Lanes | None
    ) -> Report:
        root = self._tree.compute_round_root(
            self._domain.chain_id,
            self._domain.contract,
            contract_state.head_round + 1,
            as_of.number,
        )
        last_round = PreviousRound.from_state(contract_state, round_lanes)
        return cut_report(as_of, last_round, self._tree.lanes, root, self.settings)

    def _load_round_lanes(self, uow: UnitOfWork, contract_state: ContractState) -> Lanes | None:
        """Return the lanes of the last accepted round, or None if there is no round."""
        head = contract_state.head
        if head is None:
            return None
        if self._round_lanes[0] != head.root:
            self._round_lanes = head.root, self._load_lanes(uow, head)
        return self._round_lanes[1]

    def _load_lanes(self, uow: UnitOfWork, accepted: RoundAccepted) -> Lanes:
        """Return the lanes of a round; empty if they cannot be computed.

        A database that did not cut the report of the round, for example a new one, folds the
        round's state once and stores its leaves.
        """
        cache = LeafCache()
        pieced_round = load_round_of(uow, cache, accepted)
        lanes = None if pieced_round is None else load_lanes(uow, pieced_round)
        if lanes is not None:
            return lanes
        tree = fold_tree_of_round(uow, self._reader, accepted, self._rules)
        as_of = find_as_of_block(uow, accepted)
        if tree is None or as_of is None:
            return array("H")
        store_changed_pieces(uow, tree, as_of)
        return tree.lanes

    def _build_context(self, uow: UnitOfWork, time: int) -> ScoringContext:
        return ScoringContext(
            self._rules,
            time,
            uow.nodes.get_many,
            partial(self._reviews.get_or_load, uow),
            self._population_maxima,
        )

    @override
    def reset(self) -> None:
        """Clear the cache, because the state was rewound or a transaction was rolled back.

        The reviews of kickouts that became due up to the final block are kept.
        """
        self._tree = RoundTree((), keccak)
        self._reviews.drop_not_final()
        self._last_cut = None
        self._is_last_cut_stored = False
        self._population_maxima = None
        self._round_lanes = ZERO_HASH, array("H")

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        self._reviews.follow_rewind(uow, ancestor)

    @override
    def on_rebuild(self) -> None:
        self._reviews.clear()

    def _refresh_tree(self, uow: UnitOfWork, as_of: BlockRef) -> None:
        self._reviews.refresh(uow)
        if self._last_cut is None or self._is_outdated(uow, self._last_cut, as_of):
            self.reset()
            self._population_maxima = compute_population_maxima(
                uow.nodes.iterate_all(), as_of.time, self._rules
            )
            batches = uow.nodes.iterate_leaf_rows()
        else:
            batches = uow.nodes.iterate_changed_leaf_rows(
                self._last_cut.number, self._last_cut.time, self._tree.node_count
            )
        context = self._build_context(uow, as_of.time)
        with closing(batches):
            self._tree.update(self._encode_leaves(rows, context) for rows in batches)
        self._last_cut = as_of

    def _encode_leaves(self, rows: list[LeafRow], context: ScoringContext) -> bytes:
        """Encode leaves; discard the reviews of the nodes whose kickout is no longer due."""
        self._reviews.discard_settled(rows)
        return encode_leaves(rows, context, keccak)

    def _is_outdated(self, uow: UnitOfWork, last_cut: BlockRef, as_of: BlockRef) -> bool:
        """Return whether all nodes must be evaluated again because of changes since `last_cut`."""
        # A restart may end the kickouts that are due, although no event reports it.
        has_restarted = count_restarts(last_cut.time, self._rules) != count_restarts(
            as_of.time, self._rules
        )
        if has_restarted or last_cut.number > as_of.number:
            return True
        legacy = self._rules.legacy
        if legacy is None:
            return False
        is_touched = next(iter(uow.nodes.iterate_changed_since(last_cut.number)), None) is not None
        return is_touched or compute_window_number(last_cut.time, legacy) != compute_window_number(
            as_of.time, legacy
        )


def _load_kept_reports(uow: UnitOfWork, blocks: BlockRange) -> list[Report]:
    """Return the stored reports as of these blocks, except missed ones.

    The block of a missed report may have left the chain.
    """
    stored_reports = uow.reports.list_between(blocks.first, blocks.last)
    return [
        stored_report.report
        for stored_report in stored_reports
        if stored_report.state is not ReportState.MISSED
    ]
