"""The short-term factor H of a node: its healing, and the effect of timeouts and successes.

Values are in units of 10^-18, rounded down at every step (docs/reference/scoring-rules.md#numbers
and docs/reference/scoring-rules.md#reliability).
"""

from oracle.domain.fixed_point import UNIT, close_gap_to_one, compute_decay, multiply_fixed
from oracle.domain.scoring.rules import Rules


def heal_reliability(base: int, since: int, time: int, rules: Rules) -> int:
    """Return H at `time`, healed from `base` at `since`, or `base` if `time` is before that."""
    if base == UNIT or time <= since:
        return base
    return close_gap_to_one(base, compute_decay(time - since, rules.tau_seconds))


def penalize_reliability(reliability: int, rules: Rules) -> int:
    """Return H after a timeout."""
    if rules.first_penalty is not None and reliability >= rules.first_penalty_from:
        return multiply_fixed(rules.first_penalty, reliability)
    return multiply_fixed(rules.penalty, reliability)


def boost_reliability(reliability: int, rules: Rules) -> int:
    """Return H after a success; the result is at most 1."""
    return min(UNIT, reliability + rules.boost)


def is_excluded_after(
    before: int, after: int, rules: Rules, *, was_excluded: bool, is_penalty: bool
) -> bool:
    """Return whether a node stays or becomes excluded as H goes from `before` to `after`.

    This function is for rules with two thresholds: only a penalty starts an exclusion, which ends
    as soon as H reaches the exit threshold, also by healing alone
    (docs/reference/scoring-rules.md#relay).
    """
    if is_penalty and after < rules.exclude_enter:
        return True
    has_exited = max(before, after) >= rules.exclude_exit
    return was_excluded and not has_exited
