"""Read API answers about the effect of other rules on the network and on one node."""

from collections.abc import Iterable, Iterator

from pydantic import Field

from oracle.domain.ids import Address
from oracle.domain.scoring.rank_correlation import compute_rank_correlation
from oracle.queries.answers import AddressText, Answer, ApiModel, FixedPoint
from oracle.queries.api.rules_preview import (
    PREVIEW_FOLDER,
    NodePreview,
    OtherRules,
    RulesPreview,
    iterate_previews,
    list_other_rules,
)
from oracle.queries.api.source import ApiSnapshot

_LISTED_NODES = 10


class PreviewOrigin(ApiModel):
    """The other rules, and the block at which the rule sets were compared."""

    rules: str = Field(description="Hash of the announced rules, or name of the shadow set.")
    ready_at: int | None = Field(
        description=(
            "Earliest time at which the announced rules come into force, in unix seconds; null "
            "for a shadow set, which is not announced."
        )
    )
    block: int = Field(
        description="The final block up to which events were scored under both rule sets."
    )
    time: int = Field(description="Time of this block, in unix seconds.")


class NodeUnderRules(ApiModel):
    """The rank and QoS of a node under the rules in force and under other rules."""

    node: AddressText
    rank_now: int | None = Field(
        description="Rank of the node under the current rules; null if it is not a member."
    )
    rank_then: int | None
    qos_now: FixedPoint | None
    qos_then: FixedPoint | None
    chance_now: FixedPoint | None = Field(
        description=(
            "Chance that the node is drawn for the next task under the current rules: its weight "
            "divided by the sum of the weights of all members that are neither paused nor "
            "excluded; 0 if it is paused or excluded; null if it is not a member, if the policy "
            "has no such weights, or if all weights are 0."
        )
    )
    chance_then: FixedPoint | None
    kickout_due_now: bool
    kickout_due_then: bool
    excluded_now: bool
    excluded_then: bool


class NodePreviewView(PreviewOrigin):
    """A node under the rules in force and under one other rule set."""

    figures: NodeUnderRules


class NodePreviews(Answer):
    """A node under each of the other rule sets."""

    node: AddressText
    previews: list[NodePreviewView]


class RulesPreviewView(PreviewOrigin):
    """The effect of other rules on the network."""

    members: int
    rising: int = Field(description="Number of members that gain at least one place.")
    falling: int = Field(description="Number of members that lose at least one place.")
    rank_correlation: FixedPoint | None = Field(
        description=(
            "Spearman's rank correlation of all members' QoS under both rule sets: 1 if the order "
            "does not change, -1 if it is reversed; null if there are fewer than two members, or "
            "if all have the same QoS under one of them."
        )
    )
    kickouts_beginning: int = Field(
        description="Number of nodes whose kickout is due only under the other rules."
    )
    kickouts_ending: int = Field(
        description="Number of nodes whose kickout is due only under the current rules."
    )
    losers: list[NodeUnderRules] = Field(
        description="Up to ten members that lose places, those that lose most first."
    )
    winners: list[NodeUnderRules] = Field(
        description="Up to ten members that gain places, those that gain most first."
    )


class RulesPreviews(Answer):
    """The effects of announced rules and shadow sets on the network."""

    previews: list[RulesPreviewView]


def build_rules_previews(snapshot: ApiSnapshot) -> RulesPreviews:
    """Return the effect of each other rule set on the network."""
    return RulesPreviews(
        as_of=snapshot.as_of,
        previews=[
            build_preview_view(other_set, preview)
            for other_set, preview in _iterate_previews(snapshot)
        ],
    )


def build_node_previews(snapshot: ApiSnapshot, address: Address) -> NodePreviews:
    """Return the rank and QoS of a node under each other rule set."""
    return NodePreviews(
        as_of=snapshot.as_of,
        node=address,
        previews=[
            NodePreviewView(
                **_build_origin(other_set, preview).model_dump(),
                figures=NodeUnderRules.model_validate(node_preview),
            )
            for other_set, preview in _iterate_previews(snapshot)
            if (node_preview := preview.find_node(address)) is not None
        ],
    )


def build_preview_view(other_set: OtherRules, preview: RulesPreview) -> RulesPreviewView:
    """Return a preview's totals, and the nodes whose ranks change most."""
    nodes = preview.nodes
    moved_nodes = sorted(
        (entry for entry in nodes if entry.places_lost), key=lambda entry: entry.places_lost
    )
    falling_nodes = [entry for entry in reversed(moved_nodes) if entry.places_lost > 0]
    rising_nodes = [entry for entry in moved_nodes if entry.places_lost < 0]
    return RulesPreviewView(
        **_build_origin(other_set, preview).model_dump(),
        members=sum(entry.rank_now is not None for entry in nodes),
        rising=len(rising_nodes),
        falling=len(falling_nodes),
        rank_correlation=_compute_rank_correlation(nodes),
        kickouts_beginning=sum(
            entry.kickout_due_then and not entry.kickout_due_now for entry in nodes
        ),
        kickouts_ending=sum(
            entry.kickout_due_now and not entry.kickout_due_then for entry in nodes
        ),
        losers=list(map(NodeUnderRules.model_validate, falling_nodes[:_LISTED_NODES])),
        winners=list(map(NodeUnderRules.model_validate, rising_nodes[:_LISTED_NODES])),
    )


def _compute_rank_correlation(nodes: Iterable[NodePreview]) -> int | None:
    qos_pairs = [
        (entry.qos_now, entry.qos_then)
        for entry in nodes
        if entry.qos_now is not None and entry.qos_then is not None
    ]
    return compute_rank_correlation(
        [qos_now for qos_now, _ in qos_pairs], [qos_then for _, qos_then in qos_pairs]
    )


def _iterate_previews(snapshot: ApiSnapshot) -> Iterator[tuple[OtherRules, RulesPreview]]:
    source = snapshot.source
    if source.announced_folder is None:
        return iter(())
    other_rules = list_other_rules(
        snapshot.uow,
        source.archive.reader.identity,
        source.announced_folder,
        source.shadow_rules,
    )
    folder = source.announced_folder / PREVIEW_FOLDER
    return iterate_previews(folder, source.archive.rules, other_rules)


def _build_origin(other_set: OtherRules, preview: RulesPreview) -> PreviewOrigin:
    return PreviewOrigin(
        rules=other_set.name,
        ready_at=other_set.ready_at,
        block=preview.block,
        time=preview.time,
    )
