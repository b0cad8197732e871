"""A period's report computed anew, beside the one that was cut, with every lane it writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD, NEVER_REPORTED, lanes_of
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_data import decode_records
from oracle.domain.scoring.legacy_factors import incentive_shares
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folded_state import folded_up_to
from oracle.reporting.recompute import report_of
from oracle.store.database import Store
from oracle.store.reports.report_repository import ReportState, StoredReport


@dataclass(frozen=True, slots=True)
class ReportLane:
    """What a report says at one index; whose it is once the report is accepted.

    `node`: None where neither a round nor the report gave the index to anyone.
    `incentive_share`: of the window's incentive as of the report's block, in units of 10^-18;
    None under rules that are not legacy ones, and for who is no member.
    """

    index: int
    node: Address | None
    lane: int
    incentive_share: int | None


@dataclass(frozen=True, slots=True)
class ReportView:
    """The report computed from the stored logs, the one that was cut, and the lanes."""

    computed: Report
    stored: StoredReport | None
    lanes: tuple[ReportLane, ...]

    @property
    def comparison(self) -> bool | None:
        """Whether the cut report says the same; None: none was cut, or it was missed.

        A missed one may speak of a block that left the chain.
        """
        if self.stored is None or self.stored.state is ReportState.MISSED:
            return None
        return self.stored.report == self.computed


def report_view(
    store: Store, reader: LogReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> ReportView:
    """Compute the report as of a block, as any reporter with the same rules id would."""
    with store.reading() as uow:
        folded = folded_up_to(uow, reader, rules, as_of.number, settings.min_scores)
        computed = report_of(folded, as_of, rules, settings)
        stored = uow.reports.at(computed.period)
    rounds = folded.rounds
    nodes = {entry.index: entry.node for entry in rounds.indexes.values()}
    nodes |= computed.registrations.placed(rounds.index_by_node, rounds.node_count)
    shares = incentive_shares(folded.fold.ledger.nodes.values(), as_of.time, rules)
    return ReportView(computed, stored, tuple(_lanes(computed, nodes, shares)))


def _lanes(
    computed: Report, nodes: Mapping[int, Address], shares: Mapping[Address, int]
) -> Iterator[ReportLane]:
    for word, value in decode_records(computed.records):
        for index, lane in enumerate(lanes_of(value), start=word * LANES_PER_WORD):
            if lane != NEVER_REPORTED:
                node = nodes.get(index)
                yield ReportLane(index, node, lane, None if node is None else shares.get(node))
