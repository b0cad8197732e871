"""Creates SQLAlchemy engines with the connection settings of each kind of database."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from oracle.errors import InputError

# Seconds that a writer waits for another writer before it raises TransientError.
BUSY_SECONDS = 5.0
# Key of the advisory lock by which writers on PostgreSQL exclude each other. Its value is
# arbitrary. On SQLite, writers lock the file.
WRITER_LOCK = 0x716F73
# Channel on which PostgreSQL notifies readers of every committed write transaction.
COMMIT_CHANNEL = "qos_oracle_commit"
# A writer that is idle in a transaction for this many seconds is terminated. The lease is equally
# long, so such a writer has lost it anyway.
STALLED_SECONDS = 30
# Size of SQLite's page cache per connection. A larger cache was not faster even with thousands of
# events per window, and takes more of the writer's memory.
_CACHE_KIB = 8_192
# Length of the write-ahead log (16 MB) at which SQLite moves pages into the database file. A page
# that changes in every window is then moved only once for several windows.
_CHECKPOINT_PAGES = 4000
# Size to which the write-ahead log is truncated after a long read has made it grow.
_MAX_WAL_BYTES = 64 * 1024 * 1024

# File modes for the database, and the suffixes of files that SQLite creates next to it.
_OWNER_FILE_MODE, _GROUP_AND_OTHERS_MODE = 0o600, 0o077
_SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")

# For most types of values, sqlite3 tries four adapter lookups. The exceptions are int, float, str
# and bytearray. These adapters change nothing, but they match at the first lookup, which halves
# the time of a wide row.
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]  # None in, None out


def parse_database_url(url: str) -> URL:
    """Parse `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.

    Raises:
        InputError: the URL is invalid; the message does not repeat the URL, which may contain a
            password.
    """
    expected_form = "expected sqlite:///FILE or postgresql://USER@HOST/NAME"
    try:
        parsed_url = make_url(url)
    except (ArgumentError, ValueError):
        raise InputError(f"the database url is not a valid URL; {expected_form}") from None
    match parsed_url.get_backend_name():
        case "sqlite" if parsed_url.database and parsed_url.database != ":memory:":
            return parsed_url.set(drivername="sqlite")
        case "postgresql" | "postgres" if parsed_url.database:
            return parsed_url.set(drivername="postgresql+psycopg")
    raise InputError(f"the database url names no supported database; {expected_form}")


def find_file_identity(url: URL, suffix: str = "") -> tuple[int, int] | None:
    """Return device and inode of the SQLite file, or None if the file does not exist.

    With the suffix `-wal`, the file is the write-ahead log.
    """
    if url.get_backend_name() != "sqlite":
        return None
    try:
        file_stat = Path(f"{url.database}{suffix}").stat()
    except FileNotFoundError:
        return None
    return file_stat.st_dev, file_stat.st_ino


def create_write_engine(url: URL) -> Engine:
    """Create an engine for write transactions, only one of which runs at a time."""
    if url.get_backend_name() == "sqlite":
        _restrict_file_mode(url)
        engine = _create_sqlite_engine(url)
        event.listen(engine, "begin", _begin_immediate_transaction)
        return engine
    engine = create_engine(
        url,
        pool_size=1,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
        # Errors must not show the values of a statement, because they may be secret.
        hide_parameters=True,
        connect_args=build_keepalive_args(url),
    )
    event.listen(engine, "begin", _acquire_writer_lock)
    return engine


def create_read_engine(url: URL) -> Engine:
    """Create a read-only engine in which each transaction sees one snapshot."""
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite_engine(url)
        event.listen(engine, "connect", _make_connection_read_only)
        event.listen(engine, "begin", _begin_deferred_transaction)
        return engine
    return create_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
        # Errors must not show the values of a statement, because they may be secret.
        hide_parameters=True,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
        connect_args=build_keepalive_args(url),
    )


def is_sqlite_file_missing(url: URL) -> bool:
    """Return whether the URL names a SQLite file that does not exist yet."""
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").exists()


def _restrict_file_mode(url: URL) -> None:
    """Restrict the database file to its owner, creating it if it is missing.

    The file contains signed transactions that were not sent yet. SQLite gives its other files
    (`-wal`, `-shm`) the same mode. This function never opens an existing file. Closing it would
    drop every lock that this process holds on the file (POSIX), so that another process could
    delete the log while connections are open (sqlite.org/howtocorrupt.html, 2.2).
    """
    path = Path(url.database or "")
    # Ignore errors, because opening the connection will report them.
    with suppress(OSError):
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_FILE_MODE))
        for file in (
            path,
            *(path.with_name(path.name + suffix) for suffix in _SIDE_FILE_SUFFIXES),
        ):
            if file.exists() and (mode := file.stat().st_mode) & _GROUP_AND_OTHERS_MODE:
                # Remove only rights of group and others. If the owner made a file read-only, it
                # stays read-only.
                file.chmod(S_IMODE(mode) & ~_GROUP_AND_OTHERS_MODE)


def _create_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url, pool_size=4, max_overflow=4, pool_timeout=BUSY_SECONDS, hide_parameters=True
    )
    event.listen(engine, "connect", _configure_sqlite_connection)
    return engine


def _configure_sqlite_connection(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver must not begin transactions, because SQLAlchemy calls an event handler that does.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={int(BUSY_SECONDS * 1000)}",
        "journal_mode=WAL",
        # A commit must survive a power cut, because signed bytes are stored before they are sent.
        "synchronous=FULL",
        "foreign_keys=ON",
        f"cache_size=-{_CACHE_KIB}",
        f"wal_autocheckpoint={_CHECKPOINT_PAGES}",
        f"journal_size_limit={_MAX_WAL_BYTES}",
        "temp_store=MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _make_connection_read_only(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()


def build_keepalive_args(url: URL) -> dict[str, int]:
    """Return connection settings that detect a lost server within about ten seconds."""
    default_args = {
        "connect_timeout": round(BUSY_SECONDS),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    # Settings in the user's URL take precedence.
    return {name: value for name, value in default_args.items() if name not in url.query}


def _begin_immediate_transaction(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_deferred_transaction(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _acquire_writer_lock(connection: Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(BUSY_SECONDS * 1000)}ms'")
    # The timeout ends a writer that stalls between two statements, or whose host is gone. A
    # standby ends a writer that stalls within a statement
    # (`LeaseRepository.terminate_stalled_writer`).
    connection.exec_driver_sql(
        f"SET LOCAL idle_in_transaction_session_timeout = '{STALLED_SECONDS}s'"
    )
    # PostgreSQL delivers the notification when the transaction commits.
    connection.exec_driver_sql(
        f"SELECT pg_advisory_xact_lock({WRITER_LOCK}), pg_notify('{COMMIT_CHANNEL}', '')"
    )
