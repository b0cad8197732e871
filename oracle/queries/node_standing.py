"""Builds a node's summary at the cursor or an explained block, and the causes of its lost QoS.

`explain` prints the causes below its answer (docs/how-to/explain-a-score.md#read-the-summary).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.fold.working_set import ReliabilityChange, ScoreEntry
from oracle.domain.reports.node_kicks import EXPELLED_STATES, KickState
from oracle.domain.scoring.node_figures import compute_node_scores
from oracle.domain.scoring.node_scores import count_effective_scores
from oracle.domain.scoring.reliability import DECREASE_CAUSES
from oracle.domain.state import Node
from oracle.queries.advice.kickout_outlook import build_kickout_outlook, compute_median_gap
from oracle.queries.api.lifting import compute_what_if_counts
from oracle.queries.api.node_order import NodeRanking
from oracle.queries.explain import Explanation
from oracle.queries.node_sentences import NodeCauses, NodeSummary, format_recent_decreases
from oracle.queries.text.human_numbers import (
    format_number_in_words,
    format_rank,
    format_two_decimals,
)

if TYPE_CHECKING:
    from oracle.queries.advice.advice_record import AdviceRecord
    from oracle.queries.api.node_view import NodeView
    from oracle.queries.api.source import ApiSnapshot


# Maximum number of changes that are read. It is enough, because the sentences cover only the last
# two hours.
_MAX_CHANGES = 100


def build_node_summary(
    snapshot: "ApiSnapshot", record: "AdviceRecord", view: "NodeView"
) -> NodeSummary:
    """Build the data for sentences about a node, as of the cursor."""
    node, scores = record.node, record.entries
    causes = _build_score_causes(snapshot, node, scores, record.changes)
    membership_change = snapshot.uow.memberships.find_effective_change(node.address)
    return NodeSummary(
        time=causes.time,
        rules=causes.rules,
        node_scores=causes.node_scores,
        ranks=causes.ranks,
        decreases=causes.decreases,
        points=_compute_mean_points(scores),
        score_gap=compute_median_gap(scores),
        group_size=_find_group_size(record),
        place=view.row.place,
        members=view.members,
        lift=view.lift,
        kickout=build_kickout_outlook(node, causes.time, causes.rules, scores),
        kick_at=_find_kickout_time(view),
        obstacle=view.kickout.obstacle,
        is_expelled=_is_expelled(view),
        shown_round=_find_round_of_kickout(snapshot, view),
        changed_at=None if membership_change is None else membership_change.time,
    )


def build_node_summary_from_explanation(
    explanation: Explanation, ranking: NodeRanking | None = None
) -> NodeSummary:
    """Build the data for sentences about a node, as of its explained block.

    `ranking` is the ranking at the same block, or None if the node's rank is not known.
    """
    node, rules, time = explanation.node, explanation.rules, explanation.as_of.time
    scores, membership_change = explanation.scores, explanation.membership_change
    group_sizes = {len(explanation.members_by_position.get(entry.at, ())) for entry in scores} - {
        0
    }
    return NodeSummary(
        time=time,
        rules=rules,
        node_scores=explanation.node_scores,
        ranks=tuple(entry.rank for entry in scores),
        decreases=_select_decreases(explanation.changes),
        points=_compute_mean_points(scores),
        score_gap=compute_median_gap(scores),
        group_size=group_sizes.pop() if len(group_sizes) == 1 else None,
        place=None if ranking is None else ranking.find_rank(node.address),
        members=0 if ranking is None else ranking.member_count,
        lift=compute_what_if_counts(node, time, rules, ranking),
        kickout=build_kickout_outlook(node, time, rules, scores),
        changed_at=None if membership_change is None else membership_change.time,
    )


def build_score_causes(snapshot: "ApiSnapshot", node: Node) -> NodeCauses:
    """Determine the causes of a node's score as of the cursor, without a complete summary."""
    score_count = count_effective_scores(node, snapshot.cursor.time, snapshot.source.archive.rules)
    scores = snapshot.uow.scores.list_for_node_up_to_block(
        node.address, snapshot.cursor.number, score_count
    )
    changes = snapshot.uow.reliability.list_for_node(node.address, _MAX_CHANGES)
    return _build_score_causes(snapshot, node, scores, changes)


def _build_score_causes(
    snapshot: "ApiSnapshot",
    node: Node,
    scores: Sequence[ScoreEntry],
    changes: Iterable[ReliabilityChange],
) -> NodeCauses:
    rules, time = snapshot.source.archive.rules, snapshot.cursor.time
    return NodeCauses(
        time=time,
        rules=rules,
        node_scores=compute_node_scores(node, time, rules, snapshot.get_ranking().peers),
        ranks=tuple(entry.rank for entry in scores),
        decreases=_select_decreases(changes),
    )


def _select_decreases(changes: Iterable[ReliabilityChange]) -> tuple[ReliabilityChange, ...]:
    # If the factor is 1, an event with such a cause does not lower reliability.
    return tuple(
        change
        for change in changes
        if change.cause in DECREASE_CAUSES and change.after < change.before
    )


