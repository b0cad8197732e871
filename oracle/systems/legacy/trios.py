"""The best threes of nodes that a freed node makes possible (seeds/004, Find the Best Task)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.domain.state.node import Node
from oracle.systems.legacy.grading import TRIO, CardGroup, card_group_of


@dataclass(frozen=True, slots=True)
class Combination:
    """A freed node with any two of its `partners`, by address.

    `vram`: what all three have at least, in GB. `card`: the card of all three, None where only
    the video memory was looked at.
    """

    freed: Node
    partners: Sequence[Node]
    vram: int
    card: CardGroup | None


def combinations(freed: Node, available: Iterable[Node]) -> list[Combination]:
    """Return the same-card trio of a freed node, and that with the largest minimum of VRAM.

    Neither where too few nodes are available. Partners that do equally well all stand in it: who
    of them runs the task is drawn. Of a node whose video memory nobody said it counts as 0.
    """
    others = [node for node in available if node.address != freed.address]
    others.sort(key=lambda node: node.address)
    found = [_of_one_card(freed, others), _of_largest_vram(freed, others)]
    return [each for each in found if each is not None]


def _of_one_card(freed: Node, others: Sequence[Node]) -> Combination | None:
    card = card_group_of(freed)
    same = [node for node in others if card is not None and card_group_of(node) == card]
    return Combination(freed, same, freed.gpu_vram or 0, card) if _enough(same) else None


def _of_largest_vram(freed: Node, others: Sequence[Node]) -> Combination | None:
    if not _enough(others):
        return None
    largest = sorted((node.gpu_vram or 0 for node in others), reverse=True)
    least = min(freed.gpu_vram or 0, largest[TRIO - 2])
    partners = [node for node in others if (node.gpu_vram or 0) >= least]
    return Combination(freed, partners, least, None)


def _enough(partners: Sequence[Node]) -> bool:
    return len(partners) >= TRIO - 1
