"""Each fault of a database is reported in one line, and nothing is partly written."""

import os
import sqlite3
import subprocess
import sys

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command


def test_database_without_tables_suggests_migrate(capsys, offline_settings, tmp_path):
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "qos-oracle migrate" in run_refused_command(capsys, "status", "--config", path)


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("0000_first", "qos-oracle migrate"),
        ("9999_last", "install the newer"),
        ("0005", "set [database] url to an empty database"),
    ],
)
def test_database_with_another_schema_version_is_rejected(
    capsys, offline_settings, tmp_path, revision, words
):
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    with sqlite3.connect(tmp_path / "oracle.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    database.close()

    for command in (["status"], ["migrate"], ["run", "--once"]):
        if command == ["status"] or revision == "0005":
            assert words in run_refused_command(capsys, *command, "--config", path)


def test_non_database_file_is_rejected(capsys, offline_settings, tmp_path):
    (tmp_path / "oracle.sqlite").write_text("not a database at all, whatever its name says" * 50)
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "not a SQLite database" in run_refused_command(capsys, "migrate", "--config", path)


def test_database_in_a_missing_folder_is_rejected(capsys, offline_settings, tmp_path):
    offline_settings["database"]["url"] = f"sqlite:///{tmp_path / 'no' / 'oracle.sqlite'}"
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "cannot be opened" in run_refused_command(capsys, "migrate", "--config", path)


def test_unreachable_database_server_is_reported(capsys, offline_settings, tmp_path):
    offline_settings["database"]["url"] = "postgresql://me@127.0.0.1:1/oracle"
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert "127.0.0.1:1/oracle" in run_refused_command(capsys, "status", "--config", path, code=1)


@pytest.mark.slow
def test_database_locked_by_another_writer_is_reported(capsys, offline_settings, tmp_path):
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    writer = sqlite3.connect(tmp_path / "oracle.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        line = run_refused_command(capsys, "migrate", "--config", path, code=1)
    finally:
        writer.close()
    assert "another process is writing to the database" in line


@pytest.mark.slow
def test_read_only_database_is_rejected_without_traceback(offline_settings, tmp_path):
    path = write_config(offline_settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    (tmp_path / "oracle.sqlite").chmod(0o400)
    tmp_path.chmod(0o500)
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(path)]
    try:
        done = subprocess.run(
            [*build_unprivileged_prefix(), *command], capture_output=True, check=False
        )
    finally:
        tmp_path.chmod(0o700)

    assert b"read-only" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2


def build_unprivileged_prefix() -> list[str]:
    """Return a command prefix that drops root's right to write anywhere."""
    return ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
