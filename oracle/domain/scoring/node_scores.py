"""Computes a node's status, pool, long-term score, reliability and QoS at a given time.

Numbers between 0 and 1 are in units of 10^-18, rounded down at every step
(docs/reference/scoring-rules.md#numbers). Times are block times in seconds. See
docs/reference/scoring-rules.md.
"""

from bisect import bisect_right

from oracle.domain.fixed_point import UNIT, compute_decay, move_towards_one, multiply_fixed_point
from oracle.domain.scoring.legacy_factors import Factors, PopulationMaxima, compute_node_factors
from oracle.domain.scoring.legacy_tally import (
    WindowTally,
    compute_window_tally,
    get_stored_window_tally,
)
from oracle.domain.scoring.reliability import DECREASE_CAUSES, change_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node


def heal_reliability(base: int, since: int, time: int, rules: Rules) -> int:
    """Return the reliability at `time` of a node that has only recovered since `since`.

    The reliability was `base` at `since`. If `time` is before `since`, return `base`.
    """
    if base == UNIT or time <= since:
        return base
    return move_towards_one(base, compute_decay(time - since, rules.tau_seconds))


def is_excluded_after_change(
    reliability_before: int,
    reliability_after: int,
    rules: Rules,
    *,
    was_excluded: bool,
    is_penalty: bool,
) -> bool:
    """Return whether a node is excluded after its reliability has changed.

    This function is for rules with two thresholds (docs/reference/scoring-rules.md#relay). Only a
    penalty starts an exclusion. The exclusion ends as soon as reliability reaches the exit
    threshold, whether by a success or by recovery alone.
    """
    if is_penalty and reliability_after < rules.exclude_enter:
        return True
    has_exited = max(reliability_before, reliability_after) >= rules.exclude_exit
    return was_excluded and not has_exited


def append_score_to_pool(pool: bytes, score: int, rules: Rules) -> bytes:
    """Append a score to a pool, dropping the oldest score if the pool is full."""
    return (pool + bytes((score,)))[-rules.pool_size :]


def compute_pool_mean(pool: bytes, prior: int | None, rules: Rules) -> int:
    """Return the mean of a pool as a fraction of the best score.

    The unit is 10^-18. The mean of an empty pool is `prior`, or the rules' value for a new node if
    `prior` is None.
    """
    score_sum = sum(pool)
    if not pool or (score_sum == 0 and rules.zero_mean_is_new):
        return rules.new_node_long_term if prior is None else prior
    return score_sum * UNIT // (len(pool) * rules.q_max)


def count_pool_restarts(time: int, rules: Rules) -> int:
    """Return how many of the restarts listed in the rules happened by `time`."""
    return bisect_right(rules.restarts, time)


