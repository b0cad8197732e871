"""Forecasts a node's kickout, assuming that future scores are like recent scores.

The functions are pure, and use whole numbers only (docs/explanation/kickouts.md#forecast).
"""

from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import get_pool_before_score
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node

# The forecast assumes that the next scores will be like this many of the newest ones.
RECENT_SCORES = 20
# A kickout becomes near when at most NEAR_SCORES more scores would make it due, and stops being
# near when it would take more than FAR_SCORES.
NEAR_SCORES, FAR_SCORES = 15, 25


@dataclass(frozen=True, slots=True)
class KickoutForecast:
    """The number of further scores until a kickout is due.

    The number is 0 if the kickout is already due. `recent_scores` is the number of last scores
    that the forecast repeats. `first_places` and `second_places` are how many of these further
    scores must be first or second places to avoid the kickout. They are None if even all of the
    scores would not be enough, or if the rules have no such place.
    """

    scores: int
    recent_scores: int
    first_places: int | None
    second_places: int | None


def is_near(scores: int) -> bool:
    """Return whether a kickout is near if it becomes due after `scores` more scores.

    A kickout that is already due is not near.
    """
    return 0 < scores <= NEAR_SCORES


def forecast_kickout(node: Node, time: int, rules: Rules) -> KickoutForecast | None:
    """Return the kickout forecast for a member at a block time in seconds.

    The result is None without a score, under legacy rules, and if no kickout would become due.
    """
    pool = get_pool_before_score(node, time, rules)
    if node.membership is not Membership.MEMBER or rules.legacy is not None or not pool:
        return None
    pool_forecast = _PoolForecast(pool, pool[-RECENT_SCORES:], rules)
    scores_until_due = pool_forecast.count_scores_until_due()
    if scores_until_due is None:
        return None
    best_score, second_score = (*sorted(rules.rank_scores, reverse=True), None)[:2]
    return KickoutForecast(
        scores_until_due,
        len(pool_forecast.recent),
        pool_forecast.count_scores_to_avoid_kickout(scores_until_due, best_score),
        pool_forecast.count_scores_to_avoid_kickout(scores_until_due, second_score),
    )


def is_kickout_near(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a member's kickout has been near for its last two scores.

    A kickout that is already due is not near. A single score, such as the timeout of a healthy
    node, is not enough.
    """
    forecast = forecast_kickout(node, time, rules)
    if forecast is None or not is_near(forecast.scores):
        return False
    # The newest score displaced an older one, so the pool before it is not fully known. The
    # displaced score would only decide whether a kickout was already due, so this estimate ignores
    # it.
    pool = get_pool_before_score(node, time, rules)[:-1]
    scores_until_due_before = _PoolForecast(
        pool, pool[-RECENT_SCORES:], rules
    ).count_scores_until_due()
    return scores_until_due_before is not None and scores_until_due_before <= NEAR_SCORES


@dataclass(frozen=True, slots=True)
class _PoolForecast:
    """A score pool, and the recent scores whose mean stands for each future score."""

    pool: bytes
    recent: bytes
    rules: Rules

    def count_scores_until_due(self) -> int | None:
        """Return how many more scores make a kickout due, or None if it never is.

        Only one pool of scores is tried, because after that the mean of the pool no longer
        changes.
        """
        score_counts = range(self.rules.pool_size + 1)
        return next((count for count in score_counts if self.is_kickout_due_after(count)), None)

    def count_scores_to_avoid_kickout(
        self, scores_until_due: int, points: int | None
    ) -> int | None:
        """Return how many of the next scores must be `points` to avoid the kickout.

        The next scores are those until the kickout is due. The result is None if even all of them
        are not enough, or if `points` is None.
        """
        if points is None:
            return None
        score_counts = range(1, scores_until_due + 1)
        return next(
            (
                count
                for count in score_counts
                if not self.is_kickout_due_after(scores_until_due, count, points)
            ),
            None,
        )

    def is_kickout_due_after(self, count: int, better_scores: int = 0, points: int = 0) -> bool:
        """Return whether a kickout is due after `count` further scores.

        `better_scores` is how many of the scores are `points`; the others are the recent mean. All
        sums are multiplied by the number of recent scores, so that the mean is exact.
        """
        size = self.rules.pool_size
        sample_size = len(self.recent)
        if not sample_size or len(self.pool) + count < size:
            return False
        kept_sum = sum(self.pool[-(size - count) :]) if count < size else 0
        repeated_count = min(count, size) - better_scores
        scaled_score_sum = (
            kept_sum + better_scores * points
        ) * sample_size + repeated_count * sum(self.recent)
        return scaled_score_sum * UNIT < self.rules.kickout_below * size * sample_size
