"""Computes the scores of a node at a given time, and the values derived from them.

Numbers between 0 and 1 are in units of 10^-18. Times are block times in seconds. See
docs/reference/scoring-rules.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.scoring.legacy_factors import Factors, PopulationMaxima
from oracle.domain.scoring.node_scores import (
    compute_exclusion_end_time,
    compute_legacy_factors,
    compute_long_term_score,
    compute_reliability,
    compute_window_mean,
    get_status,
    is_excluded_with_reliability,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node

# A member below this reliability that is not excluded is called recovering. This term is ours; the
# rules only define the threshold for exclusion.
RECOVERING_BELOW = 95 * UNIT // 100

NodeState = Literal[
    "selectable", "recovering", "excluded", "paused", "quit", "slashed", "kicked_out", "unknown"
]
NODE_STATES: tuple[NodeState, ...] = get_args(NodeState)
_STATE_OF_NON_MEMBER: Mapping[Membership, NodeState] = {
    Membership.UNKNOWN: "unknown",
    Membership.QUIT: "quit",
    Membership.SLASHED: "slashed",
    Membership.KICKED_OUT: "kicked_out",
}


@dataclass(frozen=True, slots=True)
class NodeScores:
    """The scores of a node at a given time, and the values derived from them.

    `qos` is None for a node that is not a member. `back_at` is the block time at which recovery
    alone ends the exclusion, or None for a node that is not excluded. `factors` is None except
    under legacy rules.
    """

    status: str
    state: NodeState
    long_term: int
    reliability: int
    qos: int | None
    is_excluded: bool
    back_at: int | None
    is_kickout_due: bool
    factors: Factors | None


def compute_node_scores(
    node: Node, time: int, rules: Rules, population_maxima: PopulationMaxima | None = None
) -> NodeScores:
    """Return the scores of a node at `time`, relative to the maxima at the same time.

    Raises:
        ValueError: the rules are legacy rules, and `population_maxima` is None. Use
            `legacy_factors.compute_population_maxima`.
    """
    reliability = compute_reliability(node, time, rules)
    factors = compute_legacy_factors(node, time, rules, population_maxima)
    if rules.legacy is None or factors is None:
        mean = compute_long_term_score(node, rules, time)
        is_due = is_kickout_due(node, rules, time)
        score = multiply_fixed_point(mean, reliability)
    else:
        tally, score = factors.tally, factors.combined
        mean = compute_window_mean(tally, rules)
        is_due = tally.justifies_kickout(rules.legacy)
    is_member = node.membership is Membership.MEMBER
    is_excluded = is_excluded_with_reliability(node, reliability, rules)
    return NodeScores(
        status=get_status(node),
        state=classify_node_state(node, reliability, rules),
        long_term=mean,
        reliability=reliability,
        qos=score if is_member else None,
        is_excluded=is_excluded,
        back_at=compute_exclusion_end_time(node.base, node.since, rules) if is_excluded else None,
        is_kickout_due=is_member and is_due,
        factors=factors,
    )


def classify_node_state(node: Node, reliability: int, rules: Rules) -> NodeState:
    """Return the state of a node whose current reliability is `reliability`."""
    if node.membership is not Membership.MEMBER:
        return _STATE_OF_NON_MEMBER[node.membership]
    if node.paused:
        return "paused"
    if is_excluded_with_reliability(node, reliability, rules):
        return "excluded"
    return "recovering" if reliability < RECOVERING_BELOW else "selectable"
