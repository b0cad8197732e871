"""Answers about reports: as they were cut, as recomputed, and as held for an operator."""

from collections.abc import Iterator, Mapping

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD, NEVER_REPORTED, unpack_lanes
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_data import RECORD_BYTES, decode_records
from oracle.domain.scoring.legacy_factors import compute_incentive_shares
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folded_state import fold_state_up_to
from oracle.queries.reports.report_models import (
    HeldReport,
    ReportBasis,
    ReportDetail,
    ReportEntry,
    ReportLane,
    ReportRegistrations,
    build_lane_entry,
)
from oracle.reporting.recompute import build_report
from oracle.store.database import Store
from oracle.store.report_repository import ReportHold, StoredReport


def compute_report_detail(
    store: Store, reader: LogReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> ReportDetail:
    """Compute the report as of a block, as any reporter with the same rules id would."""
    with store.read_transaction() as uow:
        folded = fold_state_up_to(uow, reader, rules, as_of.number, settings.min_scores)
        computed = build_report(folded, as_of, rules, settings)
        stored = uow.reports.get(computed.period)
    rounds = folded.rounds
    node_by_lane = {entry.index: entry.node for entry in rounds.indexes.values()}
    node_by_lane |= computed.registrations.assign_indexes(rounds.index_by_node, rounds.node_count)
    share_by_node = compute_incentive_shares(folded.fold.ledger.nodes.values(), as_of.time, rules)
    return ReportDetail(
        **dict(_build_report_entry(computed, stored)),
        same_as_cut=None if stored is None else stored.report == computed,
        lanes=list(_build_lanes(computed, node_by_lane, share_by_node)),
    )


def build_report_entry(stored: StoredReport) -> ReportEntry:
    """Return the answer for a report that was cut."""
    return _build_report_entry(stored.report, stored)


def build_report_basis(report: Report) -> ReportBasis:
    """Return the block, round and registrations that a report is based on."""
    registrations = report.registrations
    return ReportBasis(
        period=report.period,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        as_of_time=report.as_of.time,
        head_round=report.head_round,
        prev=report.prev,
        deadline=report.deadline,
        words=len(report.records) // RECORD_BYTES,
        registers=ReportRegistrations(
            reused=[(pair.new_node, pair.old_node) for pair in registrations.reused],
            appended=list(registrations.appended),
            gas=REGISTRATION_GAS * len(registrations.new_nodes),
        ),
        fingerprint=report.fingerprint,
    )


def build_held_report(hold: ReportHold) -> HeldReport:
    """Return the answer for a held report."""
    return HeldReport(
        period=hold.period, reason=hold.reason, held_at=hold.held_at, facts=hold.facts
    )


def _build_report_entry(report: Report, stored: StoredReport | None) -> ReportEntry:
    return ReportEntry(
        **dict(build_report_basis(report)),
        state=None if stored is None else stored.outcome,
        reason=None if stored is None else stored.reason,
        round=None if stored is None else stored.round,
        digest=None if stored is None else stored.digest,
    )


def _build_lanes(
    computed: Report, node_by_lane: Mapping[int, Address], share_by_node: Mapping[Address, int]
) -> Iterator[ReportLane]:
    for word, value in decode_records(computed.records):
        for index, lane in enumerate(unpack_lanes(value), start=word * LANES_PER_WORD):
            if lane != NEVER_REPORTED:
                node = node_by_lane.get(index)
                yield ReportLane(
                    **dict(build_lane_entry(index, node, lane)),
                    incentive_share=None if node is None else share_by_node.get(node),
                )
