"""`export --parquet`, and `backtest` on its files."""

import json
import sys

import pytest

from oracle.cli.main import run

pytest.importorskip("pyarrow")


@pytest.fixture
def exported(indexed_config, tmp_path, capsys):
    """Export everything that was indexed, final or not; return the folder and the output."""
    path = tmp_path / "history"
    assert run(["export", "--config", str(indexed_config), "--parquet", str(path), "--json"]) == 0
    return path, json.loads(capsys.readouterr().out)


def test_second_parquet_export_writes_nothing(indexed_config, exported, capsys):
    path, summary = exported
    assert summary["rows"]["events"] > 0
    assert summary["final_to"] == summary["to"]
    assert run(["export", "--config", str(indexed_config), "--parquet", str(path)]) == 0
    assert capsys.readouterr().out.startswith("no new final blocks: ")


def test_dry_run_reports_blocks_and_writes_nothing(indexed_config, exported, capsys, tmp_path):
    _, summary = exported
    other_folder = tmp_path / "other"
    arguments = [
        "--config",
        str(indexed_config),
        "--parquet",
        str(other_folder),
        "--dry-run",
        "--json",
    ]
    assert run(["export", *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["from"], answer["to"], answer["rows"]) == (summary["from"], summary["to"], None)
    assert not other_folder.exists()


def test_backtest_of_parquet_equals_that_of_json_lines(indexed_config, exported, capsys, tmp_path):
    path, summary = exported
    lines = tmp_path / "events.jsonl"
    assert run(["export", "--config", str(indexed_config), "--to", str(summary["to"])]) == 0
    lines.write_text(capsys.readouterr().out)

    def run_backtest(events):
        systems = ["--rules", "crynux", "--rules", "relay"]
        assert run(["backtest", "--events", str(events), *systems, "--jobs", "2", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert run_backtest(path) == run_backtest(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parquet", "out", "--from", "3"], "cannot be combined with --from, --to or --fixture"),
        (["--recent"], "--recent: requires --parquet"),
    ],
)
def test_incompatible_options_are_rejected(indexed_config, capsys, arguments, message):
    assert run(["export", "--config", str(indexed_config), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_missing_pyarrow_is_reported_with_install_command(
    indexed_config, capsys, tmp_path, monkeypatch
):
    for name in [name for name in sys.modules if name.startswith("oracle.queries.parquet")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert (
        run(["export", "--config", str(indexed_config), "--parquet", str(tmp_path / "out")]) == 2
    )
    assert f"{sys.executable} -m pip install 'pyarrow>=21'" in capsys.readouterr().err


def test_folder_without_a_parquet_export_is_reported(capsys, tmp_path):
    assert run(["backtest", "--events", str(tmp_path), "--rules", "crynux"]) == 2
    assert (
        "the folder is not an export; export.json: No such file or directory"
        in capsys.readouterr().err
    )


def test_unwritable_folder_is_reported(indexed_config, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "history"
    assert run(["export", "--config", str(indexed_config), "--parquet", str(path)]) == 2
    assert f"--parquet {path}: Not a directory" in capsys.readouterr().err
