"""The causes that cost a node QoS, by descending cost; printed by `explain` below its answer.

See docs/how-to/explain-a-score.md#read-the-summary.
"""

from collections import Counter
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply
from oracle.queries.explain import Explanation
from oracle.queries.sentences.node_sentences import NodeStanding, of_timeouts
from oracle.queries.text.human_numbers import in_words, rank_text, two_digits


class ScoreCost(NamedTuple):
    """A lost part of QoS, in units of 10^-18, and its cause; the parts and the QoS sum to 1."""

    costs: int
    words: str


def reasons(told: Explanation, standing: NodeStanding) -> list[ScoreCost]:
    """Return the causes that keep QoS below 1, by descending cost; empty for a non-member."""
    figures = told.figures
    if figures.qos is None:
        return []
    if told.rules.legacy is not None:
        found = _of_factors(told)
    else:
        lost = multiply(figures.long_term, UNIT - figures.reliability)
        found = [*_of_scores(told), ScoreCost(lost, _of_reliability(standing))]
    return sorted((one for one in found if one.costs > 0), key=lambda one: -one.costs)


def _of_scores(told: Explanation) -> list[ScoreCost]:
    """Return the missing part of the long-term score, split by the ranks that lost points."""
    lacks, entries = UNIT - told.figures.long_term, told.scores
    if not entries or sum(entry.score for entry in entries) != sum(told.pool):
        words = "no task was scored yet" if not told.pool else "scores from before a restart"
        return [ScoreCost(lacks, words)]
    lost: Counter[int | None] = Counter()
    for entry in entries:
        lost[entry.rank] += told.rules.q_max - entry.score
    all_lost, total = sum(lost.values()), len(entries)
    many = Counter(entry.rank for entry in entries)
    return [
        ScoreCost(lacks * points // all_lost, f"{_placed(told, rank)} in {many[rank]} of {total}")
        for rank, points in lost.items()
        if points
    ]


def _placed(told: Explanation, rank: int | None) -> str:
    """Return a rank as text, with the group size if all groups had the same size."""
    if rank is None:
        return "no result"
    sizes = {len(told.groups.get(entry.at, ())) for entry in told.scores}
    size = next(iter(sizes)) if len(sizes) == 1 else 0
    return f"{rank_text(rank)} of {in_words(size)}" if size > 1 else rank_text(rank)


def _of_factors(told: Explanation) -> list[ScoreCost]:
    """Return the parts that R, P and B lack, by their weights."""
    legacy, found = told.rules.legacy, told.figures.factors
    if legacy is None or found is None:
        return []
    speed = found.speed or 0
    return [
        ScoreCost(
            multiply(legacy.vram_weight, UNIT - found.size), f"R {two_digits(found.size)}, VRAM"
        ),
        ScoreCost(
            multiply(legacy.timeout_weight, UNIT - found.promptness),
            f"P {two_digits(found.promptness)}, its timeout setting",
        ),
        ScoreCost(
            multiply(legacy.speed_weight, UNIT - speed), f"B {two_digits(speed)}, its speed"
        ),
    ]


def _of_reliability(standing: NodeStanding) -> str:
    return f"{of_timeouts(standing)}: reliability {two_digits(standing.figures.reliability)}"
