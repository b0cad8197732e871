"""The accepted findings, each with the reason why the rules are not changed because of it.

docs/explanation/attacks.md#known-findings explains each of them.
"""

from collections.abc import Mapping
from types import MappingProxyType

_TOLL_REASON = (
    "time is bought at the least fee, and the toll is nobody's who worked: what bounds it is the "
    "floor, which a network sets"
)
_RELAY_EXCLUSION_REASON = (
    "the relay excludes for an hour what a few timeouts hit, so that whoever causes them has less "
    "competition; the rule set shows what the relay does"
)
# Reasons that apply to every rule set, keyed by strategy and fault.
REASON_BY_FINDING: Mapping[tuple[str, str], str] = MappingProxyType({
    ("split-stake", "gain"): "the root of the stake favours many small ones; each needs a card of "
    "its own and the least stake",
    ("split-stake", "harm"): "more nodes share the same work",
    ("big-stake", "gain"): "stake is what the draw is meant to weigh; it is locked for it",
    ("fake-alone", "gain"): "nobody compares what one node says; who wants to be sure orders a "
    "group",
    ("collusion", "slashes"): "two groups with two friends each slash an honest node; nine of 39 "
    "nodes lose all their stakes for one such chance",
    ("new-address", "gain"): "a kickout gives the stake back, and an address costs nothing; what "
    "it earns is less than honest work",
    ("trap-groups", "harm"): _TOLL_REASON,
    ("trap-groups-many", "harm"): _TOLL_REASON,
    ("trap-alone", "harm"): _TOLL_REASON,
})  # fmt: skip
# Reasons that apply to a single rule set, keyed by its name.
REASONS_BY_RULE_SET: Mapping[str, Mapping[tuple[str, str], str]] = MappingProxyType({
    "relay": MappingProxyType({
        ("garbage-first-lapsed", "gain"): "in the relay a wrong answer keeps the score of its "
        "rank; there a slash follows at once",
        ("leave-and-return", "gain"): "a join heals in the relay; the rule set shows what it does",
        ("trap-groups", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-groups-many", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-alone", "gain"): _RELAY_EXCLUSION_REASON,
    }),
})  # fmt: skip


def reason_of(rules: str, strategy: str, fault: str) -> str | None:
    """Return why a finding under a rule set is accepted, or None if it is not."""
    rule_set_reasons = REASONS_BY_RULE_SET.get(rules, {})
    return rule_set_reasons.get((strategy, fault)) or REASON_BY_FINDING.get((strategy, fault))
