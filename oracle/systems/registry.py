"""Lists every supported system by name, with its rule set and policy.

A new system needs a folder here, and a line in each of the lists below.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import CRYNUX_DOCS_POLICY, CRYNUX_POLICY, RELAY_POLICY
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS, RELAY
from oracle.systems.legacy.legacy_policy import (
    LEGACY_BASE_RULES,
    LEGACY_EQUAL_POLICY,
    LEGACY_POLICY,
)
from oracle.systems.overrides import (
    apply_rule_changes,
    fill_missing_rules,
    format_rule_values,
    get_changeable_rules,
    override_policy_parameters,
)
from oracle.systems.pocket.pocket_policy import ARTICLE, PORTAL_API_HEAD
from oracle.systems.policy import SelectionPolicy


@dataclass(frozen=True, slots=True)
class System:
    """A rule set and the policy that belongs to it.

    `source` names the document, and `summary` describes the system in one line. `has_rules` is
    whether there is a rule set of the same name. If there is none, the policy keeps its own
    scores.
    """

    name: str
    version: int
    source: str
    summary: str
    policy: SelectionPolicy
    has_rules: bool


# JSON object of each rule set, without the values that its source never published.
_RULE_SETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    **{rules.name: json.loads(rules.to_json()) for rules in (CRYNUX, RELAY, CRYNUX_DOCS)},
    LEGACY_BASE_RULES["name"]: LEGACY_BASE_RULES,
})  # fmt: skip

_SYSTEMS: tuple[System, ...] = (
    System(
        name="crynux",
        version=CRYNUX.version,
        source="Crynux documents, 2026",
        summary="Crynux's documents with fixes; selection by stake, QoS and models",
        policy=CRYNUX_POLICY,
        has_rules=True,
    ),
    System(
        name="relay",
        version=RELAY.version,
        source="Crynux relay, 2026-08",
        summary="the production relay of 2026-08 as it works",
        policy=RELAY_POLICY,
        has_rules=True,
    ),
    System(
        name="crynux-docs",
        version=CRYNUX_DOCS.version,
        source="Crynux documents, 2026",
        summary="Crynux's documents to the letter, including their loopholes",
        policy=CRYNUX_DOCS_POLICY,
        has_rules=True,
    ),
    System(
        name="legacy",
        version=LEGACY_BASE_RULES["version"],
        source="Crynux documents, 2024",
        summary="the documents of 2024: three nodes a task, two rounds, monthly scores",
        policy=LEGACY_POLICY,
        has_rules=True,
    ),
    System(
        name="article",
        version=ARTICLE.version,
        source="Pocket article",
        summary="Pocket's selector: tickets by latency and success rate",
        policy=ARTICLE,
        has_rules=False,
    ),
    System(
        name="portal_api_head",
        version=PORTAL_API_HEAD.version,
        source="Pocket portal-api",
        summary="Pocket's selector as implemented in portal-api, bug for bug",
        policy=PORTAL_API_HEAD,
        has_rules=False,
    ),
)

# Policies that are not the default of any system.
_OTHER_POLICIES: tuple[SelectionPolicy, ...] = (LEGACY_EQUAL_POLICY,)

# Other names of the default profile of a system.
_ALIASES: Mapping[str, str] = MappingProxyType({"pocket": ARTICLE.name})

_NO_CHANGES: Mapping[str, str] = MappingProxyType({})


def get_systems() -> Mapping[str, System]:
    """Return all systems, by name."""
    return {system.name: system for system in _SYSTEMS}


def list_rule_set_names() -> tuple[str, ...]:
    """Return the names of all rule sets, even of incomplete ones."""
    return tuple(_RULE_SETS)


def build_rules(name: str, changes: Mapping[str, str] = _NO_CHANGES) -> Rules:
    """Build a rule set in which some rules are changed.

    `changes` maps dotted names to text: `{"tau_seconds": "900", "legacy.vram_weight": "0.3"}`. The
    result keeps the name and version of the rule set, but has another JSON.

    Raises:
        ValueError: there is no rule set or rule of that name, a value is invalid, or a value that
            was never published is missing; the message names the rule and the valid values.
    """
    return apply_rule_changes(_get_rule_values(name), changes)


def get_published_rules(name: str) -> Mapping[str, str]:
    """Return every published rule of a rule set as text, by dotted name.

    Rules that were never published are left out.

    Raises:
        ValueError: there is no rule set of that name.
    """
    return format_rule_values(_get_rule_values(name))


def rule_set_to_json(name: str, changes: Mapping[str, str] = _NO_CHANGES) -> dict[str, Any]:
    """Convert a rule set to the JSON object of a rules file.

    Some of its rules may be changed. Without changes, values that were never published are None.

    Raises:
        ValueError: see `build_rules`; an incomplete set can only be returned without changes.
    """
    values = _get_rule_values(name)
    return fill_missing_rules(
        json.loads(apply_rule_changes(values, changes).to_json()) if changes else values
    )


def list_unpublished_rules(name: str) -> tuple[str, ...]:
    """Return the rules of a set that were never published.

    They must be given as changes.

    Raises:
        ValueError: there is no rule set of that name.
    """
    published_rules = get_published_rules(name)
    return tuple(rule for rule in list_changeable_rules(name) if rule not in published_rules)


def list_changeable_rules(name: str) -> tuple[str, ...]:
    """Return the dotted names of the rules that may be changed in a rule set.

    Raises:
        ValueError: there is no rule set of that name.
    """
    return tuple(get_changeable_rules(_get_rule_values(name)))


def compute_rule_changes(rules: Rules) -> dict[str, str]:
    """Return how these rules differ from the published rule set with the same name.

    The result maps dotted names to text, as in `build_rules`.

    Raises:
        ValueError: there is no rule set of that name.
    """
    published_rules = get_published_rules(rules.name)
    text_by_rule = format_rule_values(json.loads(rules.to_json()))
    return {name: text for name, text in text_by_rule.items() if published_rules.get(name) != text}


def get_rules(name: str) -> Rules:
    """Return a published rule set without changes.

    Raises:
        ValueError: there is no set of that name, or it is incomplete without changes.
    """
    return build_rules(name)


def get_policy(name: str, changes: Mapping[str, str] = _NO_CHANGES) -> SelectionPolicy:
    """Return a policy with changed parameters.

    `pocket` stands for the profile `article`. `changes` maps names to text: `{"weight_floor":
    "0.01"}`; `overrides.format_policy_parameters` lists all names. The result keeps the name and
    version of the policy.

    Raises:
        ValueError: there is no policy or parameter of that name, or a value is invalid; the
            message lists the valid names.
    """
    policy_by_name = get_policies()
    policy_name = _ALIASES.get(name, name)
    if policy_name not in policy_by_name:
        raise ValueError(f"unknown policy {name!r}; expected one of: {', '.join(policy_by_name)}")
    return override_policy_parameters(policy_by_name[policy_name], changes)


def get_policies() -> Mapping[str, SelectionPolicy]:
    """Return all policies, by name."""
    all_policies = (*(system.policy for system in _SYSTEMS), *_OTHER_POLICIES)
    return {policy.name: policy for policy in all_policies}


def _get_rule_values(name: str) -> Mapping[str, Any]:
    if name not in _RULE_SETS and name in get_policies():
        raise ValueError(
            f"{name} is a policy without scoring rules, for dispatch.policy; expected one of the "
            f"rule sets: {', '.join(_RULE_SETS)}"
        )
    if name not in _RULE_SETS:
        raise ValueError(f"unknown rule set {name!r}; expected one of: {', '.join(_RULE_SETS)}")
    return _RULE_SETS[name]
