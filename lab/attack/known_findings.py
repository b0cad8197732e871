"""The accepted findings, each with the reason why the rules are not changed because of it.

docs/explanation/attacks.md#known-findings explains each of them.
"""

from collections.abc import Mapping
from types import MappingProxyType

_TOLL_REASON = (
    "occupying nodes costs only the minimum fee, and the toll does not go to the nodes that "
    "worked; the minimum fee, which the network sets, limits the harm"
)
_RELAY_EXCLUSION_REASON = (
    "the relay excludes a node for an hour after a few timeouts, so a creator that causes "
    "timeouts has fewer competitors; the rule set shows what the relay does"
)
# Reasons that apply to every rule set, keyed by strategy and fault.
REASON_BY_FINDING: Mapping[tuple[str, str], str] = MappingProxyType({
    ("split-stake", "gain"): "the weight depends on the root of the stake, which favours many "
    "small stakes; each node needs its own GPU and the minimum stake",
    ("split-stake", "harm"): "more nodes share the same amount of work",
    ("big-stake", "gain"): "the draw is meant to favour a larger stake, and the stake is locked "
    "in return",
    ("fake-alone", "gain"): "nobody compares the result of a single task; a creator that needs "
    "certainty orders a group",
    ("collusion", "slashes"): "two groups with two colluding nodes each slash an honest node; "
    "nine of 39 nodes lose all their stakes for one such chance",
    ("new-address", "gain"): "a kickout returns the stake, and a new address costs almost "
    "nothing; the node earns less than with honest work",
    ("trap-groups", "harm"): _TOLL_REASON,
    ("trap-groups-many", "harm"): _TOLL_REASON,
    ("trap-alone", "harm"): _TOLL_REASON,
})  # fmt: skip
# Reasons that apply to a single rule set, keyed by its name.
REASONS_BY_RULE_SET: Mapping[str, Mapping[tuple[str, str], str]] = MappingProxyType({
    "relay": MappingProxyType({
        ("garbage-first-lapsed", "gain"): "under the relay's rules a wrong answer keeps the score "
        "of its rank; in the relay itself a slash follows at once",
        ("leave-and-return", "gain"): "a join restores reliability in the relay; the rule set "
        "shows what the relay does",
        ("trap-groups", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-groups-many", "gain"): _RELAY_EXCLUSION_REASON,
        ("trap-alone", "gain"): _RELAY_EXCLUSION_REASON,
    }),
})  # fmt: skip


def get_accepted_reason(rules: str, strategy: str, fault: str) -> str | None:
    """Return why a finding under a rule set is accepted, or None if it is not."""
    rule_set_reasons = REASONS_BY_RULE_SET.get(rules, {})
    return rule_set_reasons.get((strategy, fault)) or REASON_BY_FINDING.get((strategy, fault))
