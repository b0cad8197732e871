"""A node as a list entry in `nodes`, `explain` and the read API."""

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, WithJsonSchema

from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.scoring.node_figures import NodeState, compute_qos_interval
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.answers import AddressText, Answer, ApiModel, FixedPoint
from oracle.queries.text.text_tables import Column

# An integer that is a number in JSON, or a string if it is too large for JavaScript.
WireInteger = Annotated[
    int,
    PlainSerializer(encode_int, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]}),
]


class LegacyScore(ApiModel):
    """A node's score in the window of legacy rules; R, P, B and Q are null for non-members."""

    window: WireInteger
    window_began: WireInteger = Field(
        description="Time at which the window began, in unix seconds."
    )
    tasks: int = Field(description="Number of tasks of the node that were scored in the window.")
    node_score: FixedPoint | None = Field(
        description="Mean of these scores, 0 to 20; null if there are none."
    )
    online_seconds: WireInteger = Field(
        description=(
            "Number of seconds, including pauses, during which the node was a member in the "
            "window."
        )
    )
    R: FixedPoint | None = Field(
        description=(
            "Video memory of the node divided by the largest video memory of all members; 0 if "
            "the node's is unknown."
        )
    )
    P: FixedPoint | None = Field(
        description=(
            "Promptness: 1 for the shortest timeout setting that the rules allow, falling to 0 "
            "for the longest setting of all members; 0 if the node's is unknown."
        )
    )
    B: FixedPoint | None = Field(
        description=(
            "`node_score` divided by the highest `node_score` of all members; null if the node "
            "had no task in the window, which counts as 0 in Q."
        )
    )
    Q: FixedPoint | None = Field(description="Weighted sum of R, P and B.")
    incentive_share: FixedPoint | None = Field(
        description=(
            "The node's share of the window's incentive, 0 to 1, as of this block; null if the "
            "node is not a member."
        )
    )


class NodeEntry(ApiModel):
    """An entry in a list of nodes, as of a block."""

    place: Annotated[int | None, Column("#")] = Field(
        description="Place of the node by QoS, from 1; null if the node has no QoS.", examples=[12]
    )
    node: Annotated[AddressText, Column("node")]
    label: str | None = Field(
        description="Label that the operator gave the node; null if there is none."
    )
    state: NodeState
    status: Annotated[str, Column("status")] = Field(
        description="State of the node in the network, such as available, busy or paused."
    )
    excluded: bool = Field(
        description=(
            "Whether the node is a member but gets no tasks for now, because its reliability is "
            "too low."
        )
    )
    back_at: int | None = Field(
        description=(
            "Time at which recovery alone ends the exclusion, in unix seconds; null if the node "
            "is not excluded."
        )
    )
    kickout_due: bool
    proof: Literal["chain", "none"] = Field(
        description=(
            "`chain`: all events of the index come from the chain. `none`: the index also reads a "
            "feed, whose rows have no proof."
        )
    )
    gpu: str | None = Field(
        description="GPU model as the node reports it; null if it is unknown.",
        examples=["RTX 4090"],
    )
    vram: int | None = Field(
        description="Video memory of the GPU in GB; null if it is unknown.", examples=[24]
    )
    scores_in_pool: int = Field(examples=[33])
    scored_in_all: Annotated[int, Column("scores")] = Field(examples=[412])
    long_term: Annotated[FixedPoint, Column("long-term")]
    reliability: Annotated[FixedPoint, Column("reliability")] = Field(
        description="Reliability H at the time of the block."
    )
    qos: Annotated[FixedPoint | None, Column("QoS")] = Field(
        description="QoS of the node; null if the node is not a member."
    )
    lane: int = Field(
        description=(
            "Lane that a report at this block would contain: 1 if the node must not be selected, "
            "else its QoS in steps of 0.0001, plus 2 (2 to 10002)."
        )
    )
    seat: int = Field(description="Index of the node's leaf in the tree of each round.")
    lane_on_chain: Annotated[int, Column("on chain")] = Field(
        description=(
            "Lane in the last accepted round: 1 if the node must not be selected; 0 if there is "
            "no such round, if it was struck, if it has no leaf of the node, or if its leaves are "
            "not stored."
        )
    )
    on_chain: FixedPoint | None = Field(
        description="QoS in the last accepted round; null if `lane_on_chain` is 0 or 1."
    )
    changed_at: int = Field(
        description=(
            "Block of the newest network event that updated the node; recovery and rounds do not "
            "count."
        )
    )
    legacy: LegacyScore | None = Field(
        description="Factors of the score under legacy rules; null under other rules."
    )


class QosIntervalView(ApiModel):
    """The 90 % interval of a QoS, based on the number of scores in its mean.

    The interval takes half a millisecond to compute, so rows of lists do not have it.
    """

    low: FixedPoint
    high: FixedPoint


def build_qos_interval(node: Node, time: int, rules: Rules) -> QosIntervalView | None:
    """Return the interval of a node's QoS at a block time, or None if there is none."""
    interval = compute_qos_interval(node, time, rules)
    return None if interval is None else QosIntervalView(low=interval[0], high=interval[1])


class NodePage(Answer):
    """A page of the list of nodes."""

    total: int = Field(description="Number of all nodes of the network, before filters.")
    counts: dict[NodeState, int] = Field(
        description="Number of all nodes of the network in each state, before filters."
    )
    nodes: list[NodeEntry]
    next: str | None = Field(
        description="Value of `cursor` that requests the next page; null on the last page."
    )
    moved: bool = Field(
        description=(
            "Whether `cursor` comes from an earlier block, so that a node may be repeated or "
            "missing."
        )
    )
