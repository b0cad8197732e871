"""Backs up the database to one file, even while a daemon uses it, and restores it.

The backup of a SQLite database is a database file. The backup of a PostgreSQL database is an
archive of `pg_dump` in the custom format.
"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from oracle.durable_files import replace_file
from oracle.errors import FatalError, InputError
from oracle.store.bookmarks import RESTORED
from oracle.store.database import Store
from oracle.store.db_errors import format_database_name
from oracle.store.engine import parse_database_url
from oracle.store.schema import SchemaAge, inspect_schema

# Ages of schemas that this version can use. An older schema requires `migrate` first.
_USABLE_AGES = (SchemaAge.CURRENT, SchemaAge.OLDER)
_SERVICE = "qos-oracle"
# Environment variables that PostgreSQL's programs need, in addition to the variables named PG….
_ENVIRONMENT_NAMES = ("PATH", "HOME", "LANG", "LC_ALL")
# First bytes of every SQLite file (sqlite.org/fileformat.html, 1.3).
_SQLITE_MAGIC = b"SQLite format 3\0"


def back_up_database(url: str, backup: Path) -> None:
    """Write a snapshot of the database to a new file that only its owner can read.

    Raises:
        InputError: the file exists or cannot be written, the database is empty or of another
            program, or `pg_dump` is not installed.
        TransientError: the database cannot be read at the moment.
        FatalError: the database is corrupted, or `pg_dump` failed.
    """
    parsed_url = parse_database_url(url)
    if inspect_schema(url).age not in _USABLE_AGES:
        raise InputError(f"{format_database_name(parsed_url)} has no tables of this program")
    if backup.exists():
        raise InputError(f"{backup}: the file exists; a backup never overwrites a file")
    try:
        with replace_file(backup) as temporary_path:
            _create_private_file(temporary_path)
            if parsed_url.get_backend_name() == "sqlite":
                with closing(Store(parsed_url)) as store:
                    store.copy_sqlite_database(temporary_path)
                _check_sqlite_file(temporary_path, format_database_name(parsed_url))
            else:
                _run_postgresql_client(
                    "pg_dump", ["--format=custom", f"--file={temporary_path}"], parsed_url
                )
    except OSError as error:
        raise InputError(f"{backup}: cannot be written: {error.strerror}") from error


def restore_database(url: str, backup: Path, replaced_path: Path, *, dry_run: bool) -> None:
    """Restore a SQLite database from a backup, or fill an empty PostgreSQL database.

    An existing SQLite database is renamed to `replaced_path`. No other process may use the
    database. The restored database is marked, so that its signer signs nothing before all
    statements that were signed after the backup have expired. A dry run checks everything and
    changes nothing.

    Raises:
        InputError: the file is no backup for this database, or is of a newer version; the
            PostgreSQL database is not empty; or `pg_restore` is not installed.
        FatalError: the backup is corrupted, or `pg_restore` failed; the database is unchanged.
    """
    parsed_url = parse_database_url(url)
    try:
        with backup.open("rb") as file:
            is_sqlite_file = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
        if is_sqlite_file != (parsed_url.get_backend_name() == "sqlite"):
            raise InputError(
                f"{backup}: not a backup of a {parsed_url.get_backend_name()} database"
            )
        if is_sqlite_file:
            database = Path(parsed_url.database or "")
            with _open_checked_copy(backup, database.parent) as copy_path:
                if not dry_run:
                    _mark_as_restored(parsed_url.set(database=str(copy_path)))
                    _move_database_aside(database, replaced_path)
                    with replace_file(database) as temporary_path:
                        copy_path.rename(temporary_path)
            return
    except OSError as error:
        raise InputError(f"{error.filename or backup}: {error.strerror}") from error
    if inspect_schema(url).age is not SchemaAge.EMPTY:
        raise InputError(
            f"{format_database_name(parsed_url)} has tables; create an empty database and set "
            "[database] url to it"
        )
    restore_options = ["--list"] if dry_run else ["--single-transaction", "--exit-on-error"]
    _run_postgresql_client("pg_restore", [*restore_options, str(backup)], parsed_url)
    if not dry_run:
        _mark_as_restored(parsed_url)


def _mark_as_restored(url: URL) -> None:
    with closing(Store(url)) as store, store.transaction() as uow:
        uow.bookmarks.set(RESTORED, 1)


@contextmanager
def _open_checked_copy(backup: Path, folder: Path) -> Iterator[Path]:
    """Yield the path of a temporary, checked copy of the backup in `folder`.

    Raises:
        InputError: the backup is not of a version that this version can use.
        FatalError: the backup is corrupted.
    """
    with tempfile.TemporaryDirectory(prefix="qos-oracle-restore-", dir=folder) as copy_folder:
        copy_path = Path(copy_folder) / "copy.sqlite"
        _create_private_file(copy_path)
        _copy_sqlite_file(backup, copy_path)
        _check_sqlite_file(copy_path, str(backup))
        schema = inspect_schema(f"sqlite:///{copy_path}")
        if schema.age not in _USABLE_AGES:
            raise InputError(
                f"{backup}: this version cannot use schema revision {schema.found_revision}; "
                "install the version that wrote the backup"
            )
        yield copy_path


def _copy_sqlite_file(source: Path, copy_path: Path) -> None:
    # A write-ahead log next to the file contains the newest transactions, so it must be read.
    has_wal_file = source.with_name(f"{source.name}-wal").exists()
    uri_options = "mode=ro" if has_wal_file else "mode=ro&immutable=1"
    try:
        with (
            closing(
                sqlite3.connect(f"file:{quote(str(source))}?{uri_options}", uri=True)
            ) as connection,
            closing(sqlite3.connect(copy_path)) as copy_connection,
        ):
            connection.backup(copy_connection)
    except sqlite3.Error as error:
        raise FatalError(f"{source}: cannot be read as a SQLite database: {error}") from error


def _check_sqlite_file(path: Path, name: str) -> None:
    """Check the structure of a copied database, and switch off its write-ahead log.

    `name` is the name of the copied file in errors.

    Raises:
        FatalError: the database is corrupted.
    """
    try:
        with closing(sqlite3.connect(path)) as connection:
            (integrity_result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            # The copy must be a single file without a log. The daemon enables the log again.
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise FatalError(f"{name} is corrupted: {error}") from error
    if integrity_result != "ok":
        raise FatalError(f"{name} is corrupted: {integrity_result}")


def _move_database_aside(database: Path, replaced_path: Path) -> None:
    """Rename the files of a SQLite database, including its write-ahead log."""
    for suffix in ("", "-wal", "-shm"):
        sidecar_file = database.with_name(database.name + suffix)
        if sidecar_file.exists():
            sidecar_file.rename(replaced_path.with_name(replaced_path.name + suffix))


def _create_private_file(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _run_postgresql_client(program: str, arguments: list[str], url: URL) -> None:
    """Run `pg_dump` or `pg_restore` without exposing the password to other processes.

    Raises:
        InputError: the program is not installed.
        FatalError: the program failed; the message is its own.
    """
    client_path = shutil.which(program)
    if client_path is None:
        raise InputError(
            f"{program} is not installed; install the PostgreSQL client programs of the server's "
            "version or a newer one"
        )
    _, parameters = url.get_dialect()().create_connect_args(url)
    with tempfile.TemporaryDirectory(prefix="qos-oracle-service-") as folder:
        service_file = Path(folder) / "service.conf"
        _create_private_file(service_file)
        service_lines = [f"{name}={value}\n" for name, value in parameters.items()]
        service_file.write_text(f"[{_SERVICE}]\n{''.join(service_lines)}", encoding="utf-8")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in _ENVIRONMENT_NAMES or name.startswith("PG")
        }
        completed_process = subprocess.run(  # noqa: S603  the program is found on the PATH
            [
                client_path,
                "--no-owner",
                "--no-privileges",
                f"--dbname=service={_SERVICE}",
                *arguments,
            ],
            env={**environment, "PGSERVICEFILE": str(service_file)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if completed_process.returncode != 0:
        last_line = (completed_process.stderr.strip().splitlines() or ["no message"])[-1]
        raise FatalError(f"{format_database_name(url)}: {program} failed: {last_line}")
