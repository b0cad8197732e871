"""What-if figures of a node, computed by the fold's own functions instead of a formula."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from oracle.domain.fixed_point import UNIT, multiply
from oracle.domain.scoring.node_scores import is_below_line, is_excluded, reliability_at
from oracle.domain.scoring.reliability import boosted_reliability, penalized_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_window import append_score, mean_of, pool_before_score
from oracle.domain.state.node import Membership, Node
from oracle.queries.answers import ApiModel
from oracle.queries.api.node_order import NodeRanking, SortKey

T = TypeVar("T")

# The longest sequence of events that is simulated.
MOST_STEPS = 200


class NodeLift(ApiModel):
    """Numbers of consecutive events from now on; null for a non-member or if above 200."""

    first_places: int | None = Field(
        description="First places until it passes the next better node, which stands still."
    )
    place_then: int | None = Field(description="Its place after those.")
    successes: int | None = Field(description="Successful tasks until reliability is 1.")
    timeouts: int | None = Field(description="Timeouts at once until it is excluded; 0: it is.")
    zeros: int | None = Field(description="Scores of 0 until a kickout is due; 0: it is.")
    over_line: int | None = Field(description="First places until no kickout is due; 0: none is.")


NO_LIFT = NodeLift(
    first_places=None, place_then=None, successes=None, timeouts=None, zeros=None, over_line=None
)


def lift_of(node: Node, time: int, rules: Rules, ranking: NodeRanking | None) -> NodeLift:
    """Simulate future events from a block time on; under legacy rules nothing can be simulated.

    `ranking`: of the same block, or None for an earlier block, whose places are not known.
    """
    if node.membership is not Membership.MEMBER or rules.legacy is not None:
        return NO_LIFT
    pool, reliability = pool_before_score(node, time, rules), reliability_at(node, time, rules)

    def is_due(scores: Sequence[int]) -> bool:
        return len(scores) == rules.pool_size and is_below_line(sum(scores), rules)

    place = None if ranking is None else ranking.place_of(node.address)
    is_behind = ranking is not None and place is not None and place > 1
    firsts = _first_places(node, ranking, rules) if ranking and is_behind else None
    return NodeLift(
        first_places=None if firsts is None else firsts[0],
        place_then=None if firsts is None else firsts[1],
        successes=_steps(
            reliability, lambda h: boosted_reliability(h, rules), lambda h: h == UNIT
        ),
        timeouts=0
        if is_excluded(node, time, rules)
        else _steps(
            reliability,
            lambda h: penalized_reliability(h, rules),
            lambda h: h < rules.exclude_enter,
        ),
        zeros=_steps(
            pool,
            lambda scores: append_score(scores, 0, rules),
            is_due,
        ),
        over_line=_steps(
            pool,
            lambda scores: append_score(scores, max(rules.rank_scores), rules),
            lambda scores: not is_due(scores),
        ),
    )


def _first_places(node: Node, ranking: NodeRanking, rules: Rules) -> tuple[int, int] | None:
    """Return how many first ranks overtake the next better node, and the place after them."""
    time, order = ranking.cursor.time, ranking.ordered("qos")
    mine = ranking.key("qos", node)
    better = order[bisect_left(order, mine) - 1]
    pool, reliability = pool_before_score(node, time, rules), reliability_at(node, time, rules)
    for step in range(1, MOST_STEPS + 1):
        pool = append_score(pool, max(rules.rank_scores), rules)
        reliability = boosted_reliability(reliability, rules)
        qos = multiply(mean_of(pool, None, rules), reliability)
        then = SortKey(0, -qos, node.address)
        if then < better:
            return step, bisect_left(order, then) + 1
    return None


def _steps(start: T, step: Callable[[T], T], is_there: Callable[[T], bool]) -> int | None:
    """Return the number of steps until `is_reached`, or None if it exceeds `MAX_STEPS`."""
    for taken in range(MOST_STEPS + 1):
        if is_there(start):
            return taken
        start = step(start)
    return None
