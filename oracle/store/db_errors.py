"""Translates database errors into retryable and user errors. No message holds a password."""

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError as NoConnection

from oracle.errors import InputError, OracleError, TransientError

# PostgreSQL SQLSTATEs (appendix A of its manual) that the user must resolve.
_USERS_FAULTS = {
    "42501": "the user has no right to do this",
}
# SQLSTATE classes of transient errors: connection, resources, shutdown, locks.
_PASSING_CLASSES = ("08", "53", "57", "40", "55")
# Of these, the classes in which the connection is lost or was ended by the server.
_LOST_CLASSES = ("08", "57")
_LOCK_NOT_AVAILABLE = "55P03"
# A standby, or a server whose disk is nearly full; resolved by promotion or by freeing space.
_READ_ONLY = "25006"
_ANOTHER_WRITER = "another process is writing to it"
# While connecting, libpq provides no SQLSTATE, only a message.
_REFUSALS = {
    "password authentication failed": "the password is wrong",
    "no password supplied": "it wants a password",
    "no pg_hba.conf entry": "the server refuses this user from here (pg_hba.conf)",
}
# SQLite provides only a message.
_SQLITE_FAULTS = {
    "readonly": "the file or its folder is read-only",
    "unable to open": "the file cannot be opened: check its folder and its permissions",
    "not a database": "the file is no SQLite database",
    "malformed": "the file is damaged; restore a copy",
    "disk i/o": "reading or writing the file failed; check the disk",
}
_SQLITE_PASSING = {
    "locked": _ANOTHER_WRITER,
    "busy": _ANOTHER_WRITER,
    "full": "the disk is full",
}


class UnknownCommitError(TransientError):
    """A transaction whose outcome is unknown: the response to COMMIT was lost.

    The transaction counts neither as a success nor as a failure. Results held in memory are
    dropped, and the next work starts from the state in the database.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; the connection was lost during COMMIT: the changes are stored or not, the "
            "next transaction shows which"
        )


def shown(url: URL) -> str:
    """Return the name of a database without its password, wherever the URL holds it."""
    if url.get_backend_name() == "sqlite":
        return f"database {url.database}"
    user = f"{url.username}@" if url.username else ""
    host = url.host or str(url.query.get("host", "localhost"))
    port = f":{url.port}" if url.port else ""
    return f"database postgresql://{user}{host}{port}/{url.database or ''}"


def translated(error: Exception, url: URL) -> OracleError | None:
    """Translate a database error, or return None for a programming error."""
    if isinstance(error, NoConnection):
        return TransientError(f"{shown(url)}: all connections are taken")
    if not isinstance(error, DBAPIError):
        return None
    if url.get_backend_name() == "sqlite":
        return _of_sqlite(error, url)
    return _of_postgresql(error, url)


def _of_sqlite(error: DBAPIError, url: URL) -> OracleError | None:
    words = str(error.orig).lower()
    for word, meaning in _SQLITE_PASSING.items():
        if word in words:
            return TransientError(f"{shown(url)}: {meaning}")
    for word, meaning in _SQLITE_FAULTS.items():
        if word in words:
            return InputError(f"{shown(url)}: {meaning}")
    return None


def _of_postgresql(error: DBAPIError, url: URL) -> OracleError | None:
    state = getattr(error.orig, "sqlstate", None) or ""
    words = _first_line(error)
    fault = _USERS_FAULTS.get(state) or _refusal(state, words)
    if fault:
        return InputError(f"{shown(url)}: {fault}")
    if state == _READ_ONLY:
        return TransientError(f"{shown(url)}: the database is read-only")
    if state == _LOCK_NOT_AVAILABLE:
        return TransientError(f"{shown(url)}: {_ANOTHER_WRITER}")
    if is_lost(error) or state[:2] in _PASSING_CLASSES:
        return TransientError(f"{shown(url)}: {words}")
    return None


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error of SQLAlchemy means that the connection to PostgreSQL was lost.

    A server that shuts down (SQLSTATE class 57) or loses its connection (08) may have committed.
    """
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None) or ""
    is_silent = isinstance(error, OperationalError) and not state and not _is_sqlite(error)
    return error.connection_invalidated or is_silent or state[:2] in _LOST_CLASSES


def _is_sqlite(error: DBAPIError) -> bool:
    return isinstance(error.orig, sqlite3.Error)


def _refusal(state: str, words: str) -> str | None:
    """Return why connecting failed; libpq then provides a message but no SQLSTATE."""
    if state:
        return None
    if words.endswith("does not exist"):
        return words.rpartition("FATAL:")[2].strip()
    return next((meaning for said, meaning in _REFUSALS.items() if said in words), None)


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
