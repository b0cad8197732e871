"""What can be wrong with a database: each one clear line, and nothing half-written."""

import os
import sqlite3
import subprocess
import sys

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import write
from tests.support.cli.refusal import refused


def test_a_database_without_tables_names_migrate(capsys, sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert "qos-oracle migrate" in refused(capsys, "status", "--config", path)


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("0000_first", "qos-oracle migrate"),
        ("9999_last", "install the newer"),
        ("0005", "name an empty one in [database] url"),
    ],
)
def test_a_database_of_another_age_says_what_to_do(capsys, sound, tmp_path, revision, words):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    with sqlite3.connect(tmp_path / "oracle.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    database.close()

    for command in (["status"], ["migrate"], ["run", "--once"]):
        if command == ["status"] or revision == "0005":
            assert words in refused(capsys, *command, "--config", path)


def test_a_file_that_is_no_database(capsys, sound, tmp_path):
    (tmp_path / "oracle.sqlite").write_text("not a database at all, whatever its name says" * 50)
    path = write(sound, tmp_path / "config.toml")
    assert "no SQLite database" in refused(capsys, "migrate", "--config", path)


def test_a_folder_that_is_not_there(capsys, sound, tmp_path):
    sound["database"]["url"] = f"sqlite:///{tmp_path / 'no' / 'oracle.sqlite'}"
    path = write(sound, tmp_path / "config.toml")
    assert "cannot be opened" in refused(capsys, "migrate", "--config", path)


def test_an_unreachable_server(capsys, sound, tmp_path):
    sound["database"]["url"] = "postgresql://me@127.0.0.1:1/oracle"
    path = write(sound, tmp_path / "config.toml")
    assert "127.0.0.1:1/oracle" in refused(capsys, "status", "--config", path, code=1)


@pytest.mark.slow
def test_a_database_that_another_process_writes_to_is_not_waited_for_long(capsys, sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    other = sqlite3.connect(tmp_path / "oracle.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        line = refused(capsys, "migrate", "--config", path, code=1)
    finally:
        other.close()
    assert "another process is writing to it" in line


@pytest.mark.slow
def test_a_database_that_may_not_be_written(sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    (tmp_path / "oracle.sqlite").chmod(0o400)
    tmp_path.chmod(0o500)
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(path)]
    try:
        done = subprocess.run([*unprivileged(), *command], capture_output=True, check=False)
    finally:
        tmp_path.chmod(0o700)

    assert b"read-only" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2


def unprivileged() -> list[str]:
    """What takes root's right away to write where it may not."""
    return ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
