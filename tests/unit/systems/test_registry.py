"""Every system is in one list, with a unique name and its policy."""

import pytest

from oracle.systems.overrides import MEANINGS
from oracle.systems.registry import (
    get_policies,
    get_policy,
    get_published_rules,
    get_systems,
    list_rule_set_names,
    list_unpublished_rules,
)

LINE = 80


def test_system_and_policy_share_name_and_version():
    for name, system in get_systems().items():
        assert (name, name) == (system.name, system.policy.name)
        assert system.version == system.policy.version


def test_every_system_with_rules_has_a_rule_set_of_its_name():
    assert {name for name, system in get_systems().items() if system.has_rules} == set(
        list_rule_set_names()
    )


def test_every_policy_is_available_by_name():
    policy_names = {
        "crynux",
        "relay",
        "crynux-docs",
        "legacy",
        "legacy-equal",
        "article",
        "portal_api_head",
    }
    assert get_policies().keys() == policy_names
    for name, policy in get_policies().items():
        assert get_policy(name) is policy


def test_every_rule_has_one_line_description():
    named = {
        rule
        for name in list_rule_set_names()
        for rule in (*get_published_rules(name), *list_unpublished_rules(name))
    }
    assert MEANINGS.keys() == named
    # One line of a table, whatever precedes it.
    assert all(len(meaning) <= LINE for meaning in MEANINGS.values())


def test_unknown_policy_error_lists_policies():
    with pytest.raises(
        ValueError, match=r"unknown policy 'dice'; expected one of: crynux, relay, "
    ):
        get_policy("dice")
