"""The models of a period's report and of an accepted round, for `--json` and HTTP alike."""

from pydantic import Field, JsonValue

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.lanes import DO_NOT_SELECT, NEVER_REPORTED, decode_qos
from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText, LogPlace

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


def build_lane_entry(index: int, node: str | None, lane: int) -> LaneEntry:
    """Return the answer for a lane of a report or a round."""
    return LaneEntry(
        index=index,
        node=node,
        lane=lane,
        qos=decode_qos(lane),
        is_selectable=lane not in (NEVER_REPORTED, DO_NOT_SELECT),
    )


def build_round_entry(accepted: RoundAccepted, place: LogPlace) -> RoundEntry:
    """Return the answer for an accepted round, without its words."""
    return RoundEntry(
        round=accepted.round,
        time=accepted.time,
        as_of=accepted.as_of,
        as_of_hash=accepted.as_of_hash,
        words=len(accepted.words),
        registered=len(accepted.registrations.new_nodes),
        transmitter=accepted.transmitter,
        digest=accepted.digest,
        place=place,
    )
