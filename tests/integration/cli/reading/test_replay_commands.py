"""`replay` and `export`: their output, errors and exit codes."""

import io
import json
import sys

import pytest

from oracle.cli.main import run
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.health import Severity
from tests.support.histories import History, make_node_address
from tests.unit.systems.legacy.networks import CHOSEN, rules_with

HISTORY = History().joins("A").after(10).starts("1", "A").after(20).times_out("1")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{event_to_json(event)}\n" for event in HISTORY.events))
    return path


def run_json(capsys):
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def run_rejected(capsys, *arguments):
    """Return the single line on stderr; stdout is empty, and the exit code is 2."""
    assert run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("qos-oracle: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_replay_scores_an_event_file_and_prints_json(capsys, file):
    assert run(["replay", str(file)]) == 0
    document = run_json(capsys)
    assert document["rules"] == "crynux"
    assert document["nodes"][0]["reliability"] == "0.300000000000000000"


def test_dash_argument_reads_events_from_stdin(capsys, file, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(file.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run(["replay", "-"]) == 0
    assert run_json(capsys)["nodes"][0]["node"] == make_node_address("A")


def test_replay_rules_can_be_selected_by_name(capsys, file):
    assert run(["replay", str(file), "--rules", "relay"]) == 0
    document = run_json(capsys)
    assert document["rules"] == "relay"
    assert document["nodes"][0]["reliability"] == "0.950000000000000000"


def test_replay_rules_can_be_read_from_a_file(capsys, file, tmp_path):
    rules = tmp_path / "ours.json"
    rules.write_text('{"name": "ours", "version": 1, "penalty": "0.5"}')
    assert run(["replay", str(file), "--rules", str(rules)]) == 0
    document = run_json(capsys)
    assert document["rules"] == "ours"
    assert document["nodes"][0]["reliability"] == "0.500000000000000000"


def test_at_and_close_options_change_the_replayed_state(capsys, file):
    assert run(["replay", str(file), "--at", "1015", "--close", "terminal"]) == 0
    document = run_json(capsys)
    assert document["as_of"] == {"block": 2, "time": 1015}
    assert document["nodes"][0]["status"] == "busy"


def test_invalid_event_error_names_file_line_and_field(capsys, file):
    with file.open("a") as stream:
        stream.write('{"type":"node_quit","block":9,"log":0,"time":"soon"}\n')
    line = run_rejected(capsys, "replay", file)
    assert f"{file}: line 4: time: must be a whole number" in line


def test_truncated_file_is_rejected(capsys, file):
    file.write_bytes(file.read_bytes()[:-30])
    assert "line 3: invalid JSON" in run_rejected(capsys, "replay", file)


def test_non_utf8_file_is_rejected(capsys, file):
    file.write_bytes(file.read_bytes() + b"\xff\n")
    assert "line 4: the line is not UTF-8" in run_rejected(capsys, "replay", file)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty_file_is_rejected(capsys, file, content):
    file.write_text(content)
    assert "the file contains no events" in run_rejected(capsys, "replay", file)


def test_missing_file_is_rejected(capsys, tmp_path):
    assert "No such file" in run_rejected(capsys, "replay", tmp_path / "none.jsonl")
    assert "Is a directory" in run_rejected(capsys, "replay", tmp_path)


def test_invalid_rules_are_rejected(capsys, file, tmp_path):
    assert (
        "unknown rule set 'fair'; expected one of: crynux, relay, crynux-docs, legacy"
        in run_rejected(capsys, "replay", file, "--rules", "fair")
    )
    rules = tmp_path / "ours.json"
    rules.write_text('{"name": "ours", "version": 1, "penalty": 0.5}')
    assert "penalty: must be a decimal" in run_rejected(capsys, "replay", file, "--rules", rules)
    rules.write_text("{")
    assert f"--rules: {rules}: " in run_rejected(capsys, "replay", file, "--rules", rules)


def test_rule_values_without_default_must_be_set(capsys, file, tmp_path):
    complaint = run_rejected(capsys, "replay", file, "--rules", "legacy")
    assert "--rules legacy: legacy.vram_weight, " in complaint
    assert "--set" in complaint
    assert "no file of that name" not in complaint
    numbers = [f"--set={name}={text}" for name, text in CHOSEN.items()]
    assert run(["replay", str(file), "--rules", "legacy", *numbers]) == 0
    stdout = capsys.readouterr().out
    assert json.loads(stdout)["rules"] == "legacy"
    rules_file = tmp_path / "ours.json"
    rules_file.write_text(rules_with(vram_weight=0).to_json())
    changed = ["--rules", str(rules_file), "--set", "legacy.vram_weight=0.25"]
    assert run(["replay", str(file), *changed]) == 0
    assert capsys.readouterr().out == stdout


@pytest.mark.parametrize("option", [["--at", "-1"], ["--at", "now"], ["--close", "never"]])
def test_invalid_options_are_rejected(capsys, file, option):
    run_rejected(capsys, "replay", file, *option)


@pytest.mark.evm
def test_replayed_export_gives_the_scores_shown_by_the_daemon(capsys, indexed_config, tmp_path):
    assert run(["export", "--config", str(indexed_config)]) == 0
    exported = tmp_path / "exported.jsonl"
    exported.write_text(capsys.readouterr().out)
    # No daemon is running, which needs attention.
    assert run(["status", "--config", str(indexed_config), "--json"]) == Severity.ATTENTION
    time = run_json(capsys)["folded"]["time"]
    assert run(["nodes", "--config", str(indexed_config), "--json"]) == 0
    row_by_node = {row["node"]: row for row in run_json(capsys)["nodes"]}
    assert run(["replay", str(exported), "--at", str(time)]) == 0
    nodes = run_json(capsys)["nodes"]

    assert len(nodes) == len(row_by_node) > 0
    for row in nodes:
        same = ("status", "long_term", "reliability", "qos", "excluded", "kickout_due")
        assert [row[key] for key in same] == [row_by_node[row["node"]][key] for key in same]


@pytest.mark.evm
def test_partial_exports_concatenate_to_full_export(capsys, indexed_config):
    run(["export", "--config", str(indexed_config)])
    full_export = capsys.readouterr().out.splitlines()
    run(["export", "--config", str(indexed_config), "--to", "20"])
    first = capsys.readouterr().out.splitlines()
    run(["export", "--config", str(indexed_config), "--from", "21"])
    assert first + capsys.readouterr().out.splitlines() == full_export
    assert run_rejected(capsys, "export", "--config", indexed_config, "--from", 10**6)
