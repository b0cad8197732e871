"""Cuts a report at the end of a period, inside the transaction that folds the next block.

Only nodes that changed since the last cut, or whose reliability is still recovering, are evaluated
again, because the scores of other nodes cannot have changed. After a start or a rewind, all nodes
are evaluated. Legacy rules compare nodes with each other, so under these rules all nodes are
evaluated after any change.

The nodes that a report registers are read from the database or, to recompute a report, from nodes
in memory. Both ways must give the same result, or two reporters would sign different rounds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise

from typing_extensions import override

from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.oracle_events import NO_REGISTRATIONS, Registrations
from oracle.domain.ids import Address
from oracle.domain.reports.contract_state import NodeIndex
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.domain.reports.lanes import compute_node_lane, get_word_index, replace_lane
from oracle.domain.reports.registration import (
    FirstEvents,
    choose_registrations,
    find_reusable_indexes,
    is_reportable,
)
from oracle.domain.reports.report import Report, ReportSettings, compute_period, cut_report
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.target_words import ScoringContext, TargetWords, build_target_words
from oracle.domain.roots.node_tree import NodeTree
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.legacy_tally import compute_window_number
from oracle.domain.scoring.node_scores import count_restarts
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.indexer.kickout_reviews import KickoutReviewCache
from oracle.reporting.leaf_storage import prune_pieces, store_changed_pieces
from oracle.signing.typed_data import Domain
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportState
from oracle.telemetry import quorum_metrics


class ReportCutter(BlockHook):
    """Cuts a report at the end of each period; caches words and tree of the last report."""

    def __init__(
        self,
        rules: Rules,
        settings: ReportSettings,
        domain: Domain,
        *,
        anchor_window: int,
        holds_kickouts: bool = False,
    ) -> None:
        """Create the cutter of the reports for the contract of `domain`.

        The contract can check `anchor_window` blocks below the head. `holds_kickouts`: whether the
        profile of the network holds every kickout.
        """
        self._rules = rules
        self._reviews = KickoutReviewCache(KickoutPolicy(rules, holds_kickouts))
        self._domain = domain
        self.settings = settings
        # All headers at most this far below the head are fetched, to find the ends of periods.
        self.header_depth = anchor_window
        self._lane_words: dict[int, int] = {}
        self._tree = NodeTree(keccak)
        self._seen_indexes: dict[int, NodeIndex] = {}
        # Reportable nodes without an index at the last evaluation; no others can be registered.
        self._waiting_nodes: set[Address] = set()
        self._last_cut: BlockRef | None = None
        # Whether the leaves as of the last cut are stored.
        self._is_last_cut_stored = False
        # Under legacy rules, the population maxima at the last evaluation of all nodes.
        self._population_maxima: PopulationMaxima | None = None

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
    def on_block(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
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
        report, falls_waiting = self._build_report_with_falls(uow, rounds, block)
        quorum_metrics.FALLS_WAITING.set(falls_waiting)
        # A daemon that publishes nothing marks reports that are too old to be sent only here.
        oldest_block = block.number + 1 - self.header_depth
        uow.reports.mark_unsigned_missed_below(oldest_block, "as-of left the anchor window")
        uow.reports.add(report)
        store_changed_pieces(uow, self._tree, block)
        self._is_last_cut_stored = True
        prune_pieces(uow, self.settings, block)
        return HookNote("reports", report.period)

    @override
    def get_stored_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        return [report.as_of for report in _load_kept_reports(uow, blocks)]

    @override
    def find_difference(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
        """Recompute the report as of `block`, and compare it with the stored report."""
        (kept,) = _load_kept_reports(uow, BlockRange(block.number, block.number))
        is_same = self.build_report(uow, rounds, block) == kept
        # The refold may still fail and be rolled back.
        self._reviews.clear()
        return None if is_same else HookNote("reports", kept.period)

    def build_report(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> Report:
        """Compute the report as of `as_of` without writing anything."""
        report = self._build_report_with_falls(uow, rounds, as_of)[0]
        self._tree.take_edits()
        self._is_last_cut_stored = False
        return report

    def _build_report_with_falls(
        self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef
    ) -> tuple[Report, int]:
        """Return the report, and the number of falls that later reports will contain."""
        self._refresh_words(uow, rounds, as_of)
        words = self._compute_target_words(uow, rounds, as_of.time)
        root = self._tree.compute_root(
            self._domain.chain_id, self._domain.contract, rounds.head.round + 1, as_of.number
        )
        return cut_report(as_of, rounds, words, self.settings, root), words.deferred_falls

    def _compute_target_words(self, uow: UnitOfWork, rounds: Rounds, time: int) -> TargetWords:
        registrations = NO_REGISTRATIONS
        if self._waiting_nodes:
            registrations = find_registrations(uow, rounds, time, self._rules, self.settings)
        context = self._build_context(uow, time)
        return build_target_words(rounds, self._lane_words, registrations, context)

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
        self._lane_words = {}
        self._tree = NodeTree(keccak)
        self._reviews.drop_not_final()
        self._seen_indexes = {}
        self._waiting_nodes = set()
        self._last_cut = None
        self._is_last_cut_stored = False
        self._population_maxima = None

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        self._reviews.follow_rewind(uow, ancestor)

    @override
    def on_rebuild(self) -> None:
        self._reviews.clear()

    def _refresh_words(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> None:
        self._reviews.refresh(uow)
        if self._last_cut is None or self._is_outdated(uow, self._last_cut, as_of):
            self.reset()
            self._population_maxima = compute_population_maxima(
                uow.nodes.iterate_all(), as_of.time, self._rules
            )
            nodes = self._update_lanes(rounds, uow.nodes.iterate_all(), as_of.time)
            self._tree.rebuild(nodes, self._build_context(uow, as_of.time))
        else:
            changed_nodes = chain(
                uow.nodes.iterate_recovering(self._last_cut.time),
                uow.nodes.iterate_changed_since(self._last_cut.number),
            )
            nodes = self._update_lanes(rounds, changed_nodes, as_of.time)
            self._tree.update(nodes, self._build_context(uow, as_of.time))
        self._update_new_indexes(uow, rounds, as_of.time)
        self._last_cut = as_of

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

    def _update_lanes(self, rounds: Rounds, nodes: Iterable[Node], time: int) -> Iterator[Node]:
        """Update the lanes of the nodes as they are read, and yield the nodes."""
        for node in nodes:
            self._update_lane(rounds, node, time)
            yield node

    def _update_lane(self, rounds: Rounds, node: Node, time: int) -> None:
        if node.kickout_due_since is None:
            self._reviews.discard(node.address)
        index = rounds.index_by_node.get(node.address)
        if index is not None:
            lane = compute_node_lane(node, time, self._rules, self._population_maxima)
            self._set_lane(index, lane)
        if index is None and is_reportable(node, time, self._rules, self.settings.min_scores):
            self._waiting_nodes.add(node.address)
        else:
            self._waiting_nodes.discard(node.address)

    def _update_new_indexes(self, uow: UnitOfWork, rounds: Rounds, time: int) -> None:
        """Update the lanes that were assigned to a new node, even if no node changed."""
        seen_indexes = self._seen_indexes
        # Usually the entry is the same object; comparing a million entries takes half a second.
        new_entries = [
            entry
            for index, entry in rounds.indexes.items()
            if (seen_entry := seen_indexes.get(index)) is not entry and seen_entry != entry
        ]
        previous_nodes = [
            seen_indexes[entry.index].node for entry in new_entries if entry.index in seen_indexes
        ]
        nodes = uow.nodes.get_many([*(entry.node for entry in new_entries), *previous_nodes])
        for address in previous_nodes:
            if address in nodes:
                self._update_lane(rounds, nodes[address], time)
        for entry in new_entries:
            lane = compute_node_lane(
                nodes.get(entry.node), time, self._rules, self._population_maxima
            )
            self._set_lane(entry.index, lane)
            self._waiting_nodes.discard(entry.node)
            self._seen_indexes[entry.index] = entry

    def _set_lane(self, index: int, lane: int) -> None:
        word_index = get_word_index(index)
        self._lane_words[word_index] = replace_lane(
            self._lane_words.get(word_index, 0), index, lane
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


def find_registrations(
    uow: UnitOfWork, rounds: Rounds, time: int, rules: Rules, settings: ReportSettings
) -> Registrations:
    """Return the nodes that a report as of the cursor registers; `time` is its block time."""
    repository = uow.registrations
    candidates = repository.list_scored_newcomers(settings.min_scores)
    unscored_nodes = uow.nodes.get_many(
        repository.list_penalised_members(settings.min_scores, time)
    )
    excluded_addresses = [
        node.address
        for node in unscored_nodes.values()
        if is_reportable(node, time, rules, settings.min_scores)
    ]
    candidates += repository.list_first_penalties(excluded_addresses)
    free = find_reusable_indexes(rounds, time, repository.filter_members)
    return choose_registrations(rounds, candidates, free, settings.max_words)


def find_registrations_in_memory(
    rounds: Rounds,
    nodes: Mapping[Address, Node],
    first_events: FirstEvents,
    time: int,
    rules: Rules,
    settings: ReportSettings,
) -> Registrations:
    """Return the result of `find_registrations` from nodes in memory and their first events."""
    waiting_addresses = [
        address
        for address, node in nodes.items()
        if address not in rounds.index_by_node
        and is_reportable(node, time, rules, settings.min_scores)
    ]
    newcomers = [first_events.find_newcomer(address) for address in waiting_addresses]

    def find_members(addresses: Sequence[Address]) -> set[Address]:
        known_nodes = (nodes.get(address) for address in addresses)
        return {
            known_node.address
            for known_node in known_nodes
            if known_node is not None and known_node.membership is Membership.MEMBER
        }

    free = find_reusable_indexes(rounds, time, find_members)
    known_newcomers = [newcomer for newcomer in newcomers if newcomer is not None]
    return choose_registrations(rounds, known_newcomers, free, settings.max_words)
