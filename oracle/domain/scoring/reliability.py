"""Declares the causes that change a node's reliability H, with arithmetic and texts.

The fold, the forecasts, `explain`, the sentences and charts of the pages, the event stream and the
notices are derived from `CAUSES`. See docs/reference/scoring-rules.md#reliability.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.scoring.rules import Rules


class ReliabilityCause(StrEnum):
    JOINED = "joined"
    TIMED_OUT = "timed_out"
    # A timeout that has no effect, because the task's time limit was not credible.
    TIMEOUT_VOID = "timeout_void"
    SUCCEEDED = "succeeded"
    REFUNDED = "refunded"


class ReliabilityMark(StrEnum):
    """The mark of a reliability change in the chart on a node's page."""

    DECREASE = "fall"
    INCREASE = "rise"


class CauseInfo(NamedTuple):
    """The texts for a cause, and the names of the rules by which it changes reliability."""

    description: str
    # A singular noun for counts and for the chart's legend.
    noun: str = ""
    # The rule whose value H (reliability) is multiplied by.
    factor_rule: str | None = None
    # Names of two rules, or None. If the first rule is set, it replaces `factor_rule` while H is
    # at least the value of the second.
    first_factor_rules: tuple[str, str] | None = None
    # The rule whose value is added to H.
    increase_rule: str | None = None

    @property
    def mark(self) -> ReliabilityMark | None:
        """The sign for this cause in charts, or None if charts do not show it."""
        if self.factor_rule is not None:
            return ReliabilityMark.DECREASE
        return None if self.increase_rule is None else ReliabilityMark.INCREASE

    def find_factor_rule(self, reliability: int, rules: Rules) -> str | None:
        """Return the name of the rule with the factor for this reliability.

        The result is None if no rule has such a factor.
        """
        if self.first_factor_rules is not None:
            first_rule, min_rule = self.first_factor_rules
            if getattr(rules, first_rule) is not None and reliability >= getattr(rules, min_rule):
                return first_rule
        return self.factor_rule


CAUSES: Mapping[ReliabilityCause, CauseInfo] = MappingProxyType({
    ReliabilityCause.JOINED: CauseInfo("joined"),
    ReliabilityCause.TIMED_OUT: CauseInfo(
        "timed out",
        "timeout",
        factor_rule="penalty",
        first_factor_rules=("first_penalty", "first_penalty_from"),
    ),
    ReliabilityCause.TIMEOUT_VOID: CauseInfo("timeout void"),
    ReliabilityCause.SUCCEEDED: CauseInfo(
        "boosted, its task succeeded", "success that healed", increase_rule="boost"
    ),
    ReliabilityCause.REFUNDED: CauseInfo(
        "boosted, its result was right and the fee refunded",
        "success that healed",
        increase_rule="boost",
    ),
})  # fmt: skip
# Causes that lower reliability, so that a node may become excluded.
DECREASE_CAUSES = tuple(
    cause for cause, info in CAUSES.items() if info.mark is ReliabilityMark.DECREASE
)  # fmt: skip


def list_decrease_causes(rules: Rules) -> list[ReliabilityCause]:
    """Return the causes that lower reliability under these rules.

    Their factor is below 1.
    """
    return [cause for cause in DECREASE_CAUSES if min(_list_factors(CAUSES[cause], rules)) < UNIT]


def _list_factors(cause_info: CauseInfo, rules: Rules) -> list[int]:
    names = (cause_info.factor_rule, *(cause_info.first_factor_rules or ())[:1])
    factors = [getattr(rules, name) for name in names if name is not None]
    return [factor for factor in factors if factor is not None]


def change_reliability(cause: ReliabilityCause, reliability: int, rules: Rules) -> int:
    """Return the reliability (0 to 1) after an event, given the value just before it.

    A join resets reliability in the fold, so it leaves reliability unchanged here.
    """
    cause_info = CAUSES[cause]
    if cause_info.increase_rule is not None:
        increase: int = getattr(rules, cause_info.increase_rule)
        return min(UNIT, reliability + increase)
    factor_rule = cause_info.find_factor_rule(reliability, rules)
    if factor_rule is None:
        return reliability
    return multiply_fixed_point(getattr(rules, factor_rule), reliability)


def remove_reliability_decreases(rules: Rules) -> Rules:
    """Return a copy of the rules in which no event lowers reliability.

    Every factor is 1.
    """
    neutral_rule_values: dict[str, int | None] = {}
    for info in CAUSES.values():
        if info.factor_rule is not None:
            neutral_rule_values[info.factor_rule] = UNIT
        if info.first_factor_rules is not None:
            neutral_rule_values[info.first_factor_rules[0]] = None
    return replace(rules, **neutral_rule_values)  # type: ignore[arg-type]  # names of rules
