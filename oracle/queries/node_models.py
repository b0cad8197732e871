"""The row of a node in a list, as `nodes`, `explain` and the read API show it."""

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, WithJsonSchema

from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.scoring.node_figures import NodeState
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_interval import compute_qos_interval
from oracle.domain.state import Node
from oracle.queries.answers import AddressText, Answer, ApiModel, FixedPoint
from oracle.queries.text.text_tables import Column

# A number in JSON, or text if the number is too large for JavaScript.
WireInteger = Annotated[
    int,
    PlainSerializer(encode_int, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]}),
]


class LegacyScore(ApiModel):
    """A node's score in the window of legacy rules; R, P, B and Q are null for a non-member."""

    window: WireInteger
    window_began: WireInteger = Field(description="Unix seconds.")
    tasks: int = Field(description="Tasks scored in the window.")
    node_score: FixedPoint | None = Field(description="Mean of the window, 0 to 20.")
    online_seconds: WireInteger = Field(description="Seconds as a member in the window.")
    R: FixedPoint | None = Field(description="VRAM relative to the maximum.")
    P: FixedPoint | None = Field(description="Timeout setting relative to the maximum.")
    B: FixedPoint | None = Field(
        description=(
            "Node score relative to the best node's; null (counts as 0): no task in the window."
        )
    )
    Q: FixedPoint | None = Field(description="The weighted sum of R, P and B.")
    incentive_share: FixedPoint | None = Field(
        description="Its share of the window's incentive, as of the block."
    )


class NodeEntry(ApiModel):
    """A node as of a block: one row of the list of nodes."""

    place: Annotated[int | None, Column("#")] = Field(
        description="Place by QoS, from 1; null if the node has no QoS.", examples=[12]
    )
    node: Annotated[AddressText, Column("node")]
    label: str | None = Field(description="The operator's label; null if none.")
    state: NodeState
    status: Annotated[str, Column("status")] = Field(
        description="Status in the network: available, busy, paused …"
    )
    excluded: bool = Field(description="Whether a member gets no tasks for the time being.")
    back_at: int | None = Field(
        description=(
            "End of the exclusion if no event occurs before, unix seconds; null if not excluded."
        )
    )
    kickout_due: bool
    proof: Literal["chain", "none"] = Field(description="none: based on a feed.")
    gpu: str | None = Field(description="GPU as the node reports it.", examples=["RTX 4090"])
    vram: int | None = Field(description="In GB.", examples=[24])
    scores_in_pool: int = Field(examples=[33])
    scored_in_all: Annotated[int, Column("scores")] = Field(examples=[412])
    long_term: Annotated[FixedPoint, Column("long-term")]
    reliability: Annotated[FixedPoint, Column("reliability")] = Field(
        description="H at the block's time."
    )
    qos: Annotated[FixedPoint | None, Column("QoS")] = Field(description="null if not a member.")
    lane: int = Field(description="Lane of a report as of the block, 1 to 10002.")
    seat: int = Field(description="Index of its leaf in the tree of each round.")
    lane_on_chain: Annotated[int, Column("on chain")] = Field(
        description="Lane in the last accepted round; 0: the node has no leaf, 1: not selectable."
    )
    on_chain: FixedPoint | None = Field(
        description="QoS in the last accepted round; null if no leaf, or not selectable."
    )
    changed_at: int = Field(description="The block of the last change.")
    legacy: LegacyScore | None = Field(description="Only under legacy rules.")


class QosIntervalView(ApiModel):
    """The 90 % interval of a QoS, given the number of scores in its mean.

    The interval takes half a millisecond to compute, so rows of lists do not have it.
    """

    low: FixedPoint
    high: FixedPoint


def build_qos_interval(node: Node, time: int, rules: Rules) -> QosIntervalView | None:
    """Return the interval of a node's QoS at a block time, or None if the node has none."""
    interval = compute_qos_interval(node, time, rules)
    return None if interval is None else QosIntervalView(low=interval[0], high=interval[1])


class NodePage(Answer):
    """A page of the list of nodes."""

    total: int = Field(description="Nodes of the network, before filters.")
    counts: dict[NodeState, int] = Field(description="Number of nodes in each state.")
    nodes: list[NodeEntry]
    next: str | None = Field(
        description="`cursor` of the next page; null if this is the last one."
    )
    moved: bool = Field(
        description="The page cursor belongs to an earlier block, so places may have changed."
    )
