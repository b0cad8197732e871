"""Backups of real databases: written while a writer is active, restored, and rejected."""

import json
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from oracle.daemon.lease_keeper import hold_lease
from oracle.errors import FatalError, InputError
from oracle.store.backup import back_up_database, restore_database
from oracle.store.database import Store
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command
from tests.support.postgresql import find_server_programs

FIRST, SECOND = "first counter", "second counter"


@pytest.fixture(autouse=True)
def client_programs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the client programs of the server that the tests run."""
    programs = find_server_programs()
    if programs is not None:
        monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)


@pytest.fixture
def counting_store(database_url: str) -> Iterator[Store]:
    """Yield a store in which another thread advances two counters, both in each transaction."""
    with Store.open(database_url) as store:
        is_stopped = threading.Event()
        has_begun = threading.Event()

        def count() -> None:
            number = 0
            while not is_stopped.is_set():
                number += 1
                with store.transaction() as uow:
                    uow.bookmarks.set(FIRST, number)
                    uow.bookmarks.set(SECOND, number)
                has_begun.set()

        thread = threading.Thread(target=count)
        thread.start()
        assert has_begun.wait(30)
        try:
            yield store
        finally:
            is_stopped.set()
            thread.join(30)


def read_counters(url: str) -> tuple[int, int]:
    with Store.open(url) as store, store.read_transaction() as uow:
        return uow.bookmarks.get_number(FIRST) or 0, uow.bookmarks.get_number(SECOND) or 0


def test_backup_taken_during_writes_restores_committed_state(
    counting_store: Store, database_url: str, request: pytest.FixtureRequest, tmp_path: Path
):
    engine = "sqlite" if database_url.startswith("sqlite") else "postgresql"
    empty_url = request.getfixturevalue(f"empty_{engine}_url")
    earlier, _ = read_counters(database_url)
    backup = tmp_path / "backup"
    back_up_database(database_url, backup)
    later, _ = read_counters(database_url)

    restore_database(empty_url, backup, tmp_path / "unused", dry_run=True)
    with pytest.raises(InputError, match="no tables"):
        read_counters(empty_url)
    restore_database(empty_url, backup, tmp_path / "unused", dry_run=False)

    first, second = read_counters(empty_url)
    assert earlier > 0
    assert first == second
    assert earlier <= first <= later
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("*.part")) == []


def test_sqlite_restore_keeps_the_replaced_database(sqlite_url: str, tmp_path: Path):
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    set_counter(sqlite_url, 1)
    back_up_database(sqlite_url, tmp_path / "backup")
    set_counter(sqlite_url, 2)
    replaced = database.with_name("replaced")
    restore_database(sqlite_url, tmp_path / "backup", replaced, dry_run=False)
    assert read_counters(sqlite_url)[0] == 1
    assert read_counters(f"sqlite:///{replaced}")[0] == 2
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


def test_restore_does_not_apply_a_stale_write_ahead_log(sqlite_url: str, tmp_path: Path):
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    set_counter(sqlite_url, 1)
    back_up_database(sqlite_url, tmp_path / "backup")
    crashed = tmp_path / "crashed.sqlite"
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        uow.bookmarks.set(FIRST, 2)
    with closing(sqlite3.connect(database)) as open_connection:
        # Closing the last connection would empty the log.
        open_connection.execute("SELECT * FROM sqlite_master").fetchall()
        set_counter(sqlite_url, 3)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{database}{suffix}", f"{crashed}{suffix}")
    assert Path(f"{crashed}-wal").stat().st_size > 0

    restore_database(f"sqlite:///{crashed}", tmp_path / "backup", tmp_path / "kept", dry_run=False)
    assert read_counters(f"sqlite:///{crashed}")[0] == 1
    assert read_counters(f"sqlite:///{tmp_path / 'kept'}")[0] == 3
    # A copy of a database together with its log is a backup, too.
    restore_database(f"sqlite:///{crashed}", tmp_path / "kept", tmp_path / "second", dry_run=False)
    assert read_counters(f"sqlite:///{crashed}")[0] == 3


def test_corrupted_backup_is_rejected_without_changing_the_database(
    sqlite_url: str, tmp_path: Path
):
    set_counter(sqlite_url, 1)
    back_up_database(sqlite_url, tmp_path / "backup")
    corrupt_table(tmp_path / "backup", "bookmark")
    with pytest.raises(FatalError, match="backup"):
        restore_database(sqlite_url, tmp_path / "backup", tmp_path / "kept", dry_run=False)
    assert read_counters(sqlite_url)[0] == 1
    assert not (tmp_path / "kept").exists()
    assert {path.name for path in tmp_path.iterdir()} <= {
        *("oracle.sqlite", "oracle.sqlite-wal", "oracle.sqlite-shm", "backup")
    }


def test_backup_does_not_overwrite_an_existing_file(database_url: str, tmp_path: Path):
    (tmp_path / "backup").write_text("the only copy")
    with pytest.raises(InputError, match="exists"):
        back_up_database(database_url, tmp_path / "backup")
    assert (tmp_path / "backup").read_text() == "the only copy"


def test_backup_of_corrupted_database_is_rejected(sqlite_url: str, tmp_path: Path):
    corrupt_table(Path(sqlite_url.removeprefix("sqlite:///")), "bookmark")
    with pytest.raises(FatalError):
        back_up_database(sqlite_url, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


@pytest.mark.postgres
def test_restore_into_postgresql_database_with_tables_is_rejected(
    postgresql_url: str, tmp_path: Path
):
    back_up_database(postgresql_url, tmp_path / "backup")
    with pytest.raises(InputError, match="create an empty database"):
        restore_database(postgresql_url, tmp_path / "backup", tmp_path / "kept", dry_run=False)


@pytest.mark.postgres
def test_restore_from_another_database_engine_is_rejected(
    sqlite_url: str, empty_postgresql_url: str, tmp_path: Path
):
    back_up_database(sqlite_url, tmp_path / "backup")
    with pytest.raises(InputError, match="not a backup of a postgresql database"):
        restore_database(
            empty_postgresql_url, tmp_path / "backup", tmp_path / "kept", dry_run=False
        )


@pytest.mark.postgres
def test_pg_dump_gets_no_password_in_arguments_or_environment(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    original = shutil.which("pg_dump")
    programs = tmp_path / "programs"
    programs.mkdir()
    recorder = programs / "pg_dump"
    recorder.write_text(
        f'#!/bin/sh\nfor word in "$@"; do echo "$word"; done >"{tmp_path}/seen"\n'
        f'env >>"{tmp_path}/seen"\nexec "{original}" "$@"\n'
    )
    recorder.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("QOS_ORACLE_TRANSMITTER_KEY", "key-of-the-daemon")
    url = postgresql_url.replace("://tests@", "://tests:very-secret@")
    back_up_database(url, tmp_path / "backup")
    seen = (tmp_path / "seen").read_text()
    assert "service=" in seen
    assert "very-secret" not in seen
    assert "key-of-the-daemon" not in seen


def corrupt_table(database: Path, table: str) -> None:
    """Overwrite the root page of a table, so that all other tables stay readable."""
    with closing(sqlite3.connect(database)) as connection:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
    content = bytearray(database.read_bytes())
    content[(page - 1) * page_size : page * page_size] = b"\xff" * page_size
    database.write_bytes(content)


def set_counter(url: str, number: int) -> None:
    with Store.open(url) as store, store.transaction() as uow:
        uow.bookmarks.set(FIRST, number)


def test_backup_and_restore_commands_keep_indexed_history(
    capsys: pytest.CaptureFixture[str], offline_settings: dict[str, Any], tmp_path: Path
):
    config = str(write_config(offline_settings, tmp_path / "config.toml"))
    assert run(["migrate", "--config", config]) == 0
    capsys.readouterr()
    backup = str(tmp_path / "backup")
    assert run(["service", "backup", backup, "--config", config]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {backup} (")
    assert run(["service", "restore", backup, "--config", config, "--dry-run"]) == 0
    assert "would be restored" in capsys.readouterr().out
    assert run(["service", "restore", backup, "--config", config, "--yes", "--json"]) == 0
    restored = json.loads(capsys.readouterr().out)
    assert Path(restored["replaced"]).is_file()
    assert restored["bytes"] == Path(backup).stat().st_size
    assert run(["migrate", "--config", config]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_restore_is_rejected_while_a_process_holds_the_lease(
    capsys: pytest.CaptureFixture[str], offline_settings: dict[str, Any], tmp_path: Path
):
    config = write_config(offline_settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(config)]) == 0
    backup = tmp_path / "backup"
    assert run(["service", "backup", str(backup), "--config", str(config)]) == 0
    with Store.open(offline_settings["database"]["url"]) as store, hold_lease(store, "the daemon"):
        refusal = run_refused_command(
            capsys, "service", "restore", str(backup), "--yes", "--config", config, code=1
        )
    assert "another process works on this database: the daemon" in refusal


def test_corrupted_database_is_replaced_by_backup(
    capsys: pytest.CaptureFixture[str], offline_settings: dict[str, Any], tmp_path: Path
):
    config = write_config(offline_settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(config)]) == 0
    backup = tmp_path / "backup"
    assert run(["service", "backup", str(backup), "--config", str(config)]) == 0
    Path(offline_settings["database"]["url"].removeprefix("sqlite:///")).write_bytes(
        b"\xff" * 9000
    )
    assert run(["service", "restore", str(backup), "--yes", "--config", str(config)]) == 0
    assert "make sure that no process uses it" in capsys.readouterr().err
    assert run(["migrate", "--config", str(config), "--dry-run"]) == 0
