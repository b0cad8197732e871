"""Small named values, such as the floor of the undo journal or the progress of a command."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert_rows
from oracle.store.tables.chain_tables import bookmark

# Blocks up to this one can no longer be undone.
UNDO_FLOOR = "undo_floor"
# The version of qos-oracle whose daemon started last on this database.
PROGRAM_VERSION = "program_version"
# Set in a database that was restored from a backup, until a reporter has started on it.
RESTORED = "restored_from_backup"
# Number of rollbacks and rebuilds of projections; when it changes, readers reload cached rows.
_REWRITES = "projection_remakes"


class Bookmarks:
    """Access to the table `bookmark`, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return the value stored under this name, or None."""
        query = select(bookmark.c.value).where(bookmark.c.name == name)
        return self._connection.execute(query).scalar_one_or_none()

    def get_number(self, name: str) -> int | None:
        """Return the integer stored under this name, or None."""
        value = self.get(name)
        return None if value is None else int(value)

    def set(self, name: str, value: str | int) -> None:
        """Store a text or an integer under a name; the value survives a restart."""
        upsert_rows(self._connection, bookmark, [(name, str(value))])

    def get_rewrite_count(self) -> int:
        """Return the number of rollbacks and rebuilds of the projections."""
        return self.get_number(_REWRITES) or 0

    def increment_rewrite_count(self) -> None:
        """Increment the count of rollbacks and rebuilds of the projections."""
        self.set(_REWRITES, self.get_rewrite_count() + 1)

    def delete(self, name: str) -> None:
        """Delete the value stored under this name, for example when a command has finished."""
        self._connection.execute(delete(bookmark).where(bookmark.c.name == name))
