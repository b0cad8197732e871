"""Draws nodes for groups of three tasks from the network at the end of one block.

See docs/explanation/legacy.md#dispatch.
"""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace

from oracle.domain.ids import Address
from oracle.domain.state import Node, Task
from oracle.systems.assignment import DrawResult
from oracle.systems.crynux.requirements import Requirement, build_requirement
from oracle.systems.legacy.legacy_eligibility import (
    CardGroup,
    find_candidate_groups,
    find_part_ineligibility_reason,
    is_gpt_task,
)
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.policy import PolicyInput
from oracle.systems.task_queue import QueueItem


@dataclass(frozen=True, slots=True)
class TrioPool:
    """The network at the end of a block, from which groups of three tasks get their nodes.

    `free` holds the nodes that can get a task now if they fit it. With `explains`, every draw
    lists its candidates.
    """

    policy: LegacyPolicy
    network: PolicyInput
    free: Mapping[Address, Node]
    explains: bool
    # Cached by all inputs of the decision, because many waiting groups have the same requirement.
    _has_candidates_cache: dict[tuple[Requirement, bool, AbstractSet[Address]], bool] = field(
        default_factory=dict, repr=False
    )

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether there are three nodes for the group, with the same card if required."""
        cache_key = (build_requirement(item.task), is_gpt_task(item.task), reserved)
        if cache_key not in self._has_candidates_cache:
            free_network = replace(self.network, nodes=self.free, reserved=reserved)
            self._has_candidates_cache[cache_key] = bool(
                find_candidate_groups(item.task, free_network).groups
            )
        return self._has_candidates_cache[cache_key]

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw three nodes by weight; if they need the same card, first draw a card group by size.

        Raises:
            ValueError: there are fewer than three nodes.
        """
        policy_input = replace(self.network, reserved=reserved)
        choice = self.policy.choose_nodes(item.task, policy_input, seed)
        if choice is None:
            raise ValueError(f"fewer than three nodes are available for {item.seed_key}")
        card = None if choice.card is None else choice.card.text
        if not self.explains:
            return DrawResult(choice.nodes, card=card)
        return DrawResult(
            choice.nodes,
            self._list_weighted_candidates(item.task, policy_input, choice.card),
            card,
        )

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could run its part now, regardless of the other nodes."""
        row = self.network.nodes.get(node)
        if row is None:
            return False
        requirement = build_requirement(task)
        return (
            find_part_ineligibility_reason(
                row, requirement, self.network, is_gpt_part=is_gpt_task(task)
            )
            is None
        )

    def _list_weighted_candidates(
        self, task: Task, policy_input: PolicyInput, card: CardGroup | None
    ) -> Sequence[tuple[Address, int]]:
        """Return the candidates in the drawn card group, with their weights."""
        candidates = find_candidate_groups(task, policy_input).groups[card]
        weights = self.policy.compute_weights(policy_input)
        return [(node.address, weights[node.address].weight) for node in candidates]
