"""The models of reports (stored, recomputed or held) and of rounds, for `--json` and HTTP."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from operator import attrgetter

from pydantic import Field, JsonValue

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT, decode_qos
from oracle.domain.reports.report import Lanes, Report, ReportSettings
from oracle.domain.scoring.legacy_factors import compute_incentive_shares
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.round_leaves import LeafCache, load_round_lanes
from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText, LogPlace
from oracle.queries.leaf_models import LeafDifference
from oracle.reporting.recompute import build_report, build_tree_of_folded_state
from oracle.store.database import Store
from oracle.store.report_repository import StoredReport

# If a report was too late, its as-of block may no longer be on the chain.
_TOO_LATE = ("missed", "superseded")


class SignatureState(StrEnum):
    """How a reporter's statement compares with the statements of most signers."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_SIGNED = "not signed"
    NO_RESPONSE = "no response"
    INVALID = "invalid response"
    UNKNOWN_SIGNER = "unknown signer"


class ReportLane(ApiModel):
    """A node whose score in a report differs from the last round."""

    seat: int = Field(description="Index of the node's leaf in the tree of the report.")
    node: AddressText
    before: int | None = Field(
        description="Lane of the node in the last round; null if the node had no leaf in it."
    )
    lane: int = Field(ge=1, le=65_535)
    qos: FixedPoint | None = Field(
        description="QoS of the node; null if the node must not be selected."
    )
    is_selectable: bool
    incentive_share: FixedPoint | None = Field(
        description=(
            "The node's share of the window's incentive under legacy rules, as of the report's "
            "block; null if the node is not a member."
        )
    )


class ReportBasis(ApiModel):
    """The block and the round that a report is based on, its root, and its changes."""

    period: int
    as_of: int = Field(description="Block at which the report was computed.")
    as_of_hash: HashText
    as_of_time: int = Field(description="Time of this block, in unix seconds.")
    head_round: int = Field(description="The last round that was accepted up to this block.")
    prev: HashText = Field(
        description="Root of `head_round`; zero if there is none, or if it was struck."
    )
    deadline: int = Field(
        description="Time until which the contract accepts the report, in unix seconds."
    )
    root: HashText = Field(
        description="Merkle root of all nodes at this block, in round `head_round` + 1."
    )
    fingerprint: HashText = Field(description="SHA-256 of the whole report.")


class ReportEntry(ReportBasis):
    """A report of this reporter and its outcome."""

    changed_nodes: int | None = Field(
        description=(
            "Number of nodes whose lane differs from their lane in `head_round`; null if there is "
            "no report."
        )
    )

    state: str | None = Field(
        description="State of the report; null if the period has no report.",
        examples=["landed", "superseded"],
    )
    reason: str | None = Field(
        description="Why the report was skipped or came too late; null if it was not."
    )
    round: int | None = Field(
        description="Round for which the report was signed; null if it was not signed."
    )
    digest: HashText | None = Field(
        description="Digest that was signed; null if the report was not signed."
    )


class ReportDetail(ReportEntry):
    """A report recomputed from stored logs, and the stored report of its period."""

    same_as_cut: bool | None = Field(
        description=(
            "Whether the recomputed report equals the stored one; null if there is no stored "
            "one. A report that came too late may differ, because its block may have left the "
            "chain."
        )
    )
    lanes: list[ReportLane] = Field(
        description="The nodes whose lane differs from `head_round`; empty if its leaves are not "
        "stored."
    )

    @property
    def is_wrong(self) -> bool:
        """Return whether the stored report differs from the recomputed one."""
        return self.same_as_cut is False and self.state not in _TOO_LATE


class PushedReport(ReportBasis):
    """The result of `report push`, or of a dry run of this command."""

    dry_run: bool
    steps: list[str]


class HeldReport(ApiModel):
    """A report that waits for an operator's decision."""

    period: int
    reason: str
    held_at: int = Field(description="Time at which the report was held, in unix seconds.")
    facts: dict[str, JsonValue] = Field(description="Numbers that the sanity gate checked.")


class ReleasedReport(HeldReport):
    """A held report that an operator released, or would release in a dry run."""

    released: bool = Field(description="Whether the report was released; false in a dry run.")


class RoundSignature(ApiModel):
    """A reporter's statement about a round, or why it is unknown."""

    reporter: str = Field(
        description=(
            "`this reporter`, the address of a peer, or `received earlier` if the peer does not "
            "respond now; empty if no reporter has a statement of this signer."
        )
    )
    state: SignatureState
    signer: AddressText | None = Field(
        description=(
            "Signer of the statement, or a signer of the contract of whom no statement was found; "
            "null if the reporter sent no statement."
        )
    )
    as_of: int | None = Field(
        description="Block at which the signed report was computed; null without a statement."
    )
    root: HashText | None
    config: HashText | None = Field(
        description=(
            "Digest of the chain, the contract, and its configuration (number, signers, quorum "
            "and rules) for which the statement was signed; null without a statement."
        )
    )


class RoundSignatures(ApiModel):
    """The statements of all reporters about a round, and how they compare."""

    round: int
    is_accepted: bool = Field(description="Whether the contract accepted this round.")
    quorum: int = Field(description="Number of signatures that the contract requires.")
    agreeing: int = Field(description="The largest number of signers that signed the same digest.")
    signatures: list[RoundSignature]


