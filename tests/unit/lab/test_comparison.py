"""The output in docs/explanation/comparison.md is what its commands print."""

import re
import shlex
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.support.cli.shown_commands import list_shown_commands, remove_rule_set_version
from tests.unit.lab.comparison_histories import HISTORIES

DOCS = Path(__file__).parents[3] / "docs"
_PAGE_PATH = DOCS / "explanation" / "comparison.md"
PAGE = _PAGE_PATH.read_text(encoding="utf-8")
EXAMPLES = list_shown_commands(_PAGE_PATH)
# This line in an example stands for omitted lines.
_LEFT_OUT = "…"
TASK = '{"min_vram": 8, "models": ["example/model"], "version": [1, 0, 0], "kind": "sd"}\n'


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    for name, build_history in HISTORIES.items():
        (folder / f"{name}.jsonl").write_text(build_history().text(), encoding="utf-8")
    (folder / "task.json").write_text(TASK, encoding="utf-8")
    return folder


def test_every_history_is_listed_on_the_comparison_page():
    assert [name for name in HISTORIES if f"{name}.jsonl" not in PAGE] == []
    assert len(EXAMPLES) >= len(HISTORIES)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_example_on_comparison_page_prints_documented_output(
    command, shown, histories, capsys, monkeypatch
):
    monkeypatch.chdir(histories)
    assert run(shlex.split(command.replace("\\\n", ""))) == 0
    printed = remove_rule_set_version(capsys.readouterr().out)
    shown = remove_rule_set_version(shown)
    pieces = [
        piece.strip("\n") for piece in re.split(rf"^{_LEFT_OUT}\n", shown, flags=re.MULTILINE)
    ]
    at = 0
    for piece in filter(None, pieces):
        assert piece in printed[at:]
        at = printed.index(piece, at) + len(piece)
