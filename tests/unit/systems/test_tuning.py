"""A policy is derived from a named one by changing its numbers; errors name the number."""

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_policy import CrynuxPolicy, Weighting
from oracle.systems.overrides import (
    format_policy_parameters,
    override_policy_parameters,
    split_changes,
)
from oracle.systems.pocket.parameters import ArticleParameters
from oracle.systems.pocket.pocket_policy import PocketPolicy
from oracle.systems.registry import (
    get_policies,
    get_policy,
    list_changeable_rules,
    list_rule_set_names,
)


def weighting(**changes):
    policy = get_policy("crynux", changes)
    assert isinstance(policy, CrynuxPolicy)
    return policy.weighting


def parameters(**changes):
    policy = get_policy("article", changes)
    assert isinstance(policy, PocketPolicy)
    return policy.params


def test_changing_a_decimal_parameter_leaves_the_others_unchanged():
    assert weighting(weight_floor="0.01") == Weighting(weight_floor=UNIT // 100)
    assert weighting(fallback="false", disk_boost="1") == Weighting(
        disk_boost=UNIT, fallback=False
    )


def test_pocket_parameters_are_converted_to_their_types():
    changed = parameters(expected="2.5", max_tickets="20", window_ms="60000", needs_stake="false")
    assert changed == ArticleParameters(
        expected=2.5, max_tickets=20, window_ms=60_000, needs_stake=False
    )


@pytest.mark.parametrize("name", get_policies())
def test_every_parameter_round_trips_through_text(name):
    policy = get_policy(name)
    texts = format_policy_parameters(policy)
    assert override_policy_parameters(policy, texts) == policy
    # Each value comes from another policy, so that it is really parsed.
    for other_policy in get_policies().values():
        if format_policy_parameters(other_policy).keys() == texts.keys():
            assert (
                format_policy_parameters(override_policy_parameters(other_policy, texts)) == texts
            )


def test_legacy_policy_has_no_parameters():
    assert format_policy_parameters(get_policy("legacy")) == {}


def test_rule_and_parameter_names_are_disjoint():
    rules = {rule for name in list_rule_set_names() for rule in list_changeable_rules(name)}
    assert (
        not {
            name for policy in get_policies().values() for name in format_policy_parameters(policy)
        }
        & rules
    )


def test_changed_settings_are_split_between_rules_and_policy():
    changes = {"penalty": "0.5", "weight_floor": "0.01"}
    rule_and_policy_changes = split_changes(changes, ("penalty",), get_policy("crynux"))
    assert rule_and_policy_changes == ({"penalty": "0.5"}, {"weight_floor": "0.01"})


def test_name_shared_by_rule_and_policy_is_rejected():
    with pytest.raises(
        ValueError, match="weight_floor: ambiguous name; a rule and a parameter of policy"
    ):
        split_changes({"weight_floor": "1"}, ("weight_floor",), get_policy("crynux"))


def test_unknown_name_error_lists_rules_and_parameters():
    with pytest.raises(
        ValueError, match=r"^luck: no such rule \(available: penalty, weight_floor,"
    ):
        split_changes({"luck": "1"}, ("penalty",), get_policy("crynux"))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "crynux",
            {"luck": "1"},
            r"luck: no such parameter of crynux \(available: weight_floor, ",
        ),
        ("legacy", {"luck": "1"}, r"luck: no such parameter of legacy \(available: none\)"),
        ("crynux", {"weight_floor": "-1"}, "weight_floor: must be a decimal"),
        ("crynux", {"weight_floor": "1e-2"}, "weight_floor: must be a decimal"),
        ("crynux", {"fallback": "no"}, "fallback: must be true or false"),
        ("article", {"max_tickets": "1.5"}, "max_tickets: must be a whole number"),
        ("article", {"max_tickets": "none"}, "max_tickets: must be a whole number"),
        ("article", {"expected": "nan"}, "expected: must be a decimal"),
        ("article", {"expected": "0"}, "expected: must be above 0"),
        ("article", {"flag_ttl_ms": "1"}, "flag_ttl_ms: no such parameter of article"),
        ("portal_api_head", {"cleared_ttl_ms": "1"}, "cleared_ttl_ms: must be flag_ttl_ms or"),
    ],
)
def test_invalid_parameter_change_is_named_in_the_error(name, changes, message):
    with pytest.raises(ValueError, match=message):
        get_policy(name, changes)
