"""The 90 % interval of a node's QoS, given the number of scores in its mean.

The interval follows from the distribution of the sum of n further scores that are like the n
scores in the pool. It is computed exactly, with integers only, so that every machine computes the
same interval (docs/reference/scoring-rules.md#interval).
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.scoring.node_scores import compute_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node

# At most 1/20 of all outcomes lies below the interval and at most 1/20 above.
_TAIL_PARTS = 20
# The maximum number of cached intervals; each takes a few hundred bytes.
_MAX_CACHED_POOLS = 1 << 16


def compute_qos_interval(node: Node, time: int, rules: Rules) -> tuple[int, int] | None:
    """Return the bounds of a member's QoS at a block time, in units of 10^-18.

    The reliability is known exactly, so both bounds are multiplied by it. The result is None if
    the QoS is not the mean of a pool. This is the case for a non-member, without scores, under
    legacy rules, and for a mean of 0 that counts as an empty pool.
    """
    is_pool_mean = node.pool_sum > 0 or not rules.zero_mean_is_new
    if (
        node.membership is not Membership.MEMBER
        or rules.legacy is not None
        or not (node.pool and is_pool_mean)
    ):
        return None
    reliability = compute_reliability(node, time, rules)
    best_sum = len(node.pool) * rules.q_max
    low, high = (
        multiply_fixed_point(total * UNIT // best_sum, reliability)
        for total in compute_score_sum_interval(
            node.pool, (*rules.rank_scores, rules.absent_score)
        )
    )
    return low, high


def compute_score_sum_interval(
    pool: Sequence[int], possible_scores: Sequence[int]
) -> tuple[int, int]:
    """Return the likely bounds of the sum of as many further scores as are in the pool.

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
    """Return the 5 % and 95 % quantiles of the sum of weighted draws with replacement.

    The weight of each sum is a coefficient of Q = P^n, where P is the generating polynomial of one
    draw. Because P Q' = n P' Q, each coefficient follows from the earlier coefficients: k p_0 q_k
    = sum over d > 0 of (n d - k + d) p_d q_(k-d).
    """
    (lowest, first_weight), *higher_weights = weights
    steps = [(score - lowest, weight) for score, weight in higher_weights]
    total = sum(weight for _, weight in weights) ** draws
    coefficients = [first_weight**draws]
    cumulative = coefficients[0]
    low = None
    k = 0
    while True:
        if low is None and cumulative * _TAIL_PARTS > total:
            low = k
        if low is not None and cumulative * _TAIL_PARTS >= total * (_TAIL_PARTS - 1):
            return draws * lowest + low, draws * lowest + k
        k += 1
        numerator = sum(
            (draws * step - k + step) * weight * coefficients[k - step]
            for step, weight in steps
            if step <= k
        )
        coefficients.append(numerator // (k * first_weight))
        cumulative += coefficients[-1]
