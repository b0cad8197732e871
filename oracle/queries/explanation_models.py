"""The models of an explanation, for `explain --json` and `/v1/nodes/{node}/explain`.

An earning has both the amount that the network reported and the share that follows from the
group's points, so that a difference is visible (docs/explanation/legacy.md#money).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from oracle.chain.profiles.profile import Token
from oracle.domain.blocks import Position
from oracle.domain.feed_rows import get_feed_row_key, is_feed_position
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.domain.state import Ending, GroupMember, Task
from oracle.queries.answers import (
    AddressText,
    ApiModel,
    BlockView,
    FixedPoint,
    HashText,
    Integer,
    RuleSetView,
)
from oracle.queries.incident_models import IncidentView
from oracle.queries.legacy_models import LegacyRounds
from oracle.queries.node_models import NodeEntry, QosIntervalView, WireInteger
from oracle.queries.objection_models import ObjectionDelayEntry, ObjectionEntry
from oracle.queries.text.human_numbers import format_amount


class Origin(ApiModel):
    """The source of an event: a log on chain, or a feed row, which has no proof."""

    block: int
    log: int | None = Field(
        description="Index of the log; null for a row of a feed, and -1 for a call without a log."
    )
    feed: tuple[int, int] | None = Field(
        description=(
            "Number of the feed's stream, and id of the row; null for an event of the chain."
        )
    )
    proof: Literal["chain", "none"]


class LoggedOrigin(Origin):
    """The source of an event, including the transaction."""

    transaction: HashText | None = Field(
        description=(
            "Hash of the transaction; null for a feed row or a call, or if the raw log is not "
            "stored."
        )
    )


class EarningView(ApiModel):
    """A node's earnings from a task, which are all or part of the fee.

    Amounts are in the token's smallest unit.
    """

    paid: Integer
    fee: Integer
    points: WireInteger | None = Field(
        description=(
            "Points for which the node received a share of the fee; null if the fee was not "
            "shared, or if the group's shares are unknown."
        )
    )
    of_points: WireInteger | None
    by_points: Integer | None = Field(
        description=(
            "Share of the fee that the rules give for these points; null if `points` is null."
        )
    )

    def to_text(self, token: Token) -> str:
        """Format the earned amount, and the points by which the fee was shared."""

        def format_wei(amount: int) -> str:
            return format_amount(amount, token.symbol, token.decimals)

        earned_text = f"earned {format_wei(self.paid)} of {format_wei(self.fee)}"
        if self.points is None:
            return earned_text
        share_text = f"{earned_text}: {self.points} of {self.of_points} points"
        if self.by_points is None or self.paid == self.by_points:
            return share_text
        difference = format_wei(abs(self.by_points - self.paid))
        return (
            f"{share_text}, BUT THE POINTS GIVE {difference} "
            f"{'MORE' if self.by_points > self.paid else 'LESS'}"
        )


class GroupFellow(ApiModel):
    """Another task of the same group as the scored task."""

    task: HashText
    node: AddressText | None
    rank: int | None
    elapsed: int | None = Field(
        description=(
            "Seconds from the start of the task to its answer; null if there is no answer."
        )
    )
    error_reported: bool
    possible: bool = Field(
        description="Whether it is uncertain that the task belongs to the group."
    )


class ScoreView(LoggedOrigin):
    """The score of a task in the score pool."""

    seq: int = Field(description="Number of the score among the scores of the node, from 1.")
    task: HashText
    group: HashText
    creator: AddressText | None
    rank: int | None
    elapsed: int | None = Field(
        description=(
            "Seconds from the start of the task to its answer; null if there is no answer."
        )
    )
    error_reported: bool
    score: int
    derived: bool = Field(
        description=(
            "Whether the oracle derived the score from other rows of a feed, because the feed "
            "does not list members without an answer."
        )
    )
    rules: RuleSetView | None
    time: int = Field(description="Block time of the score, in unix seconds.")
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
    time: int = Field(description="Block time of the change, in unix seconds.")
    incident: int | None = Field(
        description="Number of the incident that marks this timeout; null if no incident marks it."
    )


class ReliabilityView(ApiModel):
    """The reliability H: its value `base` at the time `since`, from which it recovers."""

    base: FixedPoint
    since: int = Field(
        description=(
            "Block time at which the reliability was `base`, in unix seconds; from then on it "
            "only recovers."
        )
    )
    changes: list[ReliabilityChangeView]


class KickoutInterval(ApiModel):
    """The span of blocks in which a kickout was due."""

    opened_at: Origin
    closed_at: Origin | None = Field(
        description="Event after which the kickout was no longer due; null if it is still due."
    )


class DownloadView(ApiModel):
    """A request to a node to download a model; times are in unix seconds."""

    model: str
    requested_at: int
    until: int
    state: str = Field(examples=["open", "answered", "unanswered"])


class LaneOnChain(ApiModel):
    """The node's lane in the last round that was accepted up to the explained block."""

    seat: int = Field(description="Index of the node's leaf in the tree of the round.")
    lane: int
    qos: int = Field(
        description="QoS of the node in steps of 0.0001; 0 if the node must not be selected."
    )
    round: int
    time: int = Field(description="Time of the block that accepted the round, in unix seconds.")
    as_of: int = Field(description="Block at which the report of the round was computed.")


