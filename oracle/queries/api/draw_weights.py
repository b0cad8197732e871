"""The weights by which all available nodes of a network share the next tasks."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_policy import (
    CrynuxPolicy,
    Weighting,
    compute_stake_score,
    compute_weight,
    find_largest_stake,
)
from oracle.systems.registry import get_systems


class DrawWeights(NamedTuple):
    """The sum of the weights of all available members, and their number.

    A member is available if it is neither paused nor excluded. A busy node is available, because
    it takes part in the next draws. Models do not count, because they differ from task to task.
    """

    total: int
    node_count: int
    largest_stake: int
    weighting: Weighting

    def compute_chance(self, stake: int | None, qos: int, counted_qos: int | None) -> int | None:
        """Return the share of a member's weight if its QoS were `qos`, in units of 10^-18.

        `counted_qos` is the QoS with which the member is included in the sum. It is None if the
        member is not available; its weight is then added to the sum. The result is None if all
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


def find_weighting(rules: Rules, dispatch: DispatchSettings | None) -> Weighting | None:
    """Return the weighting of the draws, or, without draws, of the system of `rules`.

    The result is None if the policy has no such weights.
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


def sum_draw_weights(
    members: Iterable[tuple[Node, int]], time: int, rules: Rules, weighting: Weighting
) -> DrawWeights:
    """Return the weights of members, given with their QoS in units of 10^-18, at a block time."""
    rows = list(members)
    largest_stake = find_largest_stake(node for node, _ in rows)
    # Many nodes have the same stake, and a square root takes most of the time.
    get_stake_score = cache(lambda stake: compute_stake_score(stake, largest_stake))
    weights = [
        compute_weight(UNIT, get_stake_score(node.stake), qos, weighting)
        for node, qos in rows
        if is_available(node, time, rules)
    ]
    return DrawWeights(sum(weights), len(weights), largest_stake, weighting)
