"""What the database's errors mean: try again, or tell the user. No message holds a password."""

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError as NoConnection

from oracle.errors import InputError, OracleError, TransientError

# PostgreSQL's SQLSTATE (appendix A of its manual) and what the user can do about it.
_USERS_FAULTS = {
    "42501": "the user has no right to do this",
}
# Whole classes of SQLSTATE that pass by themselves: connection, resources, shutdown, locks.
_PASSING_CLASSES = ("08", "53", "57", "40", "55")
# Of these the connection itself is over: lost, or ended by the server.
_LOST_CLASSES = ("08", "57")
_LOCK_NOT_AVAILABLE = "55P03"
# A standby, or one whose disk is nearly full; it is promoted, or the disk is emptied.
_READ_ONLY = "25006"
_ANOTHER_WRITER = "another process is writing to it"
# While connecting libpq passes on no SQLSTATE, only words.
_REFUSALS = {
    "password authentication failed": "the password is wrong",
    "no password supplied": "it wants a password",
    "no pg_hba.conf entry": "the server refuses this user from here (pg_hba.conf)",
}
# SQLite has words only.
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
    """A transaction of which nobody knows whether it was committed: its answer was lost.

    It is neither a success nor a failure. Whatever memory holds of it is dropped, and what
    follows begins with the state that the database shows.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; the connection was lost during COMMIT: the changes are stored or not, the "
            "next transaction shows which"
        )


def shown(url: URL) -> str:
    """Name a database without its password, whatever part of the URL that stands in."""
    if url.get_backend_name() == "sqlite":
        return f"database {url.database}"
    user = f"{url.username}@" if url.username else ""
    host = url.host or str(url.query.get("host", "localhost"))
    port = f":{url.port}" if url.port else ""
    return f"database postgresql://{user}{host}{port}/{url.database or ''}"


def translated(error: Exception, url: URL) -> OracleError | None:
    """Return what `error` means for us; None: a bug of ours, to be raised as it is."""
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
    """Name what the server refused while connecting, where libpq passes no SQLSTATE on."""
    if state:
        return None
    if words.endswith("does not exist"):
        return words.rpartition("FATAL:")[2].strip()
    return next((meaning for said, meaning in _REFUSALS.items() if said in words), None)


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
