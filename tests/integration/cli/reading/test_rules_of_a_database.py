"""A database is never shown under other rules or contracts than those of its state."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.indexer.rules_binding import format_rule_set
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.registry import get_rules
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command

pytestmark = pytest.mark.evm

CRYNUX, RELAY = (format_rule_set(identify_rules(get_rules(name))) for name in ("crynux", "relay"))


def run_json(capsys, *arguments):
    """Return the JSON that a command prints; the exit code of `status` is the
    health of the daemon.
    """
    healthy = {0, 1} if "status" in arguments else {0}
    assert run([*map(str, arguments), "--json"]) in healthy
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def copied(indexed_config: Path, settings, tmp_path: Path):
    """Return settings for a copy of the indexed database, which a test may fold again."""
    source = indexed_config.parent / "oracle.sqlite"
    copy = tmp_path / "oracle.sqlite"
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    return settings


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("nodes",),
        ("explain", "0x" + "1" * 40),
        ("report", "show"),
        ("report", "push"),
        ("kickout", "list"),
    ],
)
def test_reading_command_rejects_database_with_different_rules(copied, tmp_path, capsys, command):
    copied["rules"] = {"set": "relay"}
    path = write_config(copied, tmp_path / "config.toml")

    line = run_refused_command(capsys, *command, "--config", path)

    assert f"folded with the rules {CRYNUX}, but the configuration has {RELAY}; " in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("change", "label"),
    [
        (
            {"network": {"contracts": {"TaskNetwork": "0x" + "7" * 40}}},
            "the contracts TaskNetwork = ",
        ),
        ({"oracle": {"address": "0x" + "7" * 40}}, "the oracle contract "),
        ({"chain": {"id": 1}}, "chain id 31337"),
        ({"chain": {"start_block": 1}}, "start block 0"),
    ],
)
@pytest.mark.parametrize("command", ["export", "nodes"])
def test_reading_command_rejects_database_of_another_network(
    copied, tmp_path, capsys, command, change, label
):
    """An export with another contract's address decoded no log, and printed nothing."""
    for section, values in change.items():
        copied[section] |= values
    path = write_config(copied, tmp_path / "config.toml")

    line = run_refused_command(capsys, command, "--config", path)

    assert f"this database was created for {label}" in line
    assert "\n" not in line


def test_config_check_reports_database_of_another_network(copied, tmp_path, capsys):
    copied["chain"]["start_block"] = 1
    path = write_config(copied, tmp_path / "config.toml")

    assert run(["config", "check", "--offline", "--config", str(path)]) == 2
    assert "this database was created for start block 0" in capsys.readouterr().out


def test_database_is_rejected_after_a_single_rule_change(copied, tmp_path, capsys):
    copied["rules"] = {"change": {"tau_seconds": 900}}
    path = write_config(copied, tmp_path / "config.toml")

    line = run_refused_command(capsys, "nodes", "--config", path)

    name_and_version, _, digest = CRYNUX.partition("(")
    assert f"folded with the rules {CRYNUX}, but the configuration has {name_and_version}(" in line
    assert line.count(digest) == 1


def test_rebuilt_database_reports_the_new_rules(copied, tmp_path, capsys):
    copied["rules"] = {"set": "relay", "change": {"tau_seconds": 900}}
    path = write_config(copied, tmp_path / "config.toml")

    # Another state than before, and reports with other content.
    assert run(["resync", "rebuild", "--config", str(path)]) == 1
    capsys.readouterr()

    rules = run_json(capsys, "status", "--config", path)["rules"]
    assert (rules["name"], rules["version"]) == ("relay", 2)
    page = run_json(capsys, "nodes", "--config", path)
    assert page["as_of"]["rules"] == "relay 2"
    best = page["nodes"][0]
    explanation = run_json(capsys, "explain", best["node"], "--config", path)
    assert (explanation["rules"], explanation["rules_sha256"]) == ("relay", rules["sha256"])
    assert explanation["pool"]["entries"]
    assert all(entry["rules"] == rules for entry in explanation["pool"]["entries"])


def test_config_check_reports_changes_to_rule_set(copied, tmp_path, capsys):
    copied["rules"] = {"set": "relay", "change": {"tau_seconds": 900, "penalty": "0.5"}}
    path = write_config(copied, tmp_path / "config.toml")

    fact = run_json(capsys, "config", "check", "--offline", "--config", path)["facts"]["rules"]
    assert fact.startswith("relay version 2 (")
    assert ", changed: tau_seconds = 900, penalty = 0.5; " in fact

    copied["rules"] = {"set": "relay"}
    path = write_config(copied, path)
    fact = run_json(capsys, "config", "check", "--offline", "--config", path)["facts"]["rules"]
    assert "relay version 2 (995edd6c9121), as published; " in fact
