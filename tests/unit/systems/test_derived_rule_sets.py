"""A rule set can be derived from a published one by name and type; errors name the rule."""

import json

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from oracle.systems.overrides import parse_change_table
from oracle.systems.registry import (
    build_rules,
    compute_rule_changes,
    get_published_rules,
    get_rules,
    list_rule_set_names,
)
from tests.support.rule_strategies import changed_rules

CHOSEN = {
    "legacy.kickout_tasks": "3",
    "legacy.vram_weight": "0.3",
    "legacy.timeout_weight": "0.2",
    "legacy.speed_weight": "0.5",
    "legacy.least_timeout_seconds": "60",
    "legacy.kickout_below": "10.5",
}


@given(st.sampled_from(["crynux", "relay"]), changed_rules)
def test_changed_rule_set_round_trips(name, changes):
    rules = build_rules(name, changes)
    assert Rules.from_json(rules.to_json()) == rules


@given(st.sampled_from([CRYNUX, RELAY]), changed_rules)
def test_only_named_rules_change(base, changes):
    before = json.loads(base.to_json())
    after = json.loads(build_rules(base.name, changes).to_json())
    assert {name for name in after if after[name] != before.get(name)} <= changes.keys()


def test_legacy_rules_round_trip():
    rules = build_rules("legacy", CHOSEN | {"legacy.window_seconds": "86400"})
    assert rules.legacy is not None
    assert rules.legacy.kickout_below == 105 * UNIT // 10
    assert Rules.from_json(rules.to_json()) == rules
    assert '"speed_weight":"0.5"' in rules.to_json()


def test_legacy_rules_without_unpublished_value_are_rejected():
    one_short = {name: text for name, text in CHOSEN.items() if name != "legacy.vram_weight"}
    with pytest.raises(ValueError, match=r"^legacy\.vram_weight: missing; .* never published"):
        build_rules("legacy", one_short)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"speed": "1"}, "speed: no such rule .available: close, group_size"),
        ({"name": "mine"}, "name: no such rule"),
        ({"legacy.vram_weight": "0.3"}, r"legacy\.vram_weight: no such rule"),
        ({"tau_seconds": "0.5"}, "tau_seconds: must be a whole number, not '0.5'"),
        ({"tau_seconds": ""}, "tau_seconds: must be a whole number"),
        ({"tau_seconds": "none"}, "tau_seconds: must be a whole number"),
        ({"tau_seconds": "9" * 5000}, "tau_seconds: must be a whole number"),
        ({"tau_seconds": "0"}, "tau_seconds: must be 1 or more"),
        ({"penalty": ".3"}, "penalty: must be a decimal"),
        ({"penalty": "1.5"}, "penalty: must be above 0, at most 1"),
        ({"zero_mean_is_new": "1"}, "zero_mean_is_new: must be true or false, not '1'"),
        ({"rank_scores": "10;5"}, "rank_scores: must be whole numbers, such as 10,5,2"),
        ({"rank_scores": ""}, "rank_scores: must not be empty"),
        ({"close": "never"}, "close: must be one of validated, terminal"),
        ({"kickout_below": "2,5"}, "kickout_below: must be a decimal"),
        ({"kickout_below": "10.1"}, "kickout_below: must be 0 to q_max"),
        ({"error_rank": "first"}, "error_rank: must be one of last, as_reported"),
        ({"ranked_answers": "wrong"}, "ranked_answers: must be one of all, right"),
    ],
)
def test_error_for_invalid_change_names_the_rule(changes, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}"):
        build_rules("crynux", changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"legacy.vram_weight": "2"}, r"legacy\.vram_weight: must be 0 to 1"),
        ({"legacy.vram_weight": "a"}, r"legacy\.vram_weight: must be a decimal"),
        ({"legacy.kickout_tasks": "0"}, r"legacy\.kickout_tasks: must be 1 or more"),
        ({"legacy.kickout_tasks": "few"}, r"legacy\.kickout_tasks: must be a whole number"),
    ],
)
def test_error_for_invalid_legacy_change_names_the_rule(changes, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}"):
        build_rules("legacy", CHOSEN | changes)


@pytest.mark.parametrize("name", ["crynux", "relay"])
def test_changes_equal_to_published_values_leave_rule_set_unchanged(name):
    assert build_rules(name, get_published_rules(name)) == get_rules(name)


@given(st.sampled_from(["crynux", "relay"]), changed_rules)
def test_detected_changes_reproduce_the_rule_set(name, changes):
    rules = build_rules(name, changes)
    rule_changes = compute_rule_changes(rules)
    assert rule_changes.keys() <= changes.keys()
    assert build_rules(name, rule_changes) == rules


def test_unpublished_legacy_values_count_as_changes():
    assert "legacy.window_seconds" in get_published_rules("legacy")
    assert compute_rule_changes(build_rules("legacy", CHOSEN)) == CHOSEN


def test_change_table_supports_nested_tables_numbers_booleans_and_lists():
    written = {"a": 9, "b": True, "c": [10, 5, 2], "legacy": {"d": "0.3"}, "e": "none"}
    assert parse_change_table(written) == {
        "a": "9",
        "b": "true",
        "c": "10,5,2",
        "legacy.d": "0.3",
        "e": "none",
    }
    with pytest.raises(ValueError, match=r'^penalty: write a fraction in quotes, such as "0.3"'):
        parse_change_table({"penalty": 0.3})


def test_list_of_rule_sets_contains_every_name():
    assert list_rule_set_names() == ("crynux", "relay", "crynux-docs", "legacy")
    with pytest.raises(
        ValueError,
        match=r"unknown rule set 'pocket'; expected one of: crynux, relay, crynux-docs, legacy",
    ):
        build_rules("pocket")
