"""The weights of a network's available nodes in the next draws."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_policy import (
    CrynuxPolicy,
    Weighting,
    compute_stake_score,
    compute_weight,
)
from oracle.systems.registry import get_systems

# Maximum number of stake scores that are kept in memory.
_MAX_CACHED_SCORES = 1 << 17


class DrawWeights(NamedTuple):
    """The number of available members, and the sum of their weights.

    A member is available if it is neither paused nor excluded. A busy node is available, because
    it takes part in the next draws. The models of a task are ignored, because they differ from
    task to task.
    """

    total: int
    node_count: int
    largest_stake: int
    weighting: Weighting

    def compute_chance(self, stake: int | None, qos: int, counted_qos: int | None) -> int | None:
        """Return the share of all weights that a member would have with the given QoS.

        The share is in units of 10^-18. `counted_qos` is the QoS with which the member is included
        in `total`. It is None if the member is not available; its weight is then added to the
        total. The result is None if all weights are 0.
        """
        weight = self._compute_weight(stake, qos)
        total = self.total + weight
        if counted_qos is not None:
            total -= self._compute_weight(stake, counted_qos)
        return weight * UNIT // total if total else None

    def _compute_weight(self, stake: int | None, qos: int) -> int:
        stake_score = compute_stake_score(stake, self.largest_stake)
        return compute_weight(UNIT, stake_score, qos, self.weighting)


def find_draw_weighting(rules: Rules, dispatch: DispatchSettings | None) -> Weighting | None:
    """Return the weighting of the dispatcher's draws, or None if they have no such weights.

    Without a dispatcher, the weighting of the rules' scoring system is returned.
    """
    if dispatch is not None:
        uses_weights = dispatch.pocket_policy is None and dispatch.legacy_policy is None
        return dispatch.weighting if uses_weights else None
    system = get_systems().get(rules.name)
    policy = None if system is None else system.policy
    return policy.weighting if isinstance(policy, CrynuxPolicy) else None


def is_available(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a member is neither paused nor excluded at a block time."""
    return not node.paused and not is_excluded(node, time, rules)


class DrawWeightTable:
    """The stake and QoS of every member and the sum of their weights, updated at each block.

    A block changes only the weights of the members that it changed, unless the largest stake
    changed, because all weights depend on the largest stake.
    """

    def __init__(self, weighting: Weighting) -> None:
        self._weighting = weighting
        # (Stake, QoS) of each member. The QoS is None if the member is not available.
        self._members: dict[Address, tuple[int, int | None]] = {}
        self._weight_by_available_member: dict[Address, int] = {}
        self._count_by_stake: Counter[int] = Counter()
        self._weights = DrawWeights(0, 0, 0, weighting)
        self._get_stake_score = _make_stake_score_function(0)

    def update_members(
        self, rows: Iterable[tuple[Address, tuple[int, int | None] | None]]
    ) -> DrawWeights:
        """Store the rows of changed members, and return the weights of all available members.

        A row is the stake and the QoS of a member, or None for a node that is no longer a member.
        """
        members = self._members
        changed_members = [(address, row) for address, row in rows if row != members.get(address)]
        for address, row in changed_members:
            self._replace_stake(members.pop(address, None), row)
            if row is not None:
                members[address] = row
        total, max_stake = self._weights.total, max(self._count_by_stake, default=0)
        if max_stake != self._weights.largest_stake:
            self._get_stake_score = _make_stake_score_function(max_stake)
            self._weight_by_available_member.clear()
            total = 0
            changed_members = list(members.items())
        weight_by_member = self._weight_by_available_member
        for address, row in changed_members:
            total -= weight_by_member.pop(address, 0)
            if row is not None and row[1] is not None:
                stake_score = self._get_stake_score(row[0])
                weight = compute_weight(UNIT, stake_score, row[1], self._weighting)
                weight_by_member[address] = weight
                total += weight
        self._weights = DrawWeights(total, len(weight_by_member), max_stake, self._weighting)
        return self._weights

    def _replace_stake(
        self, old_row: tuple[int, int | None] | None, row: tuple[int, int | None] | None
    ) -> None:
        """Update the count of members by stake after a member's row changed."""
        if row is not None:
            self._count_by_stake[row[0]] += 1
        if old_row is not None:
            self._count_by_stake[old_row[0]] -= 1
            if not self._count_by_stake[old_row[0]]:
                del self._count_by_stake[old_row[0]]


def _make_stake_score_function(max_stake: int) -> Callable[[int], int]:
    """Return a cached function that computes the stake score for a stake.

    Many nodes have the same stake, and most of the time is spent in the square root.
    """
    return lru_cache(_MAX_CACHED_SCORES)(partial(compute_stake_score, max_stake=max_stake))