def is_pool_lost(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a restart discarded the node's pool after its last score.

    Only restarts up to `time` count. The relay keeps pools in memory and means in its database.
    From a restart until its next score, a node therefore has its exact mean, but no pool, so no
    kickout can be due.
    """
    return bool(rules.restarts) and node.restarts < count_pool_restarts(time, rules)


def get_pool_for_kickout(node: Node, time: int, rules: Rules) -> bytes:
    """Return the pool used for the kickout decision at `time`.

    The pool is empty after a restart.
    """
    return b"" if is_pool_lost(node, time, rules) else node.pool


def get_pool_before_score(node: Node, time: int, rules: Rules) -> bytes:
    """Return the pool to which a score at `time` is added.

    After a restart, the pool is reseeded.
    """
    return reseed_pool(node.pool, rules) if is_pool_lost(node, time, rules) else node.pool


def reseed_pool(pool: bytes, rules: Rules) -> bytes:
    """Return a new pool with copies of a lost pool's mean.

    The new pool is empty if every score was 0.
    """
    if not pool or not any(pool):
        return b""
    return bytes((sum(pool) // len(pool),)) * rules.reseed_copies


def build_prior_pool(prior: int, rules: Rules) -> bytes:
    """Return a new pool with copies of the prior score.

    The node's next score is added to this pool.
    """
    return bytes((prior * rules.q_max // UNIT,)) * rules.reseed_copies


def get_status(node: Node) -> str:
    """Return the node's status, such as available, busy or paused.

    The others are quit, slashed, kicked_out and unknown. See
    docs/reference/events-and-jsonl.md#what-replay-prints.
    """
    if node.membership is not Membership.MEMBER:
        return node.membership.value
    if node.paused:
        return "paused"
    return "busy" if node.running else "available"


def compute_reliability(node: Node, time: int, rules: Rules) -> int:
    """Return the node's reliability at `time`, including recovery since the last change."""
    return heal_reliability(node.base, node.since, time, rules)


def compute_long_term_score(node: Node, rules: Rules, time: int) -> int:
    """Return the long-term score Q_long / Q_max at `time`.

    `time` only matters if the rules have windows. Under legacy rules the score is the mean of the
    window, the node score. A restart does not change the mean, because the relay keeps the exact
    mean until the node's next score.
    """
    if rules.legacy is not None:
        return compute_window_mean(compute_window_tally(node, time, rules.legacy), rules)
    return compute_pool_mean(node.pool, node.prior, rules)


def compute_window_mean(tally: WindowTally, rules: Rules) -> int:
    """Return the long-term score Q_long / Q_max for a window under legacy rules."""
    score = tally.node_score
    return rules.new_node_long_term if score is None else score // rules.q_max


def compute_legacy_factors(
    node: Node, time: int, rules: Rules, population_maxima: PopulationMaxima | None
) -> Factors | None:
    """Return the factors R, P, B and Q at `time`, or None without legacy rules.

    Raises:
        ValueError: the rules are legacy rules, and `population_maxima` is None. Use
            `legacy_factors.compute_population_maxima`.
    """
    if rules.legacy is None:
        return None
    if population_maxima is None:
        raise ValueError("legacy rules compare nodes, so `population_maxima` is required")
    return compute_node_factors(node, time, rules.legacy, population_maxima)


def compute_node_qos(
    node: Node, time: int, rules: Rules, population_maxima: PopulationMaxima | None = None
) -> int | None:
    """Return the QoS of a node, or None if it is not a member.

    Under legacy rules, the QoS is Q, which is relative to the maxima at the same time.

    Raises:
        ValueError: the rules are legacy rules, and `population_maxima` is None.
    """
    reliability = compute_reliability(node, time, rules)
    return compute_qos_with_reliability(node, reliability, time, rules, population_maxima)


def compute_qos_with_reliability(
    node: Node,
    reliability: int,
    time: int,
    rules: Rules,
    population_maxima: PopulationMaxima | None,
) -> int | None:
    """Return the QoS of a node with a given reliability at `time`.

    See `compute_node_qos`.
    """
    if node.membership is not Membership.MEMBER:
        return None
    factors = compute_legacy_factors(node, time, rules, population_maxima)
    if factors is not None:
        return factors.combined
    return multiply_fixed_point(compute_long_term_score(node, rules, time), reliability)


def is_excluded(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a member is currently excluded from tasks."""
    if node.membership is not Membership.MEMBER:
        return False
    if rules.has_exclusion_hysteresis and not node.excluded:
        return False
    return is_excluded_with_reliability(node, compute_reliability(node, time, rules), rules)


def is_excluded_with_reliability(node: Node, reliability: int, rules: Rules) -> bool:
    """Return whether a member with this reliability is excluded from tasks.

    The reliability is the current one.
    """
    if node.membership is not Membership.MEMBER:
        return False
    if not rules.has_exclusion_hysteresis:
        return reliability < rules.exclude_enter
    return node.excluded and reliability < rules.exclude_exit


def is_kickout_due(node: Node, rules: Rules, time: int | None = None) -> bool:
    """Return whether a member's pool is full with a mean below the kickout threshold.

    If a node quits while its kickout is due, the kickout stays due. `time` only matters if the
    rules have restarts or windows; if it is None, the stored pool counts.
    """
    has_quit_while_due = (
        node.membership is Membership.QUIT
        and node.kickout_due_since is not None
        and rules.legacy is None
    )
    if node.membership is not Membership.MEMBER and not has_quit_while_due:
        return False
    if rules.legacy is not None:
        tally = (
            get_stored_window_tally(node)
            if time is None
            else compute_window_tally(node, time, rules.legacy)
        )
        return tally.justifies_kickout(rules.legacy)
    pool = node.pool if time is None else get_pool_for_kickout(node, time, rules)
    return len(pool) == rules.pool_size and is_below_kickout_threshold(sum(pool), rules)


def is_below_kickout_threshold(total: int, rules: Rules) -> bool:
    """Return whether the sum of a full pool is below the kickout threshold.

    A sum at the threshold is not below it.
    """
    return total * UNIT < rules.kickout_below * rules.pool_size


def count_effective_scores(node: Node, time: int, rules: Rules) -> int:
    """Return how many of the node's last task scores determine its score at `time`.

    These are the scores in the pool or, under legacy rules, in the current window.
    """
    if rules.legacy is not None:
        return compute_window_tally(node, time, rules.legacy).tasks
    return len(node.pool)


# After this many seconds, reliability (H) has fully recovered under any rules
# (docs/reference/scoring-rules.md#numbers).
_FOREVER = 1 << 21


def compute_max_exclusion_seconds(rules: Rules) -> int:
    """Return the longest exclusion that a single event can cause, in seconds.

    The result is 0 if no event can cause an exclusion. The longest exclusion follows a timeout of
    a node whose H is just above the threshold, because a node below the threshold gets no task.
    """
    exclusion_threshold = min(rules.exclude_enter, UNIT)
    base_reliability = min(
        change_reliability(cause, exclusion_threshold, rules) for cause in DECREASE_CAUSES
    )
    if base_reliability >= rules.exclude_enter:
        return 0
    return _compute_healing_seconds(base_reliability, rules)


def compute_exclusion_end_time(base_reliability: int, since: int, rules: Rules) -> int:
    """Return when a node's exclusion ends by recovery alone.

    The reliability is given as of `since`. The result and `since` are block times in seconds.
    """
    return since + _compute_healing_seconds(base_reliability, rules)


def _compute_healing_seconds(base_reliability: int, rules: Rules) -> int:
    """Return the seconds until reliability recovers to the exit threshold.

    The recovery starts at the base.
    """
    low, high = 0, _FOREVER
    while low < high:
        middle_seconds = (low + high) // 2
        if heal_reliability(base_reliability, 0, middle_seconds, rules) < rules.exclude_exit:
            low = middle_seconds + 1
        else:
            high = middle_seconds
    return low
