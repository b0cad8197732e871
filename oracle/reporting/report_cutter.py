"""Cut a report at the end of a period, inside the transaction that folds the next block.

Only nodes that were touched since the last cut, or whose reliability is still healing, are looked
at again; what the others are worth cannot have changed. After a start or a rewind all are; and
under legacy rules, which compare nodes with each other, as soon as one is touched.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from typing_extensions import override

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Address
from oracle.domain.registrations import NO_REGISTRATIONS
from oracle.domain.reports.contract_state import NodeIndex
from oracle.domain.reports.lanes import lane_of, with_lane, word_of
from oracle.domain.reports.registration import RegistrationRules, is_known
from oracle.domain.reports.report import Report, ReportSettings, cut_report, period_of
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.wanted_words import ScoredAt, WantedWords, wanted_words
from oracle.domain.scoring.legacy_factors import PopulationMaxima, peers_at
from oracle.domain.scoring.legacy_tally import window_of
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.reporting.registering import registrations_now
from oracle.store.database import UnitOfWork
from oracle.store.reports.report_repository import ReportState
from oracle.telemetry import quorum_metrics


class ReportCutter(BlockHook):
    """Cuts a report when one is due; caches the words of the previous report."""

    def __init__(self, rules: Rules, settings: ReportSettings, *, anchor_window: int) -> None:
        """`anchor_window`: how many blocks under the head the contract can still check."""
        self._rules = rules
        self.settings = settings
        # Where periods end, so far under the head.
        self.header_depth = anchor_window
        self._words: dict[int, int] = {}
        self._seen: dict[int, NodeIndex] = {}
        # Those without an index who were known when they were looked at: nobody else can be now.
        self._waiting: set[Address] = set()
        self._last: BlockRef | None = None
        # Under legacy rules, the nodes as all words were made of them last.
        self._peers: PopulationMaxima | None = None

    def is_due(self, parent: BlockRef, block: BlockRef, newest: int) -> bool:
        """Tell whether `block` opens a later period at the head.

        `newest` is the height of the newest known header: history cuts no reports.
        See docs/explanation/reports.md#cut-at-period-end.
        """
        length = self.settings.period_seconds
        opens_period = period_of(block.time, length) > period_of(parent.time, length)
        return opens_period and newest - parent.number <= self.header_depth

    @override
    def wanted_stops(self, headers: Sequence[BlockRef], newest: int) -> list[BlockRef]:
        return [old for old, new in pairwise(headers) if self.is_due(old, new, newest)]

    @override
    def passed_over(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last: BlockRef, newest: int
    ) -> None:
        """Record the first period after which none is missing, since history cuts no reports.

        The submission schedule needs it (`domain.reports.round_schedule`).
        """
        gone = [old for old in headers if newest - old.number > self.header_depth]
        if headers and not gone:
            return
        first_kept = headers[min(len(gone), len(headers) - 1)] if headers else last
        uow.reports.left_out(period_of(first_kept.time, self.settings.period_seconds))

    @override
    def at_block(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
        """Store the report as of `block`.

        Returns None and writes nothing if this period or a later one is cut already (chain time
        went back).
        """
        period = period_of(block.time, self.settings.period_seconds)
        newest = uow.reports.newest_period()
        if newest is not None and newest >= period:
            return None
        report, falls_waiting = self._drawn_up(uow, rounds, block)
        quorum_metrics.FALLS_WAITING.set(falls_waiting)
        # Where nothing is published nobody else tells them from those that still can be sent.
        oldest = block.number + 1 - self.header_depth
        uow.reports.miss_unsigned_below(oldest, "as-of left the anchor window")
        uow.reports.add(report)
        return HookNote("reports", report.period)

    @override
    def kept_stops(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        return [report.as_of for report in _kept(uow, blocks)]

    @override
    def differing_at(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> HookNote | None:
        """Recompute the report as of `block`, and compare it with the stored one."""
        (kept,) = _kept(uow, BlockRange(block.number, block.number))
        is_same = self.draw_up(uow, rounds, block) == kept
        return None if is_same else HookNote("reports", kept.period)

    def draw_up(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> Report:
        """Compute the report as of `as_of` without writing anything."""
        return self._drawn_up(uow, rounds, as_of)[0]

    def _drawn_up(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> tuple[Report, int]:
        """Return the report, and how many score falls it leaves for later ones."""
        self._look_again(uow, rounds, as_of)
        wanted = self._wanted(uow, rounds, as_of.time)
        return cut_report(as_of, rounds, wanted, self.settings), wanted.falls_waiting

    def _wanted(self, uow: UnitOfWork, rounds: Rounds, time: int) -> WantedWords:
        registrations = NO_REGISTRATIONS
        if self._waiting:
            registrations = registrations_now(uow, rounds, time, self._registering)
        scored_at = ScoredAt(self._rules, time, uow.nodes.named, self._peers)
        return wanted_words(rounds, self._words, registrations, scored_at)

    @property
    def _registering(self) -> RegistrationRules:
        told = self.settings
        return RegistrationRules(self._rules, told.min_scores, told.max_words)

    @override
    def reset(self) -> None:
        """Clear the cache: the state was rewound or a transaction was lost."""
        self._words = {}
        self._seen = {}
        self._waiting = set()
        self._last = None
        self._peers = None

    def _look_again(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> None:
        if self._last is None or self._is_outdated(uow, self._last, as_of):
            self.reset()
            self._peers = peers_at(uow.nodes.all(), as_of.time, self._rules)
            self._look_at(rounds, uow.nodes.all(), as_of.time)
        else:
            self._look_at(rounds, uow.nodes.recovering_at(self._last.time), as_of.time)
            self._look_at(rounds, uow.nodes.changed_since(self._last.number), as_of.time)
        self._set_new_indexes(uow, rounds, as_of.time)
        self._last = as_of

    def _is_outdated(self, uow: UnitOfWork, last: BlockRef, as_of: BlockRef) -> bool:
        """Return whether all nodes must be evaluated again since the cut at `last`."""
        legacy = self._rules.legacy
        if legacy is None or last.number > as_of.number:
            return last.number > as_of.number
        is_touched = next(iter(uow.nodes.changed_since(last.number)), None) is not None
        return is_touched or window_of(last.time, legacy) != window_of(as_of.time, legacy)

    def _look_at(self, rounds: Rounds, nodes: Iterable[Node], time: int) -> None:
        registering = self._registering
        for node in nodes:
            index = rounds.index_by_node.get(node.address)
            if index is not None:
                self._set(index, lane_of(node, time, self._rules, self._peers))
            if index is None and is_known(node, time, registering):
                self._waiting.add(node.address)
            else:
                self._waiting.discard(node.address)

    def _set_new_indexes(self, uow: UnitOfWork, rounds: Rounds, time: int) -> None:
        """Update lanes that changed hands, even if neither node changed itself."""
        seen = self._seen
        # The very object, as a rule: comparing a million of them takes half a second.
        new = [
            entry
            for index, entry in rounds.indexes.items()
            if (known := seen.get(index)) is not entry and known != entry
        ]
        before = [seen[entry.index].node for entry in new if entry.index in seen]
        nodes = uow.nodes.named([*(entry.node for entry in new), *before])
        self._look_at(rounds, (nodes[node] for node in before if node in nodes), time)
        for entry in new:
            lane = lane_of(nodes.get(entry.node), time, self._rules, self._peers)
            self._set(entry.index, lane)
            self._waiting.discard(entry.node)
            self._seen[entry.index] = entry

    def _set(self, index: int, lane: int) -> None:
        word = word_of(index)
        self._words[word] = with_lane(self._words.get(word, 0), index, lane)


def _kept(uow: UnitOfWork, blocks: BlockRange) -> list[Report]:
    """Return the reports as of these blocks; missed ones may be of a block that left the chain."""
    stored = uow.reports.between(blocks.first, blocks.last)
    return [one.report for one in stored if one.state is not ReportState.MISSED]
