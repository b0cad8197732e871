"""Groups nodes by card and video memory, and tasks by kind.

See docs/reference/sources.md#crynux-dispatching-of-2024, Node Grading and Task Grading.
"""

from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Node, Task

# Every task of the legacy system runs on three nodes.
TRIO_SIZE = 3


class CardGroup(NamedTuple):
    """Nodes of one card model with the same video memory in GB."""

    vram: int
    model: str

    @property
    def text(self) -> str:
        """Return the display text, such as `NVIDIA GeForce RTX 4090, 24 GB`."""
        return f"{self.model}, {self.vram} GB"


def is_gpt(task: Task) -> bool:
    """Return whether the task needs three nodes with the same card; others take any three.

    A task of unknown kind is not a GPT task.
    """
    return task.kind is TaskKind.LLM


def get_card_group(node: Node) -> CardGroup | None:
    """Return the node's card group, or None if its card is unknown."""
    if node.gpu_name is None or node.gpu_vram is None:
        return None
    return CardGroup(node.gpu_vram, node.gpu_name)


def group_by_card(nodes: Iterable[Node]) -> dict[CardGroup, list[Node]]:
    """Return the card groups by ascending video memory, with the nodes sorted by address."""
    groups: dict[CardGroup, list[Node]] = {}
    for node in sorted(nodes, key=lambda member: member.address):
        group = get_card_group(node)
        if group is not None:
            groups.setdefault(group, []).append(node)
    return {group: groups[group] for group in sorted(groups)}
