"""Translates database errors to errors of this project, without showing a password."""

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError as NoConnection

from oracle.errors import InputError, OracleError, TransientError

# PostgreSQL SQLSTATEs (appendix A of its manual).
_INSUFFICIENT_PRIVILEGE = "42501"
# SQLSTATE classes of transient errors: connections, resources, shutdowns, locks.
_TRANSIENT_CLASSES = ("08", "53", "57", "40", "55")
# The classes among them that mean a connection was lost, or was ended by the server.
_LOST_CLASSES = ("08", "57")
_LOCK_NOT_AVAILABLE = "55P03"
# The server is a standby, or its disk is nearly full. The error ends when the standby is promoted
# or when space is freed.
_READ_ONLY = "25006"
_ANOTHER_WRITER = "another process is writing to the database"
# While connecting, libpq provides only a message and no SQLSTATE.
_CONNECT_ERRORS = {
    "password authentication failed": "the password is wrong",
    "no password supplied": "the server requires a password",
    "no pg_hba.conf entry": "the server rejects this user from this host (pg_hba.conf)",
}
# For these errors, SQLite provides only a message and no code.
_SQLITE_USER_ERRORS = {
    "readonly": "the file or its folder is read-only",
    "unable to open": "the file cannot be opened; check its folder and its permissions",
    "disk i/o": "reading or writing the file failed; check the disk",
}
_SQLITE_CORRUPTIONS = {
    "not a database": "the file is not a SQLite database",
    "malformed": "the file is corrupted; restore a backup",
}
_SQLITE_TRANSIENT_ERRORS = {
    "locked": _ANOTHER_WRITER,
    "busy": _ANOTHER_WRITER,
    "full": "the disk is full",
}


class DatabaseCorruptedError(InputError):
    """The database file is damaged, and no retry can repair it."""


class UnknownCommitError(TransientError):
    """The outcome of a transaction is unknown, because the response to COMMIT was lost.

    A caller must assume neither success nor failure. It must drop its results in memory, and start
    again from the state in the database.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; the connection was lost during COMMIT, so the changes may or may not be "
            "stored; the next transaction reads the actual state"
        )


def format_database_name(url: URL) -> str:
    """Return the name of a database for messages, without its password."""
    if url.get_backend_name() == "sqlite":
        return f"database {url.database}"
    user_prefix = f"{url.username}@" if url.username else ""
    host = url.host or str(url.query.get("host", "localhost"))
    port = f":{url.port}" if url.port else ""
    return f"database postgresql://{user_prefix}{host}{port}/{url.database or ''}"


def translate_db_error(error: Exception, url: URL) -> OracleError | None:
    """Translate a database error, or return None if it is a programming error."""
    if isinstance(error, NoConnection):
        return TransientError(f"{format_database_name(url)}: all connections are in use")
    if not isinstance(error, DBAPIError):
        return None
    if url.get_backend_name() == "sqlite":
        return _translate_sqlite_error(error, url)
    return _translate_postgresql_error(error, url)


def _translate_sqlite_error(error: DBAPIError, url: URL) -> OracleError | None:
    message = str(error.orig).lower()
    for fragment, meaning in _SQLITE_TRANSIENT_ERRORS.items():
        if fragment in message:
            return TransientError(f"{format_database_name(url)}: {meaning}")
    for fragment, meaning in _SQLITE_CORRUPTIONS.items():
        if fragment in message:
            return DatabaseCorruptedError(f"{format_database_name(url)}: {meaning}")
    for fragment, meaning in _SQLITE_USER_ERRORS.items():
        if fragment in message:
            return InputError(f"{format_database_name(url)}: {meaning}")
    return None


def _translate_postgresql_error(error: DBAPIError, url: URL) -> OracleError | None:
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    message = _get_first_error_line(error)
    if sqlstate == _INSUFFICIENT_PRIVILEGE:
        # The server's message names the table that the user may not access.
        return InputError(
            f"{format_database_name(url)}: {message}; grant the privilege to this user"
        )
    connect_failure = _find_connect_failure_reason(sqlstate, message)
    if connect_failure:
        return InputError(f"{format_database_name(url)}: {connect_failure}")
    if sqlstate == _READ_ONLY:
        return TransientError(
            f"{format_database_name(url)}: the database is read-only; connect to the primary "
            "server, free space on its disk, or reset default_transaction_read_only"
        )
    if sqlstate == _LOCK_NOT_AVAILABLE:
        return TransientError(f"{format_database_name(url)}: {_ANOTHER_WRITER}")
    if is_connection_lost(error) or sqlstate[:2] in _TRANSIENT_CLASSES:
        return TransientError(f"{format_database_name(url)}: {message}")
    return None


def is_connection_lost(error: BaseException | None) -> bool:
    """Return whether a SQLAlchemy error means that the PostgreSQL connection was lost.

    A server that shuts down (SQLSTATE class 57) or loses its connection (class 08) may have
    committed the transaction.
    """
    if not isinstance(error, DBAPIError):
        return False
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    has_no_sqlstate = (
        isinstance(error, OperationalError) and not sqlstate and not _is_sqlite(error)
    )
    return error.connection_invalidated or has_no_sqlstate or sqlstate[:2] in _LOST_CLASSES


def _is_sqlite(error: DBAPIError) -> bool:
    return isinstance(error.orig, sqlite3.Error)


def _find_connect_failure_reason(sqlstate: str, message: str) -> str | None:
    """Return the reason of a failed connection, or None for any other error.

    An error of the connection has no SQLSTATE, so its message is searched.
    """
    if sqlstate:
        return None
    if message.endswith("does not exist"):
        return message.rpartition("FATAL:")[2].strip()
    return next(
        (meaning for fragment, meaning in _CONNECT_ERRORS.items() if fragment in message), None
    )


def _get_first_error_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
