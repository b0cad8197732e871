"""Small facts of our own by name: how far the undo journal reaches, where a command goes on."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.tables.chain_tables import bookmark

# Blocks up to this one cannot be undone any more.
UNDO_FLOOR = "undo_floor"
# How often rows of the past were made anew: whoever holds some of them has to read all again.
_REMAKES = "projection_remakes"


class Bookmarks:
    """The table bookmark, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return what was left under this name."""
        left = select(bookmark.c.value).where(bookmark.c.name == name)
        return self._connection.execute(left).scalar_one_or_none()

    def number(self, name: str) -> int | None:
        """Return the whole number that was left under this name."""
        left = self.get(name)
        return None if left is None else int(left)

    def set(self, name: str, value: str | int) -> None:
        """Leave a text or a whole number under a name, for later and for the next start."""
        upsert(self._connection, bookmark, [(name, str(value))])

    def remakes(self) -> int:
        """Return how often projections were rolled back or cleared."""
        return self.number(_REMAKES) or 0

    def count_remake(self) -> None:
        """Count one more rewind or rebuild."""
        self.set(_REMAKES, self.remakes() + 1)

    def clear(self, name: str) -> None:
        """Forget it: the command came to its end."""
        self._connection.execute(delete(bookmark).where(bookmark.c.name == name))
