"""The pool from which Pocket's policies draw nodes at the end of a block.

See docs/explanation/pocket.md#in-the-daemon.
"""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from oracle.domain.ids import Address
from oracle.domain.state import Membership, Node, Task
from oracle.systems.assignment import DrawResult
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput
from oracle.systems.waiting_line import QueueItem
from oracle.systems.weighted_draw import draw_nodes


@dataclass(frozen=True, slots=True)
class PocketPool:
    """A `Pool` whose `follower` has applied every event up to the end of the block.

    `network`: the rows of all members, at the block's time. `free`: the members without a running
    task. `explains`: whether every draw lists its candidates.
    """

    follower: PocketFollower
    network: PolicyInput
    free: Sequence[Node]
    explains: bool

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw one node by tickets; the candidates are sorted by address, as in every draw."""
        candidates = self._rank_candidates(item.task, reserved)
        return DrawResult(draw_nodes(candidates, seed, 1), candidates if self.explains else ())

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether a free node is eligible; every eligible node can be drawn."""
        network = replace(self.network, reserved=reserved)
        return any(
            self.follower.ineligibility_reason(node, item.task, network) is None
            for node in self.free
        )

    def is_eligible(self, task: Task, node: Address) -> bool:
        row = self.network.nodes.get(node)
        if row is None or row.membership is not Membership.MEMBER:
            return False
        return self.follower.ineligibility_reason(row, task, self.network) is None

    def _rank_candidates(
        self, task: Task, reserved: AbstractSet[Address]
    ) -> list[tuple[Address, int]]:
        ranking = self.follower.rank_candidates(task, replace(self.network, reserved=reserved))
        return sorted((row.node, row.chances) for row in ranking.rows)
