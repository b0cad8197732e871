"""A fault of a database is reported in one line, without the password."""

import os
import re
import socket
from pathlib import Path

import psycopg
import pytest

from oracle.errors import InputError, OracleError, TransientError
from oracle.store.database import Store
from oracle.store.db_errors import format_database_name
from oracle.store.engine import parse_database_url
from oracle.store.schema import inspect_schema, migrate
from tests.support.postgresql import GUARDED

SECRET = "hunter2-s3cr3t"  # noqa: S105  the one that must not be printed


def complaint(url: str, kind: type[OracleError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        Store.open(url)
    text = str(caught.value)
    assert SECRET not in text
    assert SECRET not in repr(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "oracle.sqlite",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://root@localhost/oracle",
        f"postgresql://user:{SECRET}@localhost",
        f"postgresql://user:{SECRET}@localhost:port/oracle",
        f"user:{SECRET}@localhost/oracle",
    ],
)
def test_error_for_unsupported_database_url_does_not_contain_it(url: str):
    assert "expected sqlite:///FILE or postgresql://USER@HOST/NAME" in complaint(url)


def test_error_for_unreachable_database_names_its_url():
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        port = bound_socket.getsockname()[1]
        message = complaint(f"postgresql://user:{SECRET}@127.0.0.1:{port}/oracle", TransientError)
    assert f"postgresql://user@127.0.0.1:{port}/oracle" in message


@pytest.mark.postgres
def test_wrong_or_missing_password_is_reported(postgresql_url: str):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {GUARDED}")
        connection.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
    host = parse_database_url(postgresql_url).query["host"]
    database = parse_database_url(postgresql_url).database
    url = f"postgresql://{GUARDED}:{SECRET}@/{database}?host={host}"
    assert complaint(url).endswith("the password is wrong")
    assert complaint(url.replace(f":{SECRET}", "")).endswith("the server requires a password")


@pytest.mark.postgres
def test_missing_database_is_reported(postgresql_url: str):
    message = complaint(re.sub(r"/test_\d+", "/nowhere", postgresql_url))
    assert message.endswith('database "nowhere" does not exist')


# Not even root can write to /proc.
@pytest.mark.parametrize("folder", ["{tmp_path}/none", "/proc"])
def test_database_file_that_cannot_be_created_is_reported(folder: str, tmp_path: Path):
    url = f"sqlite:///{folder.format(tmp_path=tmp_path)}/oracle.sqlite"
    with pytest.raises(InputError, match=r"oracle\.sqlite: the file cannot be opened"):
        migrate(url)


def test_folder_given_as_database_is_rejected(tmp_path: Path):
    assert "the file cannot be opened" in complaint(f"sqlite:///{tmp_path}")


def test_non_sqlite_file_is_rejected_and_unchanged(tmp_path: Path):
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear operator, " * 100)
    assert complaint(f"sqlite:///{letter}").endswith("the file is not a SQLite database")
    assert letter.read_text().startswith("Dear operator")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_database_file_is_rejected(sqlite_url: str):
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    file.chmod(0o400)
    file.parent.chmod(0o500)
    try:
        with pytest.raises(InputError, match=r"read-only|cannot be opened"):
            Store.open(sqlite_url)
    finally:
        file.parent.chmod(0o700)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@db.example/oracle",
        f"postgresql://me@db.example/oracle?password={SECRET}",
        f"postgresql://me:{SECRET}@/oracle?host=/run/postgresql",
    ],
)
def test_shown_database_url_contains_no_password(url: str):
    assert SECRET not in format_database_name(parse_database_url(url))
    assert format_database_name(parse_database_url(url)).startswith("database postgresql://me@")


def test_schema_check_keeps_no_connection_open(database_url: str):
    inspect_schema(database_url)
    if database_url.startswith("postgresql"):
        with psycopg.connect(database_url) as connection:
            connection_count = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            ).fetchone()
        assert connection_count == (1,)
    else:
        assert not Path(database_url.removeprefix("sqlite:///") + "-wal").exists()
