"""The pool of nodes at the end of a block, as Pocket's policies draw from it.

See docs/explanation/pocket.md#in-the-daemon.
"""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from oracle.domain.ids import Address
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.assignment import Choice
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput
from oracle.systems.waiting_line import InLine
from oracle.systems.weighted_draw import draw


@dataclass(frozen=True, slots=True)
class PocketPool:
    """A `Pool` whose `follower` has seen every event up to the end of the block.

    `network`: the rows of all members, at the block's time. `free`: the members that run nothing.
    `explains`: lists the candidates of every draw.
    """

    follower: PocketFollower
    network: PolicyInput
    free: Sequence[Node]
    explains: bool

    def draw(self, one: InLine, seed: bytes, taken: AbstractSet[Address]) -> Choice:
        """Draw by tickets, with the candidates ascending by address as in every draw."""
        candidates = self._candidates(one.task, taken)
        return Choice(draw(candidates, seed, 1), candidates if self.explains else ())

    def has_candidates(self, one: InLine, taken: AbstractSet[Address]) -> bool:
        """Return whether a free node is eligible; every eligible node has a chance."""
        network = replace(self.network, taken=taken)
        return any(self.follower.why_out(node, one.task, network) is None for node in self.free)

    def is_eligible(self, task: Task, node: Address) -> bool:
        row = self.network.nodes.get(node)
        if row is None or row.membership is not Membership.MEMBER:
            return False
        return self.follower.why_out(row, task, self.network) is None

    def _candidates(self, task: Task, taken: AbstractSet[Address]) -> list[tuple[Address, int]]:
        ranking = self.follower.ranking(task, replace(self.network, taken=taken))
        return sorted((row.node, row.chances) for row in ranking.rows)
