"""Stores small named values, such as the start of the undo journal or a command's progress."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert_rows
from oracle.store.tables.chain_tables import bookmark

# Block up to which blocks can no longer be undone.
UNDO_FLOOR = "undo_floor"
# Version of qos-oracle whose daemon last started on this database.
PROGRAM_VERSION = "program_version"
# Marks a database that was restored from a backup, until a reporter has started on it.
RESTORED = "restored_from_backup"
# Number of times that projections were rolled back or rebuilt. Readers drop cached rows when it
# has changed.
_REWRITES = "projection_remakes"


class Bookmarks:
    """Access to the table `bookmark`, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return the value that is stored under this name, or None."""
        query = select(bookmark.c.value).where(bookmark.c.name == name)
        return self._connection.execute(query).scalar_one_or_none()

    def get_number(self, name: str) -> int | None:
        """Return the integer that is stored under this name, or None."""
        value = self.get(name)
        return None if value is None else int(value)

    def set(self, name: str, value: str | int) -> None:
        """Store a text or an integer under a name, replacing an earlier value."""
        upsert_rows(self._connection, bookmark, [(name, str(value))])

    def get_rewrite_count(self) -> int:
        """Return how often the projections were rolled back or rebuilt."""
        return self.get_number(_REWRITES) or 0

    def increment_rewrite_count(self) -> None:
        """Count one more rollback or rebuild of the projections."""
        self.set(_REWRITES, self.get_rewrite_count() + 1)

    def delete(self, name: str) -> None:
        """Delete the value under this name, for example when a command has finished."""
        self._connection.execute(delete(bookmark).where(bookmark.c.name == name))
