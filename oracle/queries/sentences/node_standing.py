"""Gathers what is to be said of a node, from its answer and from the rows behind its score."""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityCause, ScoreEntry
from oracle.domain.reports.kicks import KickState
from oracle.domain.scoring.node_scores import (
    count_scores,
    exclusion_end_time,
    factors_of,
    is_excluded,
    long_term,
    reliability_at,
)
from oracle.domain.state.node import Node
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.sentences.node_sentences import NodeCauses, NodeStanding

# The newest changes: a sentence speaks of the last two hours.
_CHANGES = 100


class NodeScores(NamedTuple):
    """A node's standing, and the task scores that count, oldest first."""

    standing: NodeStanding
    scores: list[ScoreEntry]


def standing_of(look: ApiSnapshot, node: Node, told: NodeView) -> NodeScores:
    """Return what the sentences about a node are made of, as of the cursor."""
    scores = _scores(look, node)
    causes = _causes(look, node, scores)
    turned = look.uow.memberships.in_effect(node.address)
    standing = NodeStanding(
        time=causes.time,
        rules=causes.rules,
        ranks=causes.ranks,
        timeouts=causes.timeouts,
        long_term=causes.long_term,
        reliability=causes.reliability,
        back_at=causes.back_at,
        factors=causes.factors,
        state=told.row.state,
        points=sum(entry.score for entry in scores) * UNIT // max(1, len(scores)),
        group_size=_group_size(look, scores),
        place=told.row.place,
        members=told.members,
        lift=told.lift,
        kick_at=_kick_at(told),
        is_kickout_due=told.kickout.is_due,
        turned_at=None if turned is None else turned.time,
    )
    return NodeScores(standing, scores)


def causes_of(look: ApiSnapshot, node: Node) -> NodeCauses:
    """Return why a node's score is as it is, as of the cursor; much less work than a standing."""
    return _causes(look, node, _scores(look, node))


def _scores(look: ApiSnapshot, node: Node) -> list[ScoreEntry]:
    counted = count_scores(node, look.cursor.time, look.source.archive.rules)
    return look.uow.scores.of_node_at(node.address, look.cursor.number, counted)


def _causes(look: ApiSnapshot, node: Node, scores: Sequence[ScoreEntry]) -> NodeCauses:
    rules, time = look.source.archive.rules, look.cursor.time
    changes = look.uow.reliability.of_node(node.address, _CHANGES)
    is_out = is_excluded(node, time, rules)
    return NodeCauses(
        time=time,
        rules=rules,
        ranks=tuple(entry.rank for entry in scores),
        timeouts=tuple(
            change.time for change in changes if change.cause is ReliabilityCause.TIMED_OUT
        ),
        long_term=long_term(node, rules, time),
        reliability=reliability_at(node, time, rules),
        back_at=exclusion_end_time(node.base, node.since, rules) if is_out else None,
        factors=factors_of(node, time, rules, look.ranking().peers),
    )


def _group_size(look: ApiSnapshot, scores: list[ScoreEntry]) -> int | None:
    results = look.uow.results.closed_at([entry.at for entry in scores])
    sizes = {len(result.members) for result in results}
    return sizes.pop() if len(sizes) == 1 else None


def _kick_at(told: NodeView) -> int | None:
    found = told.kickout.proposed
    is_live = found is not None and found.state == KickState.LIVE.value
    return found.ready_at if found is not None and is_live else None
