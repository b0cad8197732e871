"""What docs/how-to/select-and-verify.md shows of both commands is what they print."""

import re
import shlex
from pathlib import Path

import pytest

from oracle.cli.main import run

DOCS = Path(__file__).parents[3] / "docs"
_SHOWN = re.compile(
    r"^```\n\$ qos-oracle ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
EXAMPLES = _SHOWN.findall((DOCS / "how-to/select-and-verify.md").read_text(encoding="utf-8"))


def test_both_commands_are_shown():
    assert [command.split()[0] for command, _ in EXAMPLES] == ["select", "queue"]


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_of_the_manual_prints_what_it_shows(command, shown, capsys, monkeypatch):
    monkeypatch.chdir(DOCS / "examples")
    assert run(shlex.split(command.replace("\\\n", ""))) == 0
    assert capsys.readouterr().out == shown
