"""Cut a report at the end of a period, inside the transaction that folds the next block.

Only nodes that were touched since the last cut, or whose reliability is still healing, are looked
at again; what the others are worth cannot have changed. After a start or a rewind all are; and
under legacy rules, which compare nodes with each other, as soon as one is touched.
"""

from collections.abc import Iterable, Sequence

from oracle.domain.blocks import BlockRef
from oracle.domain.reports.lanes import lane_of, with_lane, word_of
from oracle.domain.reports.report import Report, ReportSettings, cut, period_of
from oracle.domain.reports.rounds import NodeIndex, Rounds
from oracle.domain.scoring.legacy_factors import PopulationMaxima, peers_at
from oracle.domain.scoring.legacy_tally import window_of
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.store.database import UnitOfWork


class ReportCutter:
    """Knows when a report is due, and remembers the words it wanted last time."""

    def __init__(self, rules: Rules, settings: ReportSettings, *, anchor_window: int) -> None:
        """`anchor_window`: how many blocks under the head the contract can still check."""
        self._rules = rules
        self.settings = settings
        self.anchor_window = anchor_window
        self._words: dict[int, int] = {}
        self._seen: dict[int, NodeIndex] = {}
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
        return opens_period and newest - parent.number <= self.anchor_window

    def leave_out(self, uow: UnitOfWork, blocks: Sequence[BlockRef], newest: int) -> None:
        """Note that periods which ended in history are not cut; `blocks` follow each other.

        Whoever asks whose turn it is must know from where on none is missing (`domain.turns`).
        """
        gone = [old for old in blocks if newest - old.number > self.anchor_window]
        if gone:
            self.pass_over(uow, blocks[min(len(gone), len(blocks) - 1)])

    def pass_over(self, uow: UnitOfWork, last: BlockRef) -> None:
        """Note that no period which ended below block `last` is sure to have been cut."""
        uow.reports.left_out(period_of(last.time, self.settings.period_seconds))

    def cut(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> Report | None:
        """Write down the report as of `as_of`, where `uow` and `rounds` stand exactly.

        Returns None, and writes nothing, where this period or a later one has been cut already
        (a chain whose time went back).
        """
        period = period_of(as_of.time, self.settings.period_seconds)
        newest = uow.reports.newest_period()
        if newest is not None and newest >= period:
            return None
        report = self.draw_up(uow, rounds, as_of)
        # Where nothing is published nobody else tells them from those that still can be sent.
        oldest = as_of.number + 1 - self.anchor_window
        uow.reports.miss_unsigned_below(oldest, "as-of left the anchor window")
        uow.reports.add(report)
        return report

    def draw_up(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> Report:
        """Compute the report as of `as_of` without writing anything."""
        self._look_again(uow, rounds, as_of)
        return cut(as_of, rounds, self._words, self.settings)

    def forget(self) -> None:
        """Look at every node next time: the state was rewound or a transaction was lost."""
        self._words = {}
        self._seen = {}
        self._last = None
        self._peers = None

    def _look_again(self, uow: UnitOfWork, rounds: Rounds, as_of: BlockRef) -> None:
        if self._last is None or self._is_outdated(uow, self._last, as_of):
            self.forget()
            self._peers = peers_at(uow.nodes.all(), as_of.time, self._rules)
            self._set_lanes(rounds, uow.nodes.all(), as_of.time)
        else:
            self._set_lanes(rounds, uow.nodes.recovering_at(self._last.time), as_of.time)
            self._set_lanes(rounds, uow.nodes.changed_since(self._last.number), as_of.time)
        self._set_new_indexes(uow, rounds, as_of.time)
        self._last = as_of

    def _is_outdated(self, uow: UnitOfWork, last: BlockRef, as_of: BlockRef) -> bool:
        """Tell whether all nodes are to be looked at anew, having been so at `last`."""
        legacy = self._rules.legacy
        if legacy is None or last.number > as_of.number:
            return last.number > as_of.number
        is_touched = next(iter(uow.nodes.changed_since(last.number)), None) is not None
        return is_touched or window_of(last.time, legacy) != window_of(as_of.time, legacy)

    def _set_lanes(self, rounds: Rounds, nodes: Iterable[Node], time: int) -> None:
        for node in nodes:
            index = rounds.index_by_node.get(node.address)
            if index is not None:
                self._set(index, lane_of(node, time, self._rules, self._peers))

    def _set_new_indexes(self, uow: UnitOfWork, rounds: Rounds, time: int) -> None:
        """Look at lanes that were assigned or retired since: their node may be untouched."""
        new = [entry for entry in rounds.indexes.values() if self._seen.get(entry.index) != entry]
        nodes = uow.nodes.named([entry.node for entry in new])
        for entry in new:
            node = None if entry.retired else nodes.get(entry.node)
            self._set(entry.index, lane_of(node, time, self._rules, self._peers))
            self._seen[entry.index] = entry

    def _set(self, index: int, lane: int) -> None:
        word = word_of(index)
        self._words[word] = with_lane(self._words.get(word, 0), index, lane)
