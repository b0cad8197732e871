"""Upgrades of the database of the first release: complete, or rolled back with every row kept."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, MetaData, Table, select, text

from oracle import __version__
from oracle.cli import service_upgrade
from oracle.cli.changelog import list_breaking_changes, split_changelog_by_version
from oracle.cli.main import run
from oracle.daemon.lease_keeper import hold_lease
from oracle.errors import FatalError
from oracle.resources import find_shipped_path
from oracle.store.backup import back_up_database
from oracle.store.bookmarks import PROGRAM_VERSION, RESTORED
from oracle.store.database import Store
from oracle.store.engine import parse_database_url
from oracle.store.lease_repository import LeaseState
from oracle.store.schema import SchemaAge, inspect_schema, migrate
from tests.fixtures.released_database import load_released_database
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command
from tests.support.postgresql import find_server_programs
from tests.unit.store import later
from tests.unit.store.test_schema import open_connection

_COMPARED = (
    *("bookmark", "kickout", "node", "rule_set", "score", "task", "undo"),
    *("pub_account", "pub_attempt", "pub_intent", "pub_nonce"),
)
_CHANGELOG = """# Changelog

## [0.3.0] - 2027-03-01

### Breaking changes

- Setting: `a` is now `b`,
  in seconds.
- Command: `c` is gone.

### Fixed

- Nothing.

## [0.2.0] - 2027-02-01

- Added: `d`.

## [0.1.0] - 2027-01-01

### Breaking changes

