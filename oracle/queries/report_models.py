"""Answers about reports (as cut, recomputed, or held) and rounds, for `--json` and HTTP alike."""

from collections.abc import Iterator, Mapping

from pydantic import Field, JsonValue

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    LANES_PER_WORD,
    NEVER_REPORTED,
    decode_qos,
    unpack_lanes,
)
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_data import RECORD_BYTES, decode_records
from oracle.domain.scoring.legacy_factors import compute_incentive_shares
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.kickout_reviews import build_folded_context
from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText, LogPlace
from oracle.queries.leaf_models import LeafDifference
from oracle.reporting.recompute import build_report, load_domain
from oracle.store.database import Store
from oracle.store.report_repository import ReportHold, StoredReport

# A report that came too late may have an as-of block that has left the chain since.
_TOO_LATE = ("missed", "superseded")


class LaneEntry(ApiModel):
    """One lane of a report or a round."""

    index: int
    node: AddressText | None = Field(description="Node that has the lane now; null: none yet.")
    lane: int = Field(ge=0, le=65_535)
    qos: FixedPoint | None = Field(description="null: not selectable, or never reported.")
    is_selectable: bool


class ReportLane(LaneEntry):
    """One lane of a report, with the node that owns it once the report is accepted."""

    incentive_share: FixedPoint | None = Field(
        description="Of the window's incentive, as of the report's block, under legacy rules; "
        "null: the node is no member."
    )


class ReportRegistrations(ApiModel):
    """The nodes that a report registers."""

    reused: list[tuple[AddressText, AddressText]] = Field(
        description="A new node, and the node that left whose index it takes."
    )
    appended: list[AddressText] = Field(description="Nodes that get a new index.")
    gas: int = Field(description="Gas for registering them.")


class ReportBasis(ApiModel):
    """The block, round and registrations that a report is based on, and its fingerprint."""

    period: int
    as_of: int = Field(description="The block that it speaks of.")
    as_of_hash: HashText
    as_of_time: int = Field(description="Unix seconds.")
    head_round: int = Field(description="The last accepted round at that block.")
    prev: HashText = Field(description="Digest of `head_round`.")
    deadline: int = Field(description="Time until which the contract accepts it, unix seconds.")
    root: HashText = Field(
        description="Merkle root of all nodes at that block, in round `head_round` + 1."
    )
    words: int = Field(description="Number of words of sixteen lanes that it writes.")
    registers: ReportRegistrations
    fingerprint: HashText = Field(description="SHA-256 of the whole report.")


class ReportEntry(ReportBasis):
    """A report and its outcome."""

    state: str | None = Field(
        description="null: no report was cut for the period.", examples=["landed", "superseded"]
    )
    reason: str | None = Field(description="Why it was skipped or came too late.")
    round: int | None = Field(description="null: not signed.")
    digest: HashText | None = Field(description="What was signed.")


class ReportDetail(ReportEntry):
    """A report recomputed from the stored logs, beside the one that was cut."""

    same_as_cut: bool | None = Field(
        description="null: none was cut. A report that came too late may differ, because its "
        "block may have left the chain."
    )
    lanes: list[ReportLane]

    @property
    def is_wrong(self) -> bool:
        """Return whether the report that was cut differs from the recomputed one."""
        return self.same_as_cut is False and self.state not in _TOO_LATE


class PushedReport(ReportBasis):
    """The result of `report push`, or of a dry run of it."""

    dry_run: bool
    steps: list[str]


class HeldReport(ApiModel):
    """A report that waits for an operator."""

    period: int
    reason: str
    held_at: int = Field(description="Unix seconds.")
    facts: dict[str, JsonValue] = Field(description="Numbers that the sanity gate checked.")


class ReleasedReport(HeldReport):
    """A held report that an operator released, or would release in a dry run."""

    released: bool = Field(description="False: a dry run.")


class RoundEntry(ApiModel):
    """One round that the contract accepted, without its words."""

    round: int
    time: int = Field(description="Time of the block that accepted it, unix seconds.")
    as_of: int = Field(description="The block that it speaks of.")
    as_of_hash: HashText
    words: int = Field(description="Number of words of sixteen lanes that it wrote.")
    registered: int = Field(description="Number of nodes that it registered.")
    transmitter: AddressText
    digest: HashText = Field(description="What was signed.")
    place: LogPlace


class LaneDifference(ApiModel):
    """One lane whose accepted and computed values differ; null if a report lacks the lane."""

    index: int
    accepted: int | None
    computed: int | None


