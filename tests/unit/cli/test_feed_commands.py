"""`feed import-witness`: a dry run parses the file as the import does, and writes nothing."""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run

ROW = json.dumps({"id": 1, "t": 1_790_000_000, "hash": "0x" + "a" * 64})


def dry_run(file: Path) -> int:
    config = str(file.parent / "no-such-file.toml")
    return run(["feed", "import-witness", str(file), "--config", config, "--dry-run", "--json"])


@pytest.mark.parametrize("line", ["not JSON", "[]", '{"id": 1, "t": 5}', '{"id": 0, "t": 5}'])
def test_malformed_witness_file_causes_a_one_line_error(tmp_path: Path, capsys, line: str):
    file = tmp_path / "times.jsonl"
    file.write_text(f"{ROW}\n{line}\n", "utf-8")
    assert dry_run(file) == 2
    stderr = capsys.readouterr().err
    assert "line 2: " in stderr
    assert stderr.count("\n") == 1


def test_dry_run_counts_rows_of_valid_witness_file(tmp_path: Path, capsys):
    file = tmp_path / "times.jsonl"
    file.write_text(f"{ROW}\n\n", "utf-8")
    assert dry_run(file) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
