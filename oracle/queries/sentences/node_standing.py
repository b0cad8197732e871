"""Builds the summary of a node from its answer as of the cursor, or from an explanation."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityCause, ReliabilityChange, ScoreEntry
from oracle.domain.reports.kicks import KickState
from oracle.domain.scoring.node_figures import figures_at
from oracle.domain.scoring.node_scores import count_scores
from oracle.domain.state.node import Node
from oracle.queries.api.lifting import lift_of
from oracle.queries.api.node_order import NodeRanking
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.explain import Explanation
from oracle.queries.sentences.node_sentences import NodeCauses, NodeStanding

# The newest changes to read; sentences cover the last two hours only.
_CHANGES = 100


class NodeScores(NamedTuple):
    """A node's summary, and the task scores that count, oldest first."""

    standing: NodeStanding
    scores: list[ScoreEntry]


def standing_of(look: ApiSnapshot, node: Node, view: NodeView) -> NodeScores:
    """Return the data for sentences about a node, as of the cursor."""
    scores = _scores(look, node)
    causes, turned = _causes(look, node, scores), look.uow.memberships.in_effect(node.address)
    standing = NodeStanding(
        time=causes.time,
        rules=causes.rules,
        figures=causes.figures,
        ranks=causes.ranks,
        timeouts=causes.timeouts,
        points=_mean_points(scores),
        group_size=_group_size(look, scores),
        place=view.row.place,
        members=view.members,
        lift=view.lift,
        kick_at=_kick_at(view),
        turned_at=None if turned is None else turned.time,
    )
    return NodeScores(standing, scores)


def standing_as_of(explanation: Explanation, ranking: NodeRanking | None = None) -> NodeStanding:
    """Return the data for sentences about an explained node, as of the explained block.

    `ranking`: of the same block, or None if the place among the nodes is not known.
    """
    node, rules, time = explanation.node, explanation.rules, explanation.as_of.time
    scores, turned = explanation.scores, explanation.turned
    sizes = {len(explanation.groups.get(entry.at, ())) for entry in scores} - {0}
    return NodeStanding(
        time=time,
        rules=rules,
        figures=explanation.figures,
        ranks=tuple(entry.rank for entry in scores),
        timeouts=_timeouts(explanation.changes),
        points=_mean_points(scores),
        group_size=sizes.pop() if len(sizes) == 1 else None,
        place=None if ranking is None else ranking.place_of(node.address),
        members=0 if ranking is None else ranking.members,
        lift=lift_of(node, time, rules, ranking),
        turned_at=None if turned is None else turned.time,
    )


def causes_of(look: ApiSnapshot, node: Node) -> NodeCauses:
    """Return the causes of a node's score as of the cursor; cheaper than a full summary."""
    return _causes(look, node, _scores(look, node))


def _scores(look: ApiSnapshot, node: Node) -> list[ScoreEntry]:
    counted = count_scores(node, look.cursor.time, look.source.archive.rules)
    return look.uow.scores.of_node_at(node.address, look.cursor.number, counted)


def _causes(look: ApiSnapshot, node: Node, scores: Sequence[ScoreEntry]) -> NodeCauses:
    rules, time = look.source.archive.rules, look.cursor.time
    return NodeCauses(
        time=time,
        rules=rules,
        figures=figures_at(node, time, rules, look.ranking().peers),
        ranks=tuple(entry.rank for entry in scores),
        timeouts=_timeouts(look.uow.reliability.of_node(node.address, _CHANGES)),
    )


def _timeouts(changes: Iterable[ReliabilityChange]) -> tuple[int, ...]:
    return tuple(change.time for change in changes if change.cause is ReliabilityCause.TIMED_OUT)


def _mean_points(scores: Sequence[ScoreEntry]) -> int:
    return sum(entry.score for entry in scores) * UNIT // max(1, len(scores))


def _group_size(look: ApiSnapshot, scores: list[ScoreEntry]) -> int | None:
    results = look.uow.results.closed_at([entry.at for entry in scores])
    sizes = {len(result.members) for result in results}
    return sizes.pop() if len(sizes) == 1 else None


def _kick_at(view: NodeView) -> int | None:
    proposed = view.kickout.proposed
    is_live = proposed is not None and proposed.state == KickState.LIVE.value
    return proposed.ready_at if proposed is not None and is_live else None
