"""The pool of nodes at the end of one block, for groups of three tasks.

See docs/explanation/legacy.md#dispatch.
"""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace

from oracle.domain.ids import Address
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.systems.assignment import Choice
from oracle.systems.crynux.requirements import Requirement, requirement_of
from oracle.systems.legacy.grading import CardGroup, is_gpt
from oracle.systems.legacy.legacy_eligibility import candidacy_of, inability_reason
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.policy import PolicyInput
from oracle.systems.waiting_line import InLine


@dataclass(frozen=True, slots=True)
class TrioPool:
    """The network at the end of a block; `explains`: list the candidates of every draw.

    `free`: the nodes that could be given a task now, if they fit it.
    """

    policy: LegacyPolicy
    network: PolicyInput
    free: Mapping[Address, Node]
    explains: bool
    # Cached by all inputs of the decision, because many waiting groups have the same requirement.
    _known: dict[tuple[Requirement, bool, AbstractSet[Address]], bool] = field(
        default_factory=dict, repr=False
    )

    def has_candidates(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Return whether three nodes can have the group, of one card if the tasks need that."""
        asked = (requirement_of(one.task), is_gpt(one.task), taken)
        if asked not in self._known:
            free = replace(self.network, nodes=self.free, taken=taken)
            self._known[asked] = bool(candidacy_of(one.task, free).groups)
        return self._known[asked]

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        """Draw a card group by its size if the tasks need one card, then three nodes by weight.

        Raises:
            ValueError: there are fewer than three nodes.
        """
        policy_input = replace(self.network, taken=taken)
        choice = self.policy.choose(one.task, policy_input, seed)
        if choice is None:
            raise ValueError(f"fewer than three nodes for {one.seed_name}")
        card = None if choice.card is None else choice.card.text
        if not self.explains:
            return Choice(choice.nodes, card=card)
        return Choice(choice.nodes, self._among(one.task, policy_input, choice.card), card)

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could run its part now, whichever nodes run the other parts."""
        row = self.network.nodes.get(node)
        if row is None:
            return False
        wanted = requirement_of(task)
        return inability_reason(row, wanted, self.network, gpt=is_gpt(task)) is None

    def _among(
        self, task: Task, policy_input: PolicyInput, card: CardGroup | None
    ) -> Sequence[tuple[Address, int]]:
        """Return the candidates of the drawn group, with their weights."""
        candidates = candidacy_of(task, policy_input).groups[card]
        weights = self.policy.weights(policy_input)
        return [(node.address, weights[node.address].weight) for node in candidates]
