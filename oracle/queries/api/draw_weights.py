"""The weights by which the available nodes of a network are drawn for the next tasks."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
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


class DrawWeights(NamedTuple):
    """The sum of the weights of all available members, and the number of these members.

    A member is available if it is neither paused nor excluded. A busy node is available, because
    it takes part in the next draws. The models of a task are ignored, because they differ from
    task to task.
    """

    total: int
    node_count: int
    largest_stake: int
    weighting: Weighting

    def compute_chance(self, stake: int | None, qos: int, counted_qos: int | None) -> int | None:
        """Return a member's share of all weights if its QoS were `qos`, in units of 10^-18.

        `counted_qos` is the QoS with which the member is included in `total`. It is None if the
        member is not available; its weight is then added to the total. The result is None if all
        weights are 0.
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
    """Return the weighting that the dispatcher draws with, or None if draws have no such weights.

    Without a dispatcher, the weighting of the rules' scoring system is returned.
    """
    if dispatch is not None:
        has_weights = dispatch.pocket_policy is None and dispatch.legacy_policy is None
        return dispatch.weighting if has_weights else None
    system = get_systems().get(rules.name)
    policy = None if system is None else system.policy
    return policy.weighting if isinstance(policy, CrynuxPolicy) else None


def is_available(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a member is neither paused nor excluded at a block time."""
    return not node.paused and not is_excluded(node, time, rules)


class DrawWeightTable:
    """The stake and the QoS of every member, and the sum of their weights, updated at each block.

    A block changes only the weights of the members that it changed, unless the largest stake
    changed, because all weights depend on the largest stake.
    """

    def __init__(self, weighting: Weighting) -> None:
        self._weighting = weighting
        # Each member's stake and QoS by address; the QoS is None if the member is not available.
        self._members: dict[Address, tuple[int, int | None]] = {}
        self._count_by_stake: Counter[int] = Counter()
        self._weights = DrawWeights(0, 0, 0, weighting)

    def update_members(
        self, rows: Iterable[tuple[Address, tuple[int, int | None] | None]]
    ) -> DrawWeights:
        """Store the rows of members that changed, and return the weights of all available members.

        A row is the stake and the QoS of a member, or None for a node that is no longer a member.
        """
        old_rows, new_rows = [], []
        for address, row in rows:
            old_row = self._members.pop(address, None)
            if old_row is not None:
                self._count_by_stake[old_row[0]] -= 1
                old_rows.append(old_row)
            if row is not None:
                self._members[address] = row
                self._count_by_stake[row[0]] += 1
                new_rows.append(row)
        self._count_by_stake = +self._count_by_stake
        largest_stake = max(self._count_by_stake, default=0)
        if largest_stake != self._weights.largest_stake:
            total, node_count = self._sum_weights(self._members.values(), largest_stake)
        else:
            old_total, old_count = self._sum_weights(old_rows, largest_stake)
            new_total, new_count = self._sum_weights(new_rows, largest_stake)
            total = self._weights.total - old_total + new_total
            node_count = self._weights.node_count - old_count + new_count
        self._weights = DrawWeights(total, node_count, largest_stake, self._weighting)
        return self._weights

    def _sum_weights(
        self, rows: Iterable[tuple[int, int | None]], largest_stake: int
    ) -> tuple[int, int]:
        """Return the sum of the weights and the number of the available members in `rows`."""
        # The cache pays off because many nodes have the same stake, and most of the time is spent
        # in the square root.
        get_stake_score = cache(lambda stake: compute_stake_score(stake, largest_stake))
        weights = [
            compute_weight(UNIT, get_stake_score(stake), qos, self._weighting)
            for stake, qos in rows
            if qos is not None
        ]
        return sum(weights), len(weights)