def _compute_mean_points(scores: Sequence[ScoreEntry]) -> int:
    return sum(entry.score for entry in scores) * UNIT // max(1, len(scores))


def _find_group_size(record: "AdviceRecord") -> int | None:
    group_sizes = {len(scored_task.group.members) for scored_task in record.scored_tasks}
    return group_sizes.pop() if len(group_sizes) == 1 else None


def _find_kickout_time(view: "NodeView") -> int | None:
    on_chain_kickout = view.kickout.on_chain
    is_accused = on_chain_kickout is not None and on_chain_kickout.state == KickState.ACCUSED.value
    return on_chain_kickout.ready_at if on_chain_kickout is not None and is_accused else None


def _find_round_of_kickout(snapshot: "ApiSnapshot", view: "NodeView") -> int | None:
    """Return the last accepted round, if its leaves show the node's due kickout."""
    due_since = view.kickout.due_since_block
    accepted_round = snapshot.uow.rounds.find_last_provable_round()
    if due_since is None or accepted_round is None or accepted_round.as_of < due_since:
        return None
    return accepted_round.round


def _is_expelled(view: "NodeView") -> bool:
    on_chain_kickout = view.kickout.on_chain
    return (
        on_chain_kickout is not None
        and on_chain_kickout.state in EXPELLED_STATES
        and on_chain_kickout.expelled_until is not None
        and view.as_of.time < on_chain_kickout.expelled_until
    )


class ScoreCost(NamedTuple):
    """A part of the QoS that a node lost, in units of 10^-18, and its cause.

    All parts and the QoS sum to 1.
    """

    amount: int
    cause: str


def compute_score_costs(explanation: Explanation, summary: NodeSummary) -> list[ScoreCost]:
    """Return why a member's QoS is below 1, with the largest loss first."""
    node_scores = explanation.node_scores
    if node_scores.qos is None:
        return []
    if explanation.rules.legacy is not None:
        score_costs = _compute_factor_costs(explanation)
    else:
        lost_qos = multiply_fixed_point(node_scores.long_term, UNIT - node_scores.reliability)
        score_costs = [
            *_compute_rank_costs(explanation),
            ScoreCost(lost_qos, _format_reliability(summary)),
        ]
    return sorted(
        (score_cost for score_cost in score_costs if score_cost.amount > 0),
        key=lambda score_cost: -score_cost.amount,
    )


def _compute_rank_costs(explanation: Explanation) -> list[ScoreCost]:
    """Return how much each rank lowers the long-term score.

    If ranks are unknown, the result is one total.
    """
    missing_score = UNIT - explanation.node_scores.long_term
    scored_entries = explanation.scores
    if not scored_entries or sum(entry.score for entry in scored_entries) != sum(explanation.pool):
        cause_text = (
            "no task was scored yet" if not explanation.pool else "scores from before a restart"
        )
        return [ScoreCost(missing_score, cause_text)]
    lost_points_by_rank: Counter[int | None] = Counter()
    for entry in scored_entries:
        lost_points_by_rank[entry.rank] += explanation.rules.q_max - entry.score
    total_lost_points = sum(lost_points_by_rank.values())
    score_count = len(scored_entries)
    count_by_rank = Counter(entry.rank for entry in scored_entries)
    return [
        ScoreCost(
            missing_score * points // total_lost_points,
            (
                f"{_format_rank_in_group(explanation, rank)} in {count_by_rank[rank]} of "
                f"{score_count}"
            ),
        )
        for rank, points in lost_points_by_rank.items()
        if points
    ]


def _format_rank_in_group(explanation: Explanation, rank: int | None) -> str:
    """Format a rank as text, with the group size if all groups of the node have the same size."""
    if rank is None:
        return "no result"
    group_sizes = {
        len(explanation.members_by_position.get(entry.at, ())) for entry in explanation.scores
    }
    group_size = next(iter(group_sizes)) if len(group_sizes) == 1 else 0
    if group_size > 1:
        return f"{format_rank(rank)} of {format_number_in_words(group_size)}"
    return format_rank(rank)


def _compute_factor_costs(explanation: Explanation) -> list[ScoreCost]:
    """Return the QoS lost by each of the factors R, P and B.

    The loss is the factor's weight multiplied by its difference from 1.
    """
    legacy, factors = explanation.rules.legacy, explanation.node_scores.factors
    if legacy is None or factors is None:
        return []
    speed = factors.speed or 0
    return [
        ScoreCost(
            multiply_fixed_point(legacy.vram_weight, UNIT - factors.size),
            f"R {format_two_decimals(factors.size)}, VRAM",
        ),
        ScoreCost(
            multiply_fixed_point(legacy.timeout_weight, UNIT - factors.promptness),
            f"P {format_two_decimals(factors.promptness)}, its timeout setting",
        ),
        ScoreCost(
            multiply_fixed_point(legacy.speed_weight, UNIT - speed),
            f"B {format_two_decimals(speed)}, its speed",
        ),
    ]


def _format_reliability(summary: NodeSummary) -> str:
    return (
        f"{format_recent_decreases(summary)}: reliability "
        f"{format_two_decimals(summary.node_scores.reliability)}"
    )
