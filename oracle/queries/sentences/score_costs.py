"""The causes that cost a node QoS, by descending cost; printed by `explain` below its answer.

See docs/how-to/explain-a-score.md#read-the-summary.
"""

from collections import Counter
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed
from oracle.queries.explain import Explanation
from oracle.queries.sentences.node_sentences import NodeSummary, format_timeouts
from oracle.queries.text.human_numbers import format_rank, format_two_decimals, number_in_words


class ScoreCost(NamedTuple):
    """A lost part of QoS, in units of 10^-18, and its cause; the parts and the QoS sum to 1."""

    amount: int
    cause: str


def find_score_costs(explanation: Explanation, summary: NodeSummary) -> list[ScoreCost]:
    """Return the causes that keep QoS below 1, by descending cost; empty for a non-member."""
    figures = explanation.figures
    if figures.qos is None:
        return []
    if explanation.rules.legacy is not None:
        score_costs = _compute_factor_costs(explanation)
    else:
        lost_qos = multiply_fixed(figures.long_term, UNIT - figures.reliability)
        score_costs = [
            *_compute_rank_costs(explanation),
            ScoreCost(lost_qos, _format_reliability(summary)),
        ]
    return sorted(
        (score_cost for score_cost in score_costs if score_cost.amount > 0),
        key=lambda score_cost: -score_cost.amount,
    )


def _compute_rank_costs(explanation: Explanation) -> list[ScoreCost]:
    """Return the missing part of the long-term score, split by the ranks that lost points."""
    missing_score, entries = UNIT - explanation.figures.long_term, explanation.scores
    if not entries or sum(entry.score for entry in entries) != sum(explanation.pool):
        cause = (
            "no task was scored yet" if not explanation.pool else "scores from before a restart"
        )
        return [ScoreCost(missing_score, cause)]
    lost_points_by_rank: Counter[int | None] = Counter()
    for entry in entries:
        lost_points_by_rank[entry.rank] += explanation.rules.q_max - entry.score
    total_lost_points, score_count = sum(lost_points_by_rank.values()), len(entries)
    count_by_rank = Counter(entry.rank for entry in entries)
    return [
        ScoreCost(
            missing_score * points // total_lost_points,
            (
                f"{_format_rank_of_group(explanation, rank)} in {count_by_rank[rank]} of "
                f"{score_count}"
            ),
        )
        for rank, points in lost_points_by_rank.items()
        if points
    ]


def _format_rank_of_group(explanation: Explanation, rank: int | None) -> str:
    """Return a rank as text, with the group size if all groups had the same size."""
    if rank is None:
        return "no result"
    sizes = {
        len(explanation.members_by_position.get(entry.at, ())) for entry in explanation.scores
    }
    size = next(iter(sizes)) if len(sizes) == 1 else 0
    return f"{format_rank(rank)} of {number_in_words(size)}" if size > 1 else format_rank(rank)


def _compute_factor_costs(explanation: Explanation) -> list[ScoreCost]:
    """Return how much QoS R, P and B each cost: the gap to 1, multiplied by the weight."""
    legacy, factors = explanation.rules.legacy, explanation.figures.factors
    if legacy is None or factors is None:
        return []
    speed = factors.speed or 0
    return [
        ScoreCost(
            multiply_fixed(legacy.vram_weight, UNIT - factors.size),
            f"R {format_two_decimals(factors.size)}, VRAM",
        ),
        ScoreCost(
            multiply_fixed(legacy.timeout_weight, UNIT - factors.promptness),
            f"P {format_two_decimals(factors.promptness)}, its timeout setting",
        ),
        ScoreCost(
            multiply_fixed(legacy.speed_weight, UNIT - speed),
            f"B {format_two_decimals(speed)}, its speed",
        ),
    ]


def _format_reliability(summary: NodeSummary) -> str:
    return (
        f"{format_timeouts(summary)}: reliability "
        f"{format_two_decimals(summary.figures.reliability)}"
    )
