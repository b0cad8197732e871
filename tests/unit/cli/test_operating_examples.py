"""The output of both commands in docs/how-to/select-and-verify.md is what they print.

The shipped configurations pass `config check`.
"""

import json
import shlex
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.resources import find_shipped_path
from tests.support.cli.shown_commands import list_shown_commands, remove_rule_set_version

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = list_shown_commands(DOCS / "how-to/select-and-verify.md")


def test_manual_contains_select_and_queue_examples():
    assert [command.split()[0] for command, _ in EXAMPLES] == ["select", "queue"]


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_manual_example_prints_documented_output(command, shown, capsys, monkeypatch):
    monkeypatch.chdir(DOCS / "examples")
    assert run(shlex.split(command.replace("\\\n", ""))) == 0
    printed = capsys.readouterr().out
    assert remove_rule_set_version(printed) == remove_rule_set_version(shown)


@pytest.mark.parametrize("name", ["crynux", "demo", "example"])
def test_shipped_configuration_passes_check_without_warnings(name, tmp_path, capsys, monkeypatch):
    # Its database is a file in the working folder.
    monkeypatch.chdir(tmp_path)
    path = str(find_shipped_path(f"config/{name}.toml"))
    assert run(["config", "check", "--offline", "--json", "--config", path]) == 0
    check_report = json.loads(capsys.readouterr().out)
    assert (check_report["warnings"], check_report["faults"]) == ([], [])
