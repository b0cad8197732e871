"""The numbers of the rule sets, from the source documents and from the relay."""

import json
from dataclasses import replace
from fractions import Fraction
from math import floor

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS, RELAY
from tests.support.vectors import Vector, load_vector, vectors_of

VALID = load_vector("config_validation/valid")


def units(number: str | float) -> int:
    return floor(Fraction(str(number)) * UNIT)


_SETTINGS = {
    "penalty_factor": "penalty",
    "first_timeout_penalty_factor": "first_penalty",
    "first_timeout_health_threshold": "first_penalty_from",
    "success_boost": "boost",
    "enter": "exclude_enter",
    "exit": "exclude_exit",
}


def rules_of(profile: Vector) -> Rules:
    changes: Vector = {
        _SETTINGS[key]: units(value) for key, value in profile.items() if key in _SETTINGS
    }
    if "recovery_tau_minutes" in profile:
        changes["tau_seconds"] = 60 * profile["recovery_tau_minutes"]
    return replace(RELAY, **changes)


@vectors_of("config_validation/invalid")
def test_invalid_rule_values_are_rejected(vector):
    (key,) = vector
    field = "tau_seconds" if key == "recovery_tau_minutes" else _SETTINGS[key]
    with pytest.raises(ValueError, match=f"^{field}: must be|^exclude_enter: must be"):
        rules_of(vector)


def test_valid_relay_settings_equal_relay_rules():
    assert rules_of(VALID) == RELAY


SEED_PROFILE = load_vector("profiles/seed_current")
RELAY_PROFILE = load_vector("profiles/relay_head")


@pytest.mark.parametrize(
    ("document", "rules"),
    [(SEED_PROFILE, CRYNUX), (SEED_PROFILE, CRYNUX_DOCS), (RELAY_PROFILE, RELAY)],
)
def test_rule_sets_match_their_vector_profiles(document, rules):
    numbers = json.loads(rules.to_json())

    assert list(rules.rank_scores) == document["task_scores"]
    assert (rules.absent_score, rules.q_max) == (document["abort_score"], document["q_max"])
    assert rules.pool_size == document["pool_size"] == document["kickout_min_samples"]
    assert rules.new_node_long_term == units(document["new_node_q_long_norm"].split()[0])
    assert rules.zero_mean_is_new is ("q_long == 0" in document["new_node_q_long_norm"])
    assert numbers["penalty"] == document["penalty_factor"]
    assert numbers["boost"] == document["success_boost"]
    assert numbers["first_penalty"] == document.get("first_timeout_penalty_factor")
    assert numbers["exclude_enter"] == document.get(
        "exclude_enter_below", document.get("exclude_below")
    )
    leave = document.get("exclude_exit_at_or_above", numbers["exclude_enter"])
    assert numbers["exclude_exit"] == leave
    assert rules.tau_seconds == 60 * document["tau_minutes"]
    assert rules.kickout_below == units(document["kickout_threshold"])
    assert numbers["rejoin_floor"] == document["rejoin"].get("q_long_norm_floor")
