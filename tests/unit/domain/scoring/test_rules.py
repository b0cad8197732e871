"""Rule sets have a single text form, are parsed strictly, and contain no senseless values."""

import json
import re
from dataclasses import fields, replace
from hashlib import sha256

import pytest
from hypothesis import given

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rule_fields import get_declared_rules, is_fraction
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from oracle.systems.registry import get_rules
from tests.support.rule_strategies import rule_sets


@given(rule_sets)
def test_rules_round_trip_through_json(rules):
    text = rules.to_json()
    assert Rules.from_json(text) == rules
    assert Rules.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("rules", "digest"),
    [
        (CRYNUX, "ea527e3ad70685097904b6350a0280add142dec02f4ce5e7f3fbef2788973fb5"),
        (RELAY, "995edd6c9121d575f928bb6efb82b89dc588b768942d80aec75a7e9675edf688"),
    ],
)
def test_published_rule_set_keeps_its_hash(rules, digest):
    """Reports name their rules by this hash, and databases are bound to it.

    If a new rule breaks this test: if its default changes nothing, declare the rule with
    `omit_default=True`; otherwise give every published set a new version, and enter its new hash
    here.
    """
    assert sha256(rules.to_json().encode()).hexdigest() == digest


def test_canonical_json_is_sorted_and_has_no_spaces():
    text = CRYNUX.to_json()
    numbers = json.loads(text)
    assert list(numbers) == sorted(numbers)
    assert " " not in text
    assert (numbers["penalty"], numbers["boost"], numbers["first_penalty_from"]) == (
        "0.3",
        "0.15",
        "1",
    )


def test_rule_with_its_default_value_is_omitted_from_json():
    """A rule set that was published before this rule therefore keeps its hash."""
    assert "legacy" not in json.loads(CRYNUX.to_json())
    assert Rules.from_json(CRYNUX.to_json()).legacy is None


@pytest.mark.parametrize("text", ["2", "2.0", "2.000000000000000000"])
def test_kickout_line_is_written_in_canonical_form_in_json(text):
    rules = Rules.from_json(json.dumps({"name": "ours", "version": 1, "kickout_below": text}))
    assert rules.kickout_below == 2 * UNIT
    assert json.loads(rules.to_json())["kickout_below"] == "2"


def test_published_rule_set_is_found_by_its_name():
    assert get_rules("relay") == RELAY
    with pytest.raises(
        ValueError, match=r"unknown rule set 'pocket'; expected one of: crynux, relay"
    ):
        get_rules("pocket")


def test_omitted_fields_have_default_values():
    rules = Rules.from_json('{"name":"ours","version":2,"penalty":"0.5"}')
    assert rules == Rules(name="ours", version=2, penalty=UNIT // 2)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"speed": 1}, "speed: no such rule"),
        ({"name": ""}, "name: must not be empty"),
        ({"name": 7}, "name: must be text"),
        ({"version": 0}, "version: must be 1 or more"),
        ({"version": True}, "version: must be a whole number"),
        ({"close": "never"}, "close: must be one of validated, terminal"),
        ({"group_size": 0}, "group_size: must be 1 or more"),
        ({"rank_scores": []}, "rank_scores: must not be empty"),
        ({"rank_scores": [11]}, "rank_scores: must be 0 to q_max"),
        ({"rank_scores": ["5"]}, "rank_scores: must be a list of whole numbers"),
        ({"rank_scores": 5}, "rank_scores: must be a list of whole numbers"),
        ({"absent_score": -1}, "rank_scores: must be 0 to q_max"),
        ({"q_max": 256}, "q_max: must be 1 to 255"),
        ({"pool_size": 0}, "pool_size: must be 1 or more"),
        ({"penalty": 0.3}, "penalty: must be a decimal in quotes"),
        ({"penalty": "0.0000000000000000001"}, "penalty: must be a decimal in quotes"),
        ({"penalty": "1.1"}, "penalty: must be above 0, at most 1"),
        ({"penalty": None}, "penalty: must be a decimal in quotes"),
        ({"first_penalty": "0"}, "first_penalty: must be above 0"),
        ({"new_node_long_term": "2"}, "new_node_long_term: must be 0 to 1"),
        ({"rejoin_floor": "2"}, "rejoin_floor: must be 0 to 1"),
        ({"reseed_copies": 50}, "reseed_copies: must be below pool_size"),
        ({"restarts": [2, 1]}, "restarts: must be ascending"),
        ({"boost": "1.5"}, "boost: must be 0 to 1"),
        ({"exclude_enter": "0.2"}, "exclude_enter: must be above 0, at most exclude_exit"),
        ({"exclude_exit": "1.5"}, "exclude_exit: must be at most 1"),
        ({"tau_seconds": 0}, "tau_seconds: must be 1 or more"),
        ({"kickout_below": "10.5"}, "kickout_below: must be 0 to q_max"),
        ({"kickout_below": 2}, "kickout_below: must be a decimal in quotes"),
        ({"kickout_below": 2.5}, "kickout_below: must be a decimal in quotes"),
        ({"kick_creator_share": "1.1"}, "kick_creator_share: must be 0 to 1"),
        ({"kick_incident_share": "1.1"}, "kick_incident_share: must be 0 to 1"),
        ({"error_rank": "first"}, "error_rank: must be one of last, as_reported"),
        ({"ranked_answers": "wrong"}, "ranked_answers: must be one of all, right"),
        ({"least_timeout_seconds": -1}, "least_timeout_seconds: must be 0 or more"),
        ({"zero_mean_is_new": 1}, "zero_mean_is_new: must be true or false"),
    ],
)
def test_invalid_rule_is_named_in_error(changes, complaint):
    text = json.dumps({"name": "ours", "version": 1} | changes)
    with pytest.raises(ValueError, match=f"^{complaint}"):
        Rules.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "7", '{"name":"x"}', "{"])
def test_malformed_rule_set_is_rejected(text):
    with pytest.raises(
        ValueError, match=r"version: the field is missing|must be a JSON object|Expecting"
    ):
        Rules.from_json(text)


def test_only_fraction_fields_are_written_as_decimal_text():
    decimals = {
        name for name, (field, _) in get_declared_rules(Rules).items() if is_fraction(field)
    }
    values = json.loads(replace(RELAY, first_penalty=UNIT, rejoin_floor=UNIT).to_json())
    string_names = {name for name, value in values.items() if isinstance(value, str)}
    texts = {field.name for field in fields(Rules) if field.type is str}
    assert string_names - texts == decimals & values.keys()


def test_every_rule_meaning_names_its_source():
    for rules in (Rules, LegacyRules):
        for name, (_, info) in get_declared_rules(rules).items():
            assert re.fullmatch(r"\S.* \([^()]+\)", str(info.meaning)), name
    labels = {field.name for field in fields(Rules)} - get_declared_rules(Rules).keys()
    assert labels == {"name", "version", "legacy"}
