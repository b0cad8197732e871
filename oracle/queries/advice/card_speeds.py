"""How fast other cards answer, compared with a node's card in the groups that both shared."""

from collections import defaultdict
from collections.abc import Mapping
from statistics import median_low

from pydantic import Field

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.state import GroupMember, Node
from oracle.queries.advice.advice_record import AdviceRecord
from oracle.queries.answers import ApiModel, FixedPoint

# Minimum number of pairs for a ratio.
MIN_PAIRS = 30


class CardSpeed(ApiModel):
    """The times of another card, compared with those of the node's card."""

    gpu: str
    vram: int | None = Field(description="In GB; null if not known.")
    time_ratio: FixedPoint = Field(
        description="Median of its time divided by the time of the node's card, in one group."
    )
    pairs: int = Field(description="Pairs of answers in shared groups, at least 30.")


Card = tuple[str, int | None]


def list_card_speeds(record: AdviceRecord, nodes: Mapping[Address, Node]) -> list[CardSpeed]:
    """Return the cards that shared enough groups with the node's card, fastest first.

    The groups are those of the scores that count. Every member with the node's card is compared
    with every member with another card; cards are those of the cursor's block.
    """
    own_card = _get_card(record.node)
    ratios_by_card: dict[Card, list[int]] = defaultdict(list)
    for scored_task in record.scored_tasks if own_card is not None else ():
        times = [
            (card, member.elapsed)
            for member in scored_task.group.members
            if (card := _find_member_card(member, nodes)) is not None and member.elapsed
        ]
        own_times = [elapsed for card, elapsed in times if card == own_card]
        for card, elapsed in times:
            if card != own_card:
                ratios_by_card[card] += [elapsed * UNIT // own_time for own_time in own_times]
    speeds = [
        CardSpeed(gpu=gpu, vram=vram, time_ratio=median_low(ratios), pairs=len(ratios))
        for (gpu, vram), ratios in ratios_by_card.items()
        if len(ratios) >= MIN_PAIRS
    ]
    return sorted(speeds, key=lambda speed: (speed.time_ratio, speed.gpu, speed.vram or 0))


def _find_member_card(member: GroupMember, nodes: Mapping[Address, Node]) -> Card | None:
    """Return the card of a member that was ranked, or None."""
    if member.rank is None or member.node is None or member.node not in nodes:
        return None
    return _get_card(nodes[member.node])


def _get_card(node: Node) -> Card | None:
    return None if node.gpu_name is None else (node.gpu_name, node.gpu_vram)
