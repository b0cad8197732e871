"""Builds the summary of a node from its answer as of the cursor, or from an explanation."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityCause, ReliabilityChange, ScoreEntry
from oracle.domain.reports.kicks import KickState
from oracle.domain.scoring.node_figures import figures_at
from oracle.domain.scoring.node_scores import count_scores
from oracle.domain.state import Node
from oracle.queries.api.lifting import compute_what_if_figures
from oracle.queries.api.node_order import NodeRanking
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.explain import Explanation
from oracle.queries.sentences.node_sentences import NodeCauses, NodeSummary

# The newest changes to read; sentences cover the last two hours only.
_MAX_CHANGES = 100


class SummaryWithScores(NamedTuple):
    """A node's summary, and the task scores that count, oldest first."""

    summary: NodeSummary
    scores: list[ScoreEntry]


def build_summary(snapshot: ApiSnapshot, node: Node, view: NodeView) -> SummaryWithScores:
    """Return the data for sentences about a node, as of the cursor."""
    scores = _load_scores(snapshot, node)
    causes, membership_change = (
        _build_causes(snapshot, node, scores),
        snapshot.uow.memberships.get_effective_change(node.address),
    )
    summary = NodeSummary(
        time=causes.time,
        rules=causes.rules,
        figures=causes.figures,
        ranks=causes.ranks,
        timeouts=causes.timeouts,
        points=_compute_mean_points(scores),
        group_size=_find_group_size(snapshot, scores),
        place=view.row.place,
        members=view.members,
        lift=view.lift,
        kick_at=_find_kick_time(view),
        changed_at=None if membership_change is None else membership_change.time,
    )
    return SummaryWithScores(summary, scores)


def build_summary_from_explanation(
    explanation: Explanation, ranking: NodeRanking | None = None
) -> NodeSummary:
    """Return the data for sentences about an explained node, as of the explained block.

    `ranking`: the ranking at the same block, or None if the place of the node is not known.
    """
    node, rules, time = explanation.node, explanation.rules, explanation.as_of.time
    scores, membership_change = explanation.scores, explanation.membership_change
    sizes = {len(explanation.members_by_position.get(entry.at, ())) for entry in scores} - {0}
    return NodeSummary(
        time=time,
        rules=rules,
        figures=explanation.figures,
        ranks=tuple(entry.rank for entry in scores),
        timeouts=_filter_timeouts(explanation.changes),
        points=_compute_mean_points(scores),
        group_size=sizes.pop() if len(sizes) == 1 else None,
        place=None if ranking is None else ranking.find_place(node.address),
        members=0 if ranking is None else ranking.member_count,
        lift=compute_what_if_figures(node, time, rules, ranking),
        changed_at=None if membership_change is None else membership_change.time,
    )


def build_causes(snapshot: ApiSnapshot, node: Node) -> NodeCauses:
    """Return the causes of a node's score as of the cursor; cheaper than a full summary."""
    return _build_causes(snapshot, node, _load_scores(snapshot, node))


def _load_scores(snapshot: ApiSnapshot, node: Node) -> list[ScoreEntry]:
    score_count = count_scores(node, snapshot.cursor.time, snapshot.source.archive.rules)
    return snapshot.uow.scores.list_for_node_up_to(
        node.address, snapshot.cursor.number, score_count
    )


def _build_causes(snapshot: ApiSnapshot, node: Node, scores: Sequence[ScoreEntry]) -> NodeCauses:
    rules, time = snapshot.source.archive.rules, snapshot.cursor.time
    return NodeCauses(
        time=time,
        rules=rules,
        figures=figures_at(node, time, rules, snapshot.get_ranking().peers),
        ranks=tuple(entry.rank for entry in scores),
        timeouts=_filter_timeouts(
            snapshot.uow.reliability.list_for_node(node.address, _MAX_CHANGES)
        ),
    )


def _filter_timeouts(changes: Iterable[ReliabilityChange]) -> tuple[int, ...]:
    return tuple(change.time for change in changes if change.cause is ReliabilityCause.TIMED_OUT)


def _compute_mean_points(scores: Sequence[ScoreEntry]) -> int:
    return sum(entry.score for entry in scores) * UNIT // max(1, len(scores))


def _find_group_size(snapshot: ApiSnapshot, scores: list[ScoreEntry]) -> int | None:
    results = snapshot.uow.results.list_closed_at([entry.at for entry in scores])
    sizes = {len(result.members) for result in results}
    return sizes.pop() if len(sizes) == 1 else None


def _find_kick_time(view: NodeView) -> int | None:
    kick = view.kickout.proposed
    is_live = kick is not None and kick.state == KickState.LIVE.value
    return kick.ready_at if kick is not None and is_live else None