class RoundVerification(RoundEntry):
    """An accepted round beside the report recomputed for its as-of block."""

    same: bool = Field(
        description="Whether nothing differs, and the contract does not hold other words."
    )
    same_block: bool = Field(description="Whether the chain still has its as-of block.")
    same_digest: bool = Field(
        description="Whether the same statement, registrations included, would be signed here."
    )
    same_registrations: bool
    expected_registrations: list[AddressText] | None = Field(
        description="Nodes that it should have registered; null: as it did."
    )
    contract_holds_it: bool | None = Field(description="null: a newer round was accepted.")
    differences: list[LaneDifference]
    root: HashText = Field(description="Root of all nodes, computed from the stored logs.")
    same_root: bool | None = Field(
        description="Whether the report of the round has this root; null: its root is not known."
    )
    leaf_difference: LeafDifference | None = Field(
        description="The first leaf that differs: `own_leaf` follows from the logs, and "
        "`other_leaf` is the report's; null: none differs, or the report's leaves are deleted."
    )


def build_lane_entry(index: int, node: str | None, lane: int) -> LaneEntry:
    """Return the answer for a lane of a report or a round."""
    return LaneEntry(
        index=index,
        node=node,
        lane=lane,
        qos=decode_qos(lane),
        is_selectable=lane not in (NEVER_REPORTED, DO_NOT_SELECT),
    )


def build_round_entry(accepted_round: RoundAccepted, place: LogPlace) -> RoundEntry:
    """Return the answer for an accepted round, without its words."""
    return RoundEntry(
        round=accepted_round.round,
        time=accepted_round.time,
        as_of=accepted_round.as_of,
        as_of_hash=accepted_round.as_of_hash,
        words=len(accepted_round.words),
        registered=len(accepted_round.registrations.new_nodes),
        transmitter=accepted_round.transmitter,
        digest=accepted_round.digest,
        place=place,
    )


def compute_report_detail(
    store: Store, reader: LogReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> ReportDetail:
    """Compute the report as of a block, as any reporter with the same rules id would."""
    with store.read_transaction() as uow:
        folded = fold_state_up_to(uow, reader, rules, as_of.number, settings.min_scores)
        policy = KickoutPolicy(rules, reader.holds_kickouts)
        context = build_folded_context(uow, folded, as_of.time, policy)
        computed = build_report(folded, as_of, context, settings, load_domain(uow))
        stored = uow.reports.get(computed.period)
    rounds = folded.rounds
    node_by_lane = {entry.index: entry.node for entry in rounds.indexes.values()}
    node_by_lane |= computed.registrations.compute_assigned_indexes(
        rounds.index_by_node, rounds.node_count
    )
    share_by_node = compute_incentive_shares(folded.fold.ledger.nodes.values(), as_of.time, rules)
    return ReportDetail(
        **dict(_build_report_entry(computed, stored)),
        same_as_cut=None if stored is None else stored.report == computed,
        lanes=list(_build_lanes(computed, node_by_lane, share_by_node)),
    )


def build_report_entry(stored_report: StoredReport) -> ReportEntry:
    """Return the answer for a report that was cut."""
    return _build_report_entry(stored_report.report, stored_report)


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
        root=report.root,
        words=len(report.records) // RECORD_BYTES,
        registers=ReportRegistrations(
            reused=[(pair.new_node, pair.old_node) for pair in registrations.reused],
            appended=list(registrations.appended),
            gas=REGISTRATION_GAS * len(registrations.new_nodes),
        ),
        fingerprint=report.fingerprint,
    )


def build_held_report(hold: ReportHold) -> HeldReport:
    return HeldReport(
        period=hold.period, reason=hold.reason, held_at=hold.held_at, facts=hold.facts
    )


def _build_report_entry(report: Report, stored_report: StoredReport | None) -> ReportEntry:
    return ReportEntry(
        **dict(build_report_basis(report)),
        state=None if stored_report is None else stored_report.outcome,
        reason=None if stored_report is None else stored_report.reason,
        round=None if stored_report is None else stored_report.round,
        digest=None if stored_report is None else stored_report.digest,
    )


def _build_lanes(
    computed_report: Report,
    node_by_lane: Mapping[int, Address],
    share_by_node: Mapping[Address, int],
) -> Iterator[ReportLane]:
    for word, value in decode_records(computed_report.records):
        for index, lane in enumerate(unpack_lanes(value), start=word * LANES_PER_WORD):
            if lane != NEVER_REPORTED:
                node = node_by_lane.get(index)
                yield ReportLane(
                    **dict(build_lane_entry(index, node, lane)),
                    incentive_share=None if node is None else share_by_node.get(node),
                )