class RoundEntry(ApiModel):
    """A round that the contract accepted."""

    round: int
    time: int = Field(description="Time of the block that accepted the round, in unix seconds.")
    as_of: int = Field(description="Block at which the report was computed.")
    as_of_hash: HashText
    root: HashText = Field(
        description="Root of the round's tree; every leaf can be proven with it."
    )
    is_struck: bool = Field(
        description="Whether the root was struck, so that nothing can be proven with it."
    )
    place: LogPlace


class EndpointRoot(ApiModel):
    """The contract's root of a round, as returned by one endpoint at its newest block."""

    endpoint: str
    block: int
    is_behind: bool = Field(
        description="Whether the block is below the block that accepted the round."
    )
    root: HashText | None = Field(
        description=(
            "Root of the round in the contract; null if the contract does not have it at this "
            "block, or if it was struck."
        )
    )


class RoundVerification(RoundEntry):
    """An accepted round, and the root that was recomputed at its as-of block."""

    same: bool = Field(
        description=(
            "Whether the as-of block is still on the chain, the computed root is the accepted "
            "one, and no endpoint returned another root of this round."
        )
    )
    same_block: bool = Field(description="Whether the as-of block is still on the chain.")
    computed_root: HashText = Field(
        description="Root computed from the stored logs up to the as-of block."
    )
    contract_has_root: bool | None = Field(
        description=(
            "Whether every endpoint that returned the contract's root of this round returned the "
            "accepted one; null if no endpoint returned a root."
        )
    )
    contract_roots: list[EndpointRoot] = Field(
        description="The contract's root of this round, by endpoint that responded."
    )
    leaf_difference: LeafDifference | None = Field(
        description=(
            "The first leaf that differs: `own_leaf` was computed from the logs, and "
            "`other_leaf` is part of the round; null if the roots are equal, or if the round's "
            "leaves are not stored."
        )
    )


def build_round_entry(
    accepted_round: RoundAccepted, place: LogPlace, *, is_struck: bool
) -> RoundEntry:
    """Build the entry of an accepted round."""
    return RoundEntry(
        round=accepted_round.round,
        time=accepted_round.time,
        as_of=accepted_round.as_of,
        as_of_hash=accepted_round.as_of_hash,
        root=accepted_round.root,
        is_struck=is_struck,
        place=place,
    )


def compute_report_detail(
    store: Store, reader: EventReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> ReportDetail:
    """Compute the report at a block, as any reporter with the same rules id would."""
    with store.read_transaction() as uow:
        folded_state = fold_state_up_to(uow, reader, rules, as_of.number)
        computed_report = build_report(uow, reader, folded_state, as_of, rules, settings)
        lanes = build_tree_of_folded_state(uow, reader, folded_state, as_of.time, rules).lanes
        stored_report = uow.reports.get(computed_report.period)
        head = folded_state.contract_state.head
        last_lanes = None if head is None else load_round_lanes(uow, LeafCache(), head)
    nodes = folded_state.fold.ledger.nodes.values()
    shares = compute_incentive_shares(nodes, as_of.time, rules)
    return ReportDetail(
        **dict(_build_report_entry(computed_report, stored_report)),
        same_as_cut=None if stored_report is None else stored_report.report == computed_report,
        lanes=list(_build_report_lanes(nodes, lanes, last_lanes, shares)),
    )


def build_report_entry(stored_report: StoredReport) -> ReportEntry:
    """Build the entry of a stored report."""
    return _build_report_entry(stored_report.report, stored_report)


def build_report_basis(report: Report) -> ReportBasis:
    """Return the block and the round that a report is based on."""
    return ReportBasis(
        period=report.period,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        as_of_time=report.as_of.time,
        head_round=report.head_round,
        prev=report.prev,
        deadline=report.deadline,
        root=report.root,
        fingerprint=report.fingerprint,
    )


def _build_report_entry(report: Report, stored_report: StoredReport | None) -> ReportEntry:
    return ReportEntry(
        **dict(build_report_basis(report)),
        changed_nodes=None if stored_report is None else stored_report.report.change.node_count,
        state=None if stored_report is None else stored_report.outcome,
        reason=None if stored_report is None else stored_report.reason,
        round=None if stored_report is None else stored_report.round,
        digest=None if stored_report is None else stored_report.digest,
    )


def _build_report_lanes(
    nodes: Iterable[Node],
    lanes: Lanes,
    last_lanes: Lanes | None,
    share_by_node: Mapping[Address, int],
) -> Iterator[ReportLane]:
    """Yield the nodes whose lanes differ from the last round, in seat order."""
    last_lane_count = 0 if last_lanes is None else len(last_lanes)
    if last_lanes is not None and not last_lane_count:
        # There is nothing to compare with, because the leaves of the last round are not stored.
        return
    for node in sorted(nodes, key=attrgetter("seat")):
        previous_lane = (
            None if last_lanes is None or node.seat >= last_lane_count else last_lanes[node.seat]
        )
        lane = lanes[node.seat]
        if lane != previous_lane:
            yield ReportLane(
                seat=node.seat,
                node=node.address,
                before=previous_lane,
                lane=lane,
                qos=decode_qos(lane),
                is_selectable=lane != DO_NOT_SELECT,
                incentive_share=share_by_node.get(node.address),
            )
