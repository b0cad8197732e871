"""The notebook of the documentation runs on a database and its Parquet files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run

NOTEBOOK = Path(__file__).resolve().parents[4] / "docs" / "examples" / "history.ipynb"


@pytest.fixture
def cells() -> list[str]:
    """Return the code cells in the order of the page."""
    written = json.loads(NOTEBOOK.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in written["cells"] if cell["cell_type"] == "code"]


def test_every_notebook_cell_runs_and_the_two_sources_agree(
    indexed_config: Path, cells: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    history = tmp_path / "history"
    assert run(["export", "--config", str(indexed_config), "--parquet", str(history)]) == 0
    capsys.readouterr()
    pytest.importorskip("polars")
    namespace: dict[str, Any] = {}
    for cell in cells:
        exec(cell, namespace)  # noqa: S102 - the cells are ours
        if "DATABASE" in namespace and cell.startswith("DATABASE"):
            namespace |= {"DATABASE": indexed_config.parent / "oracle.sqlite", "HISTORY": history}

    stdout = capsys.readouterr().out
    files, database = map(int, re.findall(r"(\d+) scores in the files, (\d+)", stdout)[0])
    assert 0 < files <= database
    assert namespace["over_time"].height > 0


def test_notebook_is_stored_without_outputs():
    written = json.loads(NOTEBOOK.read_text("utf-8"))
    assert [cell for cell in written["cells"] if cell.get("outputs")] == []