- Everything.
"""


@pytest.fixture(autouse=True)
def client_programs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = find_server_programs()
    if programs is not None:
        monkeypatch.setenv("PATH", str(programs), prepend=":")


@pytest.fixture
def released_url(empty_database_url: str) -> str:
    """Return the URL of the database that version 0.1.0 left, once for each engine."""
    load_released_database("0.1.0", empty_database_url)
    return empty_database_url


@pytest.fixture
def config(offline_settings: dict[str, Any], released_url: str, tmp_path: Path) -> str:
    offline_settings["database"]["url"] = released_url
    return str(write_config(offline_settings, tmp_path / "config.toml"))


@contextmanager
def run_next_release(folder: Path) -> Iterator[Path]:
    """Make the program the release after 0.1.0; yield the file of its migration."""
    with pytest.MonkeyPatch.context() as patch:
        migrations = later.write_later_migrations(folder)
        later.release(patch, migrations)
        patch.setattr("oracle.cli.service_upgrade.REVISION", later.REVISION)
        yield migrations / "versions" / f"{later.REVISION}.py"


@pytest.fixture
def next_release(released_url: str, tmp_path: Path) -> Iterator[Path]:
    """Make the program the next release for the whole test; yield the file of its migration."""
    del released_url
    with run_next_release(tmp_path) as migration:
        yield migration


def read_released_rows(url: str) -> dict[str, list[Any]]:
    """Return all rows of the tables that matter most, without the columns of a later release."""
    with open_connection(url) as connection:
        return {name: _read_rows(connection, name) for name in _COMPARED}


def _read_rows(connection: Connection, name: str) -> list[Any]:
    reflected = Table(name, MetaData(), autoload_with=connection)
    columns = [column for column in reflected.columns if column.name != "later"]
    return sorted(map(repr, connection.execute(select(*columns)).all()))


def test_database_of_first_release_can_be_opened(released_url: str):
    migrate(released_url)
    with Store.open(released_url) as store, store.read_transaction() as uow:
        assert uow.bookmarks.get(PROGRAM_VERSION) == "0.1.0"
        assert uow.projections.compute_digest()
        assert len(uow.outbox.intents.list_newest(9)) == 2


def test_upgrade_keeps_rows_and_its_backup_restores_the_old_version(
    capsys: pytest.CaptureFixture[str],
    config: str,
    released_url: str,
    offline_settings: dict[str, Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
):
    rows = read_released_rows(released_url)
    backup = str(tmp_path / "backup")
    upgrade = ["service", "upgrade", backup, "--config", config, "--json"]
    with run_next_release(tmp_path):
        assert run([*upgrade, "--dry-run"]) == 0
        assert inspect_schema(released_url).age is SchemaAge.OLDER
        assert not Path(backup).exists()
        capsys.readouterr()

        assert run([*upgrade, "--yes"]) == 0
        upgraded = json.loads(capsys.readouterr().out)
        assert (upgraded["before"], upgraded["wanted"]) == ("0001_initial", later.REVISION)
        assert inspect_schema(released_url).age is SchemaAge.CURRENT
        assert read_released_rows(released_url) == rows
        assert run([*upgrade, "--yes"]) == 0
        assert json.loads(capsys.readouterr().out)["backup"] is None

    refusal = run_refused_command(capsys, "status", "--config", config)
    assert "install the newer qos-oracle, or restore a backup" in refusal
    with ExitStack() as databases:
        if released_url.startswith("postgresql"):
            server = request.getfixturevalue("postgresql_server")
            released_url = databases.enter_context(server.database("template0"))
            offline_settings["database"]["url"] = released_url
            config = str(write_config(offline_settings, tmp_path / "restored.toml"))
        assert run(["service", "restore", backup, "--config", config, "--yes"]) == 0
        with Store(parse_database_url(released_url)) as store, store.transaction() as uow:
            assert uow.bookmarks.get(RESTORED) is not None
            uow.bookmarks.delete(RESTORED)
        assert read_released_rows(released_url) == rows


def test_migration_that_changes_stored_rows_is_rolled_back(
    capsys: pytest.CaptureFixture[str],
    config: str,
    released_url: str,
    next_release: Path,
    tmp_path: Path,
):
    rows = read_released_rows(released_url)
    backup = tmp_path / "backup"
    harm = 'op.execute("UPDATE pub_account SET next_nonce = next_nonce + 1")'
    source = next_release.read_text("utf-8")
    harmful = source.replace(
        '    op.create_table("later"', f'    {harm}\n    op.create_table("later"'
    )
    next_release.write_text(harmful, "utf-8")
    upgrade = ("service", "upgrade", str(backup), "--yes", "--config", config)
    refusal = run_refused_command(capsys, *upgrade, code=1)
    assert "the migration changed existing rows of pub_account" in refusal
    assert inspect_schema(released_url).age is SchemaAge.OLDER
    assert read_released_rows(released_url) == rows
    assert backup.is_file()

    next_release.write_text(f'{harmful}\n\nREWRITTEN = ("pub_account.next_nonce",)\n', "utf-8")
    assert migrate(released_url).age is SchemaAge.OLDER
    assert inspect_schema(released_url).age is SchemaAge.CURRENT


def test_upgrade_during_running_process_is_rejected(
    capsys: pytest.CaptureFixture[str],
    config: str,
    released_url: str,
    next_release: Path,
    tmp_path: Path,
):
    del next_release
    upgrade = ("service", "upgrade", str(tmp_path / "backup"), "--yes", "--config", config)
    store = Store(parse_database_url(released_url))
    with store, hold_lease(store, "the daemon"):
        refusal = run_refused_command(capsys, *upgrade, code=1)
        assert "another process works on this database: the daemon" in refusal
        assert not (tmp_path / "backup").exists()
        refusal = run_refused_command(capsys, "migrate", "--config", config, code=1)
        assert "another process works on this database: the daemon" in refusal
    assert inspect_schema(released_url).age is SchemaAge.OLDER


def test_upgrade_is_rejected_if_daemon_ran_after_backup(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    released_url: str,
    next_release: Path,
    tmp_path: Path,
):
    """The backup would not restore what the daemon stored, for example signed transactions."""
    del next_release
    backup = tmp_path / "backup"
    upgrade = ("service", "upgrade", str(backup), "--yes", "--config", config)

    def run_daemon_after_backup(url: str, path: Path) -> None:
        back_up_database(url, path)
        with Store(parse_database_url(url)) as store, hold_lease(store, "the daemon"):
            pass

    with monkeypatch.context() as patches:
        patches.setattr(service_upgrade, "back_up_database", run_daemon_after_backup)
        refusal = run_refused_command(capsys, *upgrade, code=1)
    assert f"{backup}: another process used the database" in refusal
    assert inspect_schema(released_url).age is SchemaAge.OLDER
    run(["service", "upgrade", str(tmp_path / "second"), "--yes", "--config", config])
    assert inspect_schema(released_url).age is SchemaAge.CURRENT


def test_migration_checks_the_lease_in_its_own_transaction(released_url: str, next_release: Path):
    """A daemon that starts during the backup is not overlooked."""
    del next_release

    def reject(lease_state: LeaseState) -> None:
        raise FatalError(str(lease_state.holder))

    with pytest.raises(FatalError):
        migrate(released_url, reject)
    assert inspect_schema(released_url).age is SchemaAge.OLDER


def test_database_of_newer_version_is_not_upgraded(
    capsys: pytest.CaptureFixture[str], config: str, released_url: str, tmp_path: Path
):
    with open_connection(released_url) as connection:
        connection.execute(
            text("UPDATE bookmark SET value = '9.9.9' WHERE name = :name"),
            {"name": PROGRAM_VERSION},
        )
    upgrade = ("service", "upgrade", str(tmp_path / "backup"), "--yes", "--config", config)
    refusal = run_refused_command(capsys, *upgrade)
    assert "last used by qos-oracle 9.9.9" in refusal
    assert "install 9.9.9" in refusal
    assert not (tmp_path / "backup").exists()


def test_breaking_changes_are_listed_only_from_newer_versions():
    releases = split_changelog_by_version(_CHANGELOG)
    assert list(releases) == ["0.3.0", "0.2.0", "0.1.0"]
    assert list_breaking_changes(releases, "0.3.0") == {}
    assert list_breaking_changes(releases, "0.1.0") == {
        "0.3.0": ["Setting: `a` is now `b`, in seconds.", "Command: `c` is gone."]
    }
    assert list_breaking_changes(releases, None).keys() == {"0.3.0", "0.1.0"}


def test_packaged_changelog_has_section_of_this_version():
    changelog = find_shipped_path("CHANGELOG.md").read_text("utf-8")
    assert __version__ in split_changelog_by_version(changelog)
