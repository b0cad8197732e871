"""Waits for the next commit to a database, by this process or by another one.

By this, a reader notices a change immediately. See docs/explanation/storage.md#commits.
"""

import sqlite3
from contextlib import closing
from math import ceil
from threading import Condition, Event, Lock
from typing import Any, Protocol

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from oracle.store.engine import COMMIT_CHANNEL, build_keepalive_args

# Interval at which SQLite is checked for commits of other processes. A check takes 6 microseconds.
_POLL_SECONDS = 0.01
# Number of calls of `wait` after which notifications are tried again if a server refused them.
_REFUSED_WAITS = 100


class CommitWatch(Protocol):
    """Detects commits since the last call of `wait`, and is thread-safe."""

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a commit, and return whether there was a commit.

        A commit may be missed, so callers must also read the database at longer intervals.
        """
        ...

    def close(self) -> None:
        """End a running `wait` and release the connection."""
        ...


class FileCommitWatch:
    """Detects commits of other SQLite connections by a change of `data_version`.

    `commit_condition` is notified of the commits of this process, so that they are detected
    immediately.
    """

    def __init__(self, database: str, commit_condition: Condition) -> None:
        self._connection = sqlite3.connect(database, timeout=0.0, check_same_thread=False)
        self._commit_condition = commit_condition
        self._is_closed = False
        self._version = -1
        self._version = self._read_data_version()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a commit, and return whether there was a commit."""
        with self._commit_condition:
            for _ in range(ceil(seconds / _POLL_SECONDS)):
                if self._is_closed:
                    return False
                version = self._read_data_version()
                if version != self._version:
                    self._version = version
                    return True
                self._commit_condition.wait(_POLL_SECONDS)
        return False

    def close(self) -> None:
        """End a running `wait`, and close the connection."""
        with self._commit_condition:
            self._is_closed = True
            self._connection.close()

    def _read_data_version(self) -> int:
        """Return the current data version, or the last known version while the file is locked."""
        try:
            with closing(self._connection.execute("PRAGMA data_version")) as rows:
                return int(rows.fetchone()[0])
        except sqlite3.OperationalError:
            return self._version


class ServerCommitWatch:
    """Listens for the notifications that PostgreSQL sends after each write transaction.

    The watch uses a separate connection. If the server refuses to listen, as a replica does, every
    call of `wait` waits for the full time and returns False.
    """

    def __init__(self, url: URL) -> None:
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args=build_keepalive_args(url),
        )
        self._connection: Connection | None = None
        self._lock = Lock()
        self._is_closed = Event()
        self._refused_waits = 0

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a commit, and return whether there was a commit.

        The first call returns True at once, because earlier commits were not notified.
        """
        with self._lock:
            if self._is_closed.is_set() or self._refused_waits > 0:
                self._refused_waits -= 1
                self._is_closed.wait(seconds)
                return False
            try:
                if self._connection is None:
                    self._open_listening_connection()
                    return True
                driver: Any = self._connection.connection.driver_connection
                return bool(list(driver.notifies(timeout=seconds, stop_after=1)))
            except (DBAPIError, self._engine.dialect.loaded_dbapi.Error):
                self._close_listening_connection()
                self._refused_waits = _REFUSED_WAITS
                return False

    def close(self) -> None:
        """Close the connection after the running `wait` has ended."""
        self._is_closed.set()
        with self._lock:
            self._close_listening_connection()

    def _open_listening_connection(self) -> None:
        self._connection = self._engine.connect()
        self._connection.exec_driver_sql(f"LISTEN {COMMIT_CHANNEL}")

    def _close_listening_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # `close` alone would roll back, which fails if the connection was lost.
            connection.invalidate()
            connection.close()
