"""`rules` lists the systems, and every number of a rule set."""

import json

import pytest

from oracle.cli.main import run
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.scoring.rules import Rules
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.registry import build_rules, get_systems
from tests.support.cli.refusal import run_refused_command
from tests.support.histories import History

CHOSEN = (
    "legacy.vram_weight=0.3",
    "legacy.timeout_weight=0.2",
    "legacy.speed_weight=0.5",
    "legacy.least_timeout_seconds=60",
    "legacy.kickout_below=4",
    "legacy.kickout_tasks=10",
)


def run_json(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def run_and_read_output(capsys, *arguments):
    assert run([*arguments]) == 0
    return capsys.readouterr().out


def test_every_rule_set_is_listed_with_its_source(capsys):
    rule_sets = run_json(capsys, "rules", "list")
    assert [rule_set["name"] for rule_set in rule_sets] == list(get_systems())
    table = run_and_read_output(capsys, "rules", "list")
    assert all(rule_set["name"] in table and rule_set["source"] in table for rule_set in rule_sets)


LEGACY = tuple(f"--set={pair}" for pair in CHOSEN)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("crynux", ()),
        ("relay", ("--set=tau_seconds=900", "--set=restarts=7,9")),
        ("legacy", LEGACY),
    ],
)
def test_rules_reloaded_from_json_give_identical_scores(capsys, tmp_path, name, changes):
    file = tmp_path / "mine.json"
    file.write_text(run_and_read_output(capsys, "rules", "show", name, *changes, "--json"))
    rules = build_rules(name, dict(option.removeprefix("--set=").split("=") for option in changes))
    assert Rules.from_json(file.read_text()) == rules

    events = tmp_path / "events.jsonl"
    history = History().joins("A", "B").creates("1").starts("1", "A").after(5).times_out("1")
    events.write_text("\n".join(map(event_to_json, history.events)))
    replay = ("replay", str(events), "--rules")
    as_file = run_and_read_output(capsys, *replay, str(file))
    assert as_file == run_and_read_output(capsys, *replay, name, *changes)

    backtest = ("backtest", "--events", str(events), "--rules", str(file))
    compared = run_json(capsys, *backtest, "--rules", "crynux")
    assert [system["name"] for system in compared["systems"]] == ["mine.json", "crynux"]


def test_changed_rule_is_shown_with_its_published_value(capsys):
    output = run_and_read_output(capsys, "rules", "show", "relay", "--set", "tau_seconds=900")
    assert identify_rules(build_rules("relay", {"tau_seconds": "900"})).sha256 in output
    (line,) = [line for line in output.splitlines() if line.startswith("tau_seconds")]
    assert line.split()[:3] == ["tau_seconds", "900", "1800"]


def test_published_rule_sets_are_listed_with_sha256(capsys):
    sha256_by_name = {
        rule_set["name"]: rule_set["sha256"] for rule_set in run_json(capsys, "rules", "list")
    }
    assert sha256_by_name["relay"] == identify_rules(build_rules("relay")).sha256
    assert sha256_by_name["legacy"] is sha256_by_name["article"] is None


def test_unpublished_legacy_value_must_be_configured(capsys, tmp_path):
    output = run_json(capsys, "rules", "show", "legacy")
    assert {rule for rule, value in output["legacy"].items() if value is None} == {
        pair.partition("=")[0].removeprefix("legacy.") for pair in CHOSEN
    } | {"window_seconds"}
    assert run_and_read_output(capsys, "rules", "show", "legacy").count("not set") == len(CHOSEN)

    file = tmp_path / "unchosen.json"
    file.write_text(json.dumps(output))
    assert "legacy.vram_weight: must be" in run_refused_command(
        capsys, "replay", "/dev/null", "--rules", str(file)
    )


def test_rules_that_legacy_does_not_use_are_hidden(capsys):
    table = run_and_read_output(capsys, "rules", "show", "legacy", *LEGACY)
    assert "\nlegacy.kickout_below " in table
    assert "\npool_size" not in table
    assert "\nkickout_below" not in table


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("dice",),
            "unknown rule set 'dice'; expected one of: crynux, relay, crynux-docs, legacy",
        ),
        (("crynux", "--set", "speed=1"), "speed: no such rule"),
        (("crynux", "--set", "penalty=2"), "penalty: must be above 0, at most 1"),
        (("legacy", *LEGACY, "--set", "pool_size=9"), "legacy.window_seconds decides which"),
        (("crynux", "--set", "penalty"), "--set penalty: must be KEY=VALUE"),
        (("legacy", "--set", "legacy.vram_weight=0.3"), "legacy.timeout_weight, "),
    ],
)
def test_invalid_rule_set_is_rejected(capsys, arguments, complaint):
    line = run_refused_command(capsys, "rules", "show", *arguments)
    assert complaint in line
    assert "\n" not in line
