"""Forecasts when a node's kickout becomes due if its scores stay as they are."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low
from typing import Literal

from pydantic import Field

from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.scoring.kickout_forecast import RECENT_SCORES, forecast_kickout, is_near
from oracle.domain.scoring.node_scores import get_pool_before_score, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.queries.answers import ApiModel
from oracle.queries.text.human_numbers import format_count, format_duration

KickoutState = Literal["due", "expected", "not_expected", "no_score", "no_forecast", "no_member"]


class KickoutOutlook(ApiModel):
    """A forecast of a node's kickout if its next scores equal its recent mean score."""

    scores: int = Field(
        description="Number of scored tasks until the kickout is due; 0 if it is due now."
    )
    seconds: int | None = Field(
        description=(
            "Seconds until the kickout is due, if the next scores are as far apart as the median "
            "of the node's last scores; null if fewer than two scores count."
        )
    )
    recent_scores: int = Field(
        description=(
            "Number of the node's last scores, at most 20, whose mean the forecast assumes for "
            "each further score."
        )
    )
    first_places: int | None = Field(
        description=(
            "Number of first places in the next `scores` tasks that would prevent the kickout; "
            "null if no number of first places would prevent it, or if it is due now."
        )
    )
    second_places: int | None = Field(
        description=(
            "Number of second places in the next `scores` tasks that would prevent the kickout; "
            "null if no number of them would, or if it is due now."
        )
    )

    @property
    def is_near(self) -> bool:
        """Whether the kickout is near; see `kickout_forecast.is_near`."""
        return is_near(self.scores)


def build_kickout_outlook(
    node: Node, time: int, rules: Rules, entries: Sequence[ScoreEntry]
) -> KickoutOutlook | None:
    """Forecast when a member's kickout becomes due.

    The result is None if no kickout would become due. `time` is a block time. `entries` are the
    node's scores, oldest first.
    """
    forecast = forecast_kickout(node, time, rules)
    if forecast is None:
        return None
    gap_seconds = compute_median_gap(entries)
    return KickoutOutlook(
        scores=forecast.scores,
        seconds=None if gap_seconds is None else gap_seconds * forecast.scores,
        recent_scores=forecast.recent_scores,
        first_places=forecast.first_places,
        second_places=forecast.second_places,
    )


def format_kickout_outlook(outlook: KickoutOutlook) -> str:
    """Return one sentence about when the kickout becomes due if the scores stay the same."""
    delay_text = f", in about {format_duration(outlook.seconds)}" if outlook.seconds else ""
    tasks_text = format_count(outlook.scores, "scored task")
    return f"At this rate a kickout is due in {tasks_text}{delay_text}."


def classify_kickout_state(
    node: Node, time: int, rules: Rules, outlook: KickoutOutlook | None
) -> KickoutState:
    """Return whether a node's kickout is due, expected or not expected at a block time.

    If no forecast is possible, the state gives the reason.
    """
    if is_kickout_due(node, rules, time):
        return "due"
    if node.membership is not Membership.MEMBER:
        return "no_member"
    if rules.legacy is not None:
        return "no_forecast"
    if not get_pool_before_score(node, time, rules):
        return "no_score"
    return "not_expected" if outlook is None else "expected"


def compute_median_gap(entries: Sequence[ScoreEntry]) -> int | None:
    """Return the median number of seconds between the node's recent scores.

    The result is None for fewer than two scores.
    """
    score_times = [entry.time for entry in entries[-RECENT_SCORES - 1 :]]
    gaps = [time - previous_time for previous_time, time in pairwise(score_times)]
    return median_low(gaps) if gaps else None
