"""Compares a node's GPU with other GPUs by the answer times in groups that both shared."""

from pydantic import Field

from oracle.queries.answers import ApiModel, FixedPoint
from oracle.queries.api.card_table import Card, CardTable

# Two GPUs are compared only if they shared at least this many groups.
MIN_SHARED_GROUPS = 30
# An answer lists at most this many GPUs, namely those that most members have.
MAX_CARDS = 50


class CardSpeed(ApiModel):
    """A GPU model of the network, and its answer times compared with those of the node's GPU."""

    gpu: str
    vram: int | None = Field(description="In GB; null if not known.")
    nodes: int = Field(description="Members with this card.")
    is_own: bool = Field(description="Whether the node has this card.")
    shared_groups: int = Field(
        description="Groups among the newest 1,000 of the network that both cards answered."
    )
    time_ratio: FixedPoint | None = Field(
        description=(
            "Median of its time divided by the time of the node's card, over all pairs of answers "
            "in the shared groups; null if there are fewer than 30 of them, or if it is the "
            "node's own card."
        )
    )


def list_card_speeds(own_card: Card | None, table: CardTable) -> list[CardSpeed]:
    """Return the network's GPU models with their relative answer times, most frequent first."""
    cards = sorted(
        table.nodes_by_card.items(), key=lambda item: (-item[1], item[0].gpu, item[0].vram or 0)
    )
    return [_build_card_speed(card, nodes, own_card, table) for card, nodes in cards[:MAX_CARDS]]


def _build_card_speed(
    card: Card, nodes: int, own_card: Card | None, table: CardTable
) -> CardSpeed:
    comparison = None if own_card is None else table.comparisons.get((own_card, card))
    shared_groups = 0 if comparison is None else comparison.shared_groups
    return CardSpeed(
        gpu=card.gpu,
        vram=card.vram,
        nodes=nodes,
        is_own=card == own_card,
        shared_groups=shared_groups,
        time_ratio=None
        if comparison is None or shared_groups < MIN_SHARED_GROUPS
        else comparison.time_ratio,
    )
