"""Engines: how each database is opened, and what makes a transaction of ours."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from oracle.errors import InputError

# How long a writer waits for another one before it gives up with TransientError.
BUSY_SECONDS = 5.0
# Any number: PostgreSQL's writers meet at this lock, as SQLite's do at the file's.
WRITER_LOCK = 0x716F73
# As long as a lease: a writer that says nothing in its transaction has lost it anyway.
STALLED_SECONDS = 30
# Pages of each connection that SQLite keeps: with windows of thousands of events more made nothing
# faster, and it is what the writer's memory grows by.
_CACHE_KIB = 8_192
# SQLite moves pages from the WAL into the file when it is this long, 16 MB: a page that changes in
# every window is moved once for several of them...
_CHECKPOINT_PAGES = 4000
# ...and cuts the file back where a long reader made it grow.
_WAL_BYTES = 64 * 1024 * 1024

# Who may read the database's files, and who may not; and what lies beside the first of them.
_OWNER_ONLY, _OTHERS = 0o600, 0o077
_BESIDE = ("-wal", "-shm", "-journal")

# sqlite3 looks for an adapter of each value that is no int, float, str or bytearray, in four
# places, before it takes it as it is; found in the first one, a wide row costs half the time.
# None of them changes anything.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]  # None in, None out


def parsed(url: str) -> URL:
    """Read `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.

    Raises:
        InputError: it is neither; the text itself is not repeated, it may hold a password.
    """
    wanted = "write it as sqlite:///FILE or postgresql://USER@HOST/NAME"
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise InputError(f"the database url cannot be read; {wanted}") from None
    match found.get_backend_name():
        case "sqlite" if found.database and found.database != ":memory:":
            return found.set(drivername="sqlite")
        case "postgresql" | "postgres" if found.database:
            return found.set(drivername="postgresql+psycopg")
    raise InputError(f"the database url names no database that we can use; {wanted}")


def file_identity(url: URL) -> tuple[int, int] | None:
    """Return device and inode of SQLite's file; None: there is none, or it is PostgreSQL."""
    if url.get_backend_name() != "sqlite":
        return None
    try:
        found = Path(url.database or "").stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def writing_engine(url: URL) -> Engine:
    """Connections whose transactions are the only writer's."""
    if url.get_backend_name() == "sqlite":
        _keep_private(url)
        engine = _sqlite(url)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    engine = create_engine(
        url,
        pool_size=1,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
        connect_args=_alive(url),
    )
    event.listen(engine, "begin", _take_writer_lock)
    return engine


def reading_engine(url: URL) -> Engine:
    """Connections that cannot write, each transaction one snapshot."""
    if url.get_backend_name() == "sqlite":
        engine = _sqlite(url)
        event.listen(engine, "connect", _refuse_writes)
        event.listen(engine, "begin", _begin)
        return engine
    return create_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_timeout=BUSY_SECONDS,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
        connect_args=_alive(url),
    )


def is_missing_file(url: URL) -> bool:
    """Whether this is SQLite and there is no file yet: opening it would make one."""
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").exists()


def _keep_private(url: URL) -> None:
    """Let nobody but its owner read the file: signed bytes lie there before they are sent.

    What SQLite puts beside it (`-wal`, `-shm`) gets the file's own mode. A file that is there is
    never opened here: closing it would drop every lock that this process holds on it (POSIX), and
    another process would delete the log from under our connections (sqlite.org/howtocorrupt.html,
    2.2).
    """
    path = Path(url.database or "")
    # What cannot be made or changed here is the connection's to complain of.
    with suppress(OSError):
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))
        for file in (path, *(path.with_name(path.name + end) for end in _BESIDE)):
            if file.exists() and file.stat().st_mode & _OTHERS:
                file.chmod(_OWNER_ONLY)


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, pool_size=4, max_overflow=4, pool_timeout=BUSY_SECONDS)
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # SQLAlchemy's events begin transactions; the driver's own ideas about them are turned off.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={int(BUSY_SECONDS * 1000)}",
        "journal_mode=WAL",
        # The outbox stores signed bytes before they are sent: a commit must survive a power cut.
        "synchronous=FULL",
        "foreign_keys=ON",
        f"cache_size=-{_CACHE_KIB}",
        f"wal_autocheckpoint={_CHECKPOINT_PAGES}",
        f"journal_size_limit={_WAL_BYTES}",
        "temp_store=MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _refuse_writes(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()


def _alive(url: URL) -> dict[str, int]:
    """Notice within ten seconds or so that a server, or the way to it, is gone."""
    wanted = {
        "connect_timeout": round(BUSY_SECONDS),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    # What the user wrote into the URL is meant.
    return {name: value for name, value in wanted.items() if name not in url.query}


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _take_writer_lock(connection: Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(BUSY_SECONDS * 1000)}ms'")
    # Whoever stalls between two statements, or whose host is gone, keeps no standby out for long;
    # whoever stalls inside one is ended by the standby (`Lease.end_stalled_writer`).
    connection.exec_driver_sql(
        f"SET LOCAL idle_in_transaction_session_timeout = '{STALLED_SECONDS}s'"
    )
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")
