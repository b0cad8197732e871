"""Counts how many events of one kind would change a node's standing, by simulating them.

The simulation calls the functions of the fold, so it cannot differ from the fold.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.scoring.node_scores import (
    append_score_to_pool,
    compute_pool_mean,
    compute_reliability,
    get_pool_before_score,
    is_below_kickout_threshold,
    is_excluded,
)
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.queries.answers import ApiModel
from oracle.queries.api.node_order import NodeRanking, SortKey

T = TypeVar("T")

# Number of consecutive events after which the simulation gives up.
MAX_STEPS = 200


class NodeLift(ApiModel):
    """The number of consecutive events of one kind that would change a node's standing.

    A number is null for a non-member, under legacy rules, or if it would be above 200.
    """

    first_places: int | None = Field(
        description=(
            "Number of first ranks until the node passes the next better node, if that node's "
            "score does not change; null if the node has the first place, or if 200 are not "
            "enough."
        )
    )
    place_then: int | None = Field(
        description=(
            "Place of the node after `first_places` first ranks; null if `first_places` is null."
        )
    )
    successes: int | None = Field(
        description=(
            "Number of successful tasks until the node's reliability is 1; 0 if it is 1 already."
        )
    )
    timeouts: int | None = Field(
        description=(
            "Number of consecutive timeouts until the node is excluded; 0 if it is excluded "
            "already."
        )
    )
    zeros: int | None = Field(
        description="Number of scores of 0 until a kickout is due; 0 if it is due already."
    )
    first_places_to_clear: int | None = Field(
        description="Number of first ranks until no kickout is due; 0 if no kickout is due."
    )


NO_LIFT = NodeLift(
    first_places=None,
    place_then=None,
    successes=None,
    timeouts=None,
    zeros=None,
    first_places_to_clear=None,
)


def compute_what_if_counts(
    node: Node, time: int, rules: Rules, ranking: NodeRanking | None
) -> NodeLift:
    """Return how many more events of each kind would change a node's standing.

    The events are simulated from a block time. Under legacy rules nothing can be simulated, and
    all numbers are null. `ranking` is the ranking at the same block, or None for an earlier block,
    whose ranking is not known.
    """
    if node.membership is not Membership.MEMBER or rules.legacy is not None:
        return NO_LIFT
    pool = get_pool_before_score(node, time, rules)
    reliability = compute_reliability(node, time, rules)

    def is_due(scores: Sequence[int]) -> bool:
        return len(scores) == rules.pool_size and is_below_kickout_threshold(sum(scores), rules)

    rank = None if ranking is None else ranking.find_rank(node.address)
    first_ranks_to_advance = (
        _count_first_ranks_to_advance(node, rank, ranking, rules)
        if ranking is not None and rank is not None and rank > 1
        else None
    )
    return NodeLift(
        first_places=None if first_ranks_to_advance is None else first_ranks_to_advance[0],
        place_then=None if first_ranks_to_advance is None else first_ranks_to_advance[1],
        successes=_count_steps(
            reliability,
            lambda value: change_reliability(ReliabilityCause.SUCCEEDED, value, rules),
            lambda value: value == UNIT,
        ),
        timeouts=0
        if is_excluded(node, time, rules)
        else _count_steps(
            reliability,
            lambda value: change_reliability(ReliabilityCause.TIMED_OUT, value, rules),
            lambda value: value < rules.exclude_enter,
        ),
        zeros=_count_steps(
            pool,
            lambda scores: append_score_to_pool(scores, 0, rules),
            is_due,
        ),
        first_places_to_clear=_count_steps(
            pool,
            lambda scores: append_score_to_pool(scores, max(rules.rank_scores), rules),
            lambda scores: not is_due(scores),
        ),
    )


def _count_first_ranks_to_advance(
    node: Node, rank: int, ranking: NodeRanking, rules: Rules
) -> tuple[int, int | None] | None:
    """Return how many first places a node needs to overtake the next node, and its new rank.

    `rank` is the node's rank, which is above 1. The result is None if more than `MAX_STEPS` first
    ranks are needed.
    """
    time = ranking.cursor.time
    key_above = ranking.get_ranked_key(rank - 1)
    pool = get_pool_before_score(node, time, rules)
    reliability = compute_reliability(node, time, rules)
    for step in range(1, MAX_STEPS + 1):
        pool = append_score_to_pool(pool, max(rules.rank_scores), rules)
        reliability = change_reliability(ReliabilityCause.SUCCEEDED, reliability, rules)
        qos = multiply_fixed_point(compute_pool_mean(pool, None, rules), reliability)
        new_key = SortKey(0, -qos, node.address)
        if new_key < key_above:
            return step, ranking.find_rank_by_qos(node.address, qos)
    return None


def _count_steps(
    state: T, advance: Callable[[T], T], is_reached: Callable[[T], bool]
) -> int | None:
    """Return the number of steps until `is_reached` is true.

    The result is None if more than `MAX_STEPS` steps are needed.
    """
    for step_count in range(MAX_STEPS + 1):
        if is_reached(state):
            return step_count
        state = advance(state)
    return None
