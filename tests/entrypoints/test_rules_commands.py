"""`rules` tells which systems there are, and every number by which one scores."""

import json

import pytest

from oracle.entrypoints.cli import run
from oracle.store.rule_sets import named_by
from oracle.systems.registry import rule_set, systems
from tests.entrypoints.refusal import refused

CHOSEN = (
    "legacy.vram_weight=0.3",
    "legacy.timeout_weight=0.2",
    "legacy.speed_weight=0.5",
    "legacy.least_timeout_seconds=60",
    "legacy.kickout_below=4",
    "legacy.kickout_tasks=10",
)


def told(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def printed(capsys, *arguments):
    assert run([*arguments]) == 0
    return capsys.readouterr().out


def test_every_system_is_listed_with_its_source(capsys):
    found = told(capsys, "rules", "list")
    assert [one["name"] for one in found] == list(systems())
    table = printed(capsys, "rules", "list")
    assert all(one["name"] in table and one["source"] in table for one in found)


@pytest.mark.parametrize("name", ["seed", "relay"])
def test_what_is_shown_of_one_set_makes_another_one_like_it(capsys, name):
    shown = told(capsys, "rules", "show", name)["rules"]
    pairs = [f"--set={rule}={one['value']}" for rule, one in shown.items()]
    again = told(capsys, "rules", "show", "seed", *pairs)["rules"]
    assert {rule: one["value"] for rule, one in again.items()} == {
        rule: one["value"] for rule, one in shown.items()
    }


def test_a_change_shows_beside_what_was_published(capsys):
    shown = told(capsys, "rules", "show", "relay", "--set", "tau_seconds=900")
    assert shown["sha256"] == named_by(rule_set("relay", {"tau_seconds": "900"})).sha256
    assert shown["rules"]["tau_seconds"]["value"] == "900"
    assert shown["rules"]["tau_seconds"]["published"] == "1800"
    (line,) = [
        line
        for line in printed(
            capsys, "rules", "show", "relay", "--set", "tau_seconds=900"
        ).splitlines()
        if line.startswith("tau_seconds")
    ]
    assert line.split()[:3] == ["tau_seconds", "900", "1800"]


def test_numbers_that_nobody_published_are_to_be_chosen(capsys):
    shown = told(capsys, "rules", "show", "legacy")
    assert shown["sha256"] is None
    assert {rule for rule, one in shown["rules"].items() if one["value"] is None} == {
        pair.partition("=")[0] for pair in CHOSEN
    }
    assert printed(capsys, "rules", "show", "legacy").count("to be chosen") == len(CHOSEN) + 1

    whole = told(capsys, "rules", "show", "legacy", *(f"--set={pair}" for pair in CHOSEN))
    assert len(whole["sha256"]) == 64
    assert whole["rules"]["legacy.kickout_below"]["value"] == "4"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("dice",), "no rule set 'dice' (there is seed, relay, legacy)"),
        (("seed", "--set", "speed=1"), "speed: no such rule"),
        (("seed", "--set", "penalty=2"), "penalty: must be above 0, at most 1"),
        (("seed", "--set", "penalty"), "--set penalty: must be KEY=VALUE"),
        (("legacy", "--set", "legacy.vram_weight=0.3"), "legacy.timeout_weight, "),
    ],
)
def test_a_set_that_cannot_be_is_refused(capsys, arguments, complaint):
    line = refused(capsys, "rules", "show", *arguments)
    assert complaint in line
    assert "\n" not in line