class SentLane(LoggedOrigin):
    """The node's lane in the report whose as-of block is the explained block."""

    round: int
    lane: int | None = Field(
        description=(
            "Lane of the node in this report; null if the node has no leaf in it, or if its "
            "leaves are not stored."
        )
    )


class NodeExplanation(ApiModel):
    """All numbers that a node's score is computed from, each with its source log."""

    row: NodeEntry = Field(description="The node's row in the list of nodes, as of this block.")
    interval: QosIntervalView | None = Field(
        description=(
            "The 90 % interval of the QoS; null if the node is not a member or has no scores, if "
            "legacy rules apply, or if a mean of 0 counts as no score."
        )
    )
    as_of: BlockView
    rules: str
    rules_version: int
    rules_sha256: str
    pool: ScorePoolView
    lowest_long_term: FixedPoint = Field(
        description=(
            "Lower bound of the long-term score, 0 to 1, if each group in `possible_zeros` had "
            "given the node the score of a missing answer; equal to `row.long_term` if there is "
            "none."
        )
    )
    possible_zeros: list[Origin]
    reliability: ReliabilityView
    incidents: list[IncidentView] = Field(
        description="Incidents that mark timeouts of the node, oldest first."
    )
    kickouts: list[KickoutInterval]
    held: str | None = Field(
        description=(
            "Why the due kickout is held, so that only the vetoer can allow it; null if no "
            "kickout is due or held."
        )
    )
    objections: list[ObjectionEntry] = Field(
        description=(
            "The node's newest objections up to this block, newest first; their check and answer "
            "are as of the last block."
        )
    )
    objection_delay: ObjectionDelayEntry | None = Field(
        description=(
            "Why this reporter does not accuse the node yet; null if neither an objection nor the "
            "time left to object delays the accusation, or if the block is not the last one."
        )
    )
    downloads: list[DownloadView]
    on_chain: LaneOnChain | None = Field(
        description=(
            "The node's lane in the last accepted round; null if no round was accepted, if the "
            "node has no leaf in it, or if its leaves are not stored."
        )
    )
    sent: SentLane | None
    legacy_rounds: list[LegacyRounds] | None = Field(
        description=(
            "Both rounds of each scored task in the window, under legacy rules; otherwise null."
        )
    )


def build_event_origin(position: Position) -> Origin:
    """Return the source of an event, and whether a proof of it exists.

    Feed rows have no proof.
    """
    if not is_feed_position(position):
        return Origin(block=position.block, log=position.log, feed=None, proof="chain")
    return Origin(block=position.block, log=None, feed=get_feed_row_key(position), proof="none")


def compute_task_earning(
    task_key: TaskKey, members: Sequence[GroupMember], tasks: Mapping[TaskKey, Task]
) -> EarningView | None:
    """Return what a node earned from a scored task, or None if the fee is unknown.

    Args:
        task_key: the task.
        members: the members of its group, in the order in which the network compared them.
        tasks: the rows of the task and of the members' tasks.
    """
    task = tasks.get(task_key)
    if task is None:
        return None
    if task.paid is None:
        if task.fee is None or task.ending is None:
            return None
        paid_fee = task.fee if task.ending is Ending.SUCCEEDED else 0
        return EarningView(
            paid=paid_fee, fee=task.fee, points=None, of_points=None, by_points=None
        )
    paid_members = [
        (member.task, member.score or 0, row.paid)
        for member in members
        if (row := tasks.get(member.task)) is not None and row.paid is not None
    ]
    total_paid = sum(paid for _, _, paid in paid_members)
    scores = [score for _, score, _ in paid_members]
    paid_tasks = [paid_task for paid_task, _, _ in paid_members]
    if task_key not in paid_tasks:
        return EarningView(
            paid=task.paid, fee=total_paid, points=None, of_points=None, by_points=None
        )
    task_index = paid_tasks.index(task_key)
    return EarningView(
        paid=task.paid,
        fee=total_paid,
        points=scores[task_index],
        of_points=sum(scores),
        by_points=split_fee_by_scores(total_paid, scores)[task_index],
    )
