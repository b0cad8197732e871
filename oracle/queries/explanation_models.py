"""The explanation of a score, printed by `explain --json` and `/v1/nodes/{node}/explain`."""

from typing import Literal

from pydantic import Field

from oracle.queries.answers import (
    AddressText,
    ApiModel,
    BlockView,
    FixedPoint,
    HashText,
    Integer,
    RuleSetView,
)
from oracle.queries.legacy_models import LegacyRounds
from oracle.queries.node_models import NodeEntry, WireInteger


class Origin(ApiModel):
    """The source of an event: a log of the chain, or a row of a feed, which has no proof."""

    block: int
    log: int | None = Field(
        description="Log index; null for a feed's row, -1 for a call without a log."
    )
    feed: tuple[int, int] | None = Field(description="Stream and row of a feed.")
    proof: Literal["chain", "none"]


class LoggedOrigin(Origin):
    """The source of an event with its transaction."""

    transaction: HashText | None = Field(description="null: the raw log is not stored.")


class EarningView(ApiModel):
    """What a node earned for a task, in wei, of a fee paid to one or several nodes."""

    paid: Integer
    fee: Integer
    points: WireInteger | None = Field(description="null: the fee was not shared.")
    of_points: WireInteger | None
    by_points: Integer | None = Field(description="Share of the fee that follows from the points.")


class GroupFellow(ApiModel):
    """Another task of the same group."""

    task: HashText
    node: AddressText | None
    rank: int | None
    elapsed: int | None = Field(description="In seconds.")
    error_reported: bool
    possible: bool = Field(
        description="Whether it is uncertain that the task belongs to the group."
    )


class ScoreView(LoggedOrigin):
    """A task score in the pool."""

    seq: int = Field(description="Counts the scores of the node from 1.")
    task: HashText
    group: HashText
    creator: AddressText | None
    rank: int | None
    elapsed: int | None = Field(description="In seconds.")
    error_reported: bool
    score: int
    derived: bool = Field(
        description="Whether the score was derived, because no event reports it."
    )
    rules: RuleSetView | None
    time: int = Field(description="Unix seconds.")
    earned: EarningView | None
    others: list[GroupFellow]


class ScorePoolView(ApiModel):
    """The scores from which the long-term score is computed."""

    scores: list[int]
    sum: int
    size: int
    creators: int
    most_of_one_creator: int
    decisive_of_one_creator: int
    entries: list[ScoreView]


class ReliabilityChangeView(LoggedOrigin):
    """A change of the reliability H."""

    cause: str
    task: HashText | None
    before: FixedPoint
    after: FixedPoint
    time: int = Field(description="Unix seconds.")


class ReliabilityView(ApiModel):
    """The reliability H: `base` at the time `since`, from which it recovers."""

    base: FixedPoint
    since: int = Field(description="Unix seconds.")
    changes: list[ReliabilityChangeView]


class KickoutInterval(ApiModel):
    """The period in which a kickout was due."""

    opened_at: Origin
    closed_at: Origin | None = Field(description="null: still due.")


class DownloadView(ApiModel):
    """A request to download a model; times in unix seconds."""

    model: str
    asked_at: int
    until: int
    state: str = Field(examples=["open", "answered", "unanswered"])


class LaneOnChain(ApiModel):
    """The lane of the node as the contract stores it."""

    index: int
    lane: int
    qos: int
    round: int | None
    time: int | None = Field(description="Unix seconds.")
    as_of: int | None = Field(description="As-of block of the round.")


class SentLane(LoggedOrigin):
    """The lane of the node in the report whose as-of block is the explained block."""

    round: int
    lane: int | None


class NodeExplanation(ApiModel):
    """Every number from which the score of a node results, each with its log."""

    row: NodeEntry = Field(description="The node's row in the list of nodes, as of the block.")
    as_of: BlockView
    rules: str
    rules_version: int
    rules_sha256: str
    pool: ScorePoolView
    lowest_long_term: FixedPoint = Field(
        description="Lower bound, with every possible 0 included."
    )
    possible_zeros: list[Origin]
    reliability: ReliabilityView
    kickouts: list[KickoutInterval]
    held: str | None = Field(description="Why an operator has to propose its kickout.")
    downloads: list[DownloadView]
    on_chain: LaneOnChain | None = Field(
        description="null: the node has no index in the contract."
    )
    sent: SentLane | None
    legacy_rounds: list[LegacyRounds] | None = Field(
        description="Rounds of the tasks in the window; only under legacy rules."
    )
