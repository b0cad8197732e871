"""Gathers what is to be said of a node from its explanation, as of any block."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityCause
from oracle.domain.scoring.node_scores import (
    exclusion_end_time,
    factors_of,
    is_excluded,
    is_kickout_due,
    long_term,
    reliability_at,
)
from oracle.queries.api.lifting import lift_of
from oracle.queries.api.node_order import NodeRanking, state_at
from oracle.queries.explain import Explanation
from oracle.queries.sentences.node_sentences import NodeStanding


def standing_as_of(told: Explanation, ranking: NodeRanking | None = None) -> NodeStanding:
    """Return it; `ranking` of the same block, None: the place among the others is not known."""
    node, rules, time = told.node, told.rules, told.as_of.time
    sizes = {len(told.groups.get(entry.at, ())) for entry in told.scores} - {0}
    is_out = is_excluded(node, time, rules)
    timed_out = [c.time for c in told.changes if c.cause is ReliabilityCause.TIMED_OUT]
    return NodeStanding(
        state=state_at(node, time, rules),
        time=time,
        rules=rules,
        ranks=tuple(entry.rank for entry in told.scores),
        points=sum(entry.score for entry in told.scores) * UNIT // max(1, len(told.scores)),
        group_size=sizes.pop() if len(sizes) == 1 else None,
        timeouts=tuple(timed_out),
        long_term=long_term(node, rules, time),
        reliability=reliability_at(node, time, rules),
        place=None if ranking is None else ranking.place_of(node.address),
        members=0 if ranking is None else ranking.members,
        lift=lift_of(node, time, rules, ranking),
        back_at=exclusion_end_time(node.base, node.since, rules) if is_out else None,
        factors=None if told.peers is None else factors_of(node, time, rules, told.peers),
        is_kickout_due=is_kickout_due(node, rules, time),
        turned_at=None if told.turned is None else told.turned.time,
    )
