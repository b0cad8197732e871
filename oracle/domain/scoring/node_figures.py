"""Computes a node's scores at a given time, and other values derived from them.

Numbers between 0 and 1 are in units of 10^-18. Times are block times in seconds. See
docs/reference/scoring-rules.md.

The 90 % interval of a QoS follows from the distribution of the sum of n further scores that are
like the n scores in the pool. It is computed exactly, with integers only, so that every machine
computes the same interval (docs/reference/scoring-rules.md#interval).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
# At most 1/20 of all outcomes lies below the interval and at most 1/20 above.
_TAIL_PARTS = 20
# The maximum number of cached intervals; each takes a few hundred bytes.
_MAX_CACHED_POOLS = 1 << 16


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
    """Compute a node's scores at `time`, relative to the maxima at that time.

    Raises:
        ValueError: the rules are legacy rules, and `population_maxima` is None. Use
            `legacy_factors.compute_population_maxima`.
    """
    reliability = compute_reliability(node, time, rules)
    factors = compute_legacy_factors(node, time, rules, population_maxima)
    if rules.legacy is None or factors is None:
        long_term_score = compute_long_term_score(node, rules, time)
        is_due = is_kickout_due(node, rules, time)
        score = multiply_fixed_point(long_term_score, reliability)
    else:
        tally, score = factors.tally, factors.combined
        long_term_score = compute_window_mean(tally, rules)
        is_due = tally.justifies_kickout(rules.legacy)
    is_member = node.membership is Membership.MEMBER
    is_excluded = is_excluded_with_reliability(node, reliability, rules)
    return NodeScores(
        status=get_status(node),
        state=classify_node_state(node, reliability, rules),
        long_term=long_term_score,
        reliability=reliability,
        qos=score if is_member else None,
        is_excluded=is_excluded,
        back_at=compute_exclusion_end_time(node.base, node.since, rules) if is_excluded else None,
        is_kickout_due=is_member and is_due,
        factors=factors,
    )


def classify_node_state(node: Node, reliability: int, rules: Rules) -> NodeState:
    """Return the state of a node, given its current reliability."""
    if node.membership is not Membership.MEMBER:
        return _STATE_OF_NON_MEMBER[node.membership]
    if node.paused:
        return "paused"
    if is_excluded_with_reliability(node, reliability, rules):
        return "excluded"
    return "recovering" if reliability < RECOVERING_BELOW else "selectable"


def compute_qos_interval(node: Node, time: int, rules: Rules) -> tuple[int, int] | None:
    """Return the likely bounds of a member's QoS at a block time.

    The bounds are in units of 10^-18. The reliability is known exactly, so both bounds are
    multiplied by it. The result is None if the QoS is not the mean of a pool. This is the case for
    a non-member, without scores, under legacy rules, and for a mean of 0 that counts as an empty
    pool.
    """
    is_pool_mean = node.pool_sum > 0 or not rules.zero_mean_is_new
    if (
        node.membership is not Membership.MEMBER
        or rules.legacy is not None
        or not (node.pool and is_pool_mean)
    ):
        return None
    reliability = compute_reliability(node, time, rules)
    max_sum = len(node.pool) * rules.q_max
    low, high = (
        multiply_fixed_point(total * UNIT // max_sum, reliability)
        for total in compute_score_sum_interval(
            node.pool, (*rules.rank_scores, rules.absent_score)
        )
    )
    return low, high


def compute_score_sum_interval(
    pool: Sequence[int], possible_scores: Sequence[int]
) -> tuple[int, int]:
    """Return likely bounds for the sum of the next `len(pool)` scores.

    At most 5 % of the outcomes lie below the low bound, and at most 5 % above the high bound. Each
    possible score has the weight `count * K + 1`, where K is the number of different scores. This
    spreads one additional score over all of them, because three equal scores do not prove that no
    other scores occur. Scores in the pool that the rules do not give (relay) count as possible.

    Raises:
        ValueError: the pool is empty.
    """
    if not pool:
        raise ValueError("the interval of an empty pool is not defined")
    count_by_score = Counter(pool)
    values = sorted({*possible_scores, *count_by_score})
    weights = tuple((score, count_by_score[score] * len(values) + 1) for score in values)
    return _compute_sum_quantiles(weights, len(pool))


@lru_cache(maxsize=_MAX_CACHED_POOLS)
def _compute_sum_quantiles(weights: tuple[tuple[int, int], ...], draws: int) -> tuple[int, int]:
    """Return the 5 % and 95 % quantiles of the sum of weighted random draws.

    The draws are with replacement. The weight of each sum is a coefficient of Q = P^n, where P is
    the generating polynomial of one draw. Because P Q' = n P' Q, each coefficient follows from the
    earlier coefficients: k p_0 q_k = sum over d > 0 of (n d - k + d) p_d q_(k-d).
    """
    (lowest, first_weight), *higher_weights = weights
    steps = [(score - lowest, weight) for score, weight in higher_weights]
    total_weight = sum(weight for _, weight in weights) ** draws
    coefficients = [first_weight**draws]
    cumulative_weight = coefficients[0]
    lower_quantile = None
    sum_above_lowest = 0
    while True:
        if lower_quantile is None and cumulative_weight * _TAIL_PARTS > total_weight:
            lower_quantile = sum_above_lowest
        if lower_quantile is not None and cumulative_weight * _TAIL_PARTS >= total_weight * (
            _TAIL_PARTS - 1
        ):
            return draws * lowest + lower_quantile, draws * lowest + sum_above_lowest
        sum_above_lowest += 1
        numerator = sum(
            (draws * step - sum_above_lowest + step)
            * weight
            * coefficients[sum_above_lowest - step]
            for step, weight in steps
            if step <= sum_above_lowest
        )
        coefficients.append(numerator // (sum_above_lowest * first_weight))
        cumulative_weight += coefficients[-1]
