"""The folder of results: which files are read, logged, or rejected at startup."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from oracle.dispatch.results_folder import ResultsFolder
from oracle.domain.ids import TaskKey
from oracle.errors import InputError

TASKS = [TaskKey("0x" + digit * 64) for digit in "abc"]
RESULT = "0x" + "1d" * 32


def test_results_are_read_by_task_and_missing_files_are_skipped(tmp_path: Path):
    (tmp_path / TASKS[1]).write_text(RESULT)
    (tmp_path / TASKS[2]).write_text(f"  {RESULT.upper().replace('X', 'x')}\n")
    with capture_logs() as logs:
        assert list(ResultsFolder.open_folder(tmp_path).read_results(TASKS)) == [RESULT, RESULT]
    assert logs == []


@pytest.mark.parametrize(
    "text", ["", "0x12", RESULT[2:], RESULT + "00", "é" * 40, "0x" + "g" * 64]
)
def test_malformed_result_file_is_logged_only_once_until_it_is_repaired(tmp_path: Path, text: str):
    folder = ResultsFolder.open_folder(tmp_path)
    path = tmp_path / TASKS[0]
    path.write_text(text)
    with capture_logs() as logs:
        assert [*folder.read_results(TASKS), *folder.read_results(TASKS)] == []
        path.write_text(RESULT)
        assert list(folder.read_results(TASKS)) == [RESULT]
        path.write_text(text)
        assert list(folder.read_results(TASKS)) == []
    assert [(entry["event"], entry["file"]) for entry in logs] == [
        ("result_file_unreadable", str(path))
    ] * 2


def test_unreadable_result_file_is_logged_with_reason(tmp_path: Path):
    (tmp_path / TASKS[0]).mkdir()
    (tmp_path / TASKS[1]).write_text(RESULT)
    with capture_logs() as logs:
        assert list(ResultsFolder.open_folder(tmp_path).read_results(TASKS)) == [RESULT]
    assert [entry["reason"] for entry in logs] == ["Is a directory"]


def test_missing_results_folder_raises_input_error(tmp_path: Path):
    (tmp_path / "file").write_text(RESULT)
    for name in ("missing", "file"):
        with pytest.raises(InputError) as refused:
            ResultsFolder.open_folder(tmp_path / name)
        assert str(refused.value) == (
            f"dispatch.results_folder: {tmp_path / name}: no such folder; "
            "create it, or remove the setting"
        )
