"""Small named values, such as the floor of the undo journal or the progress of a command."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.tables.chain_tables import bookmark

# Blocks up to this one can no longer be undone.
UNDO_FLOOR = "undo_floor"
# Number of rollbacks and rebuilds of projections: a reader that caches rows must reload them.
_REMAKES = "projection_remakes"


class Bookmarks:
    """The table `bookmark`, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return the value stored under this name, or None."""
        left = select(bookmark.c.value).where(bookmark.c.name == name)
        return self._connection.execute(left).scalar_one_or_none()

    def number(self, name: str) -> int | None:
        """Return the integer stored under this name, or None."""
        left = self.get(name)
        return None if left is None else int(left)

    def set(self, name: str, value: str | int) -> None:
        """Store a text or an integer under a name; it survives a restart."""
        upsert(self._connection, bookmark, [(name, str(value))])

    def remakes(self) -> int:
        """Return how often projections were rolled back or rebuilt."""
        return self.number(_REMAKES) or 0

    def count_remake(self) -> None:
        """Count one more rollback or rebuild."""
        self.set(_REMAKES, self.remakes() + 1)

    def clear(self, name: str) -> None:
        """Delete the value of a command that has finished."""
        self._connection.execute(delete(bookmark).where(bookmark.c.name == name))
