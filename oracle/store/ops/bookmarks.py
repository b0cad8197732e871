"""Single numbers of the store itself, by name."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.tables.chain_tables import mark, progress

# Blocks up to this one cannot be undone any more.
UNDO_FLOOR = "undo_floor"


class Bookmarks:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> int | None:
        marked = select(mark.c.number).where(mark.c.name == name)
        return self._connection.execute(marked).scalar_one_or_none()

    def set(self, name: str, number: int) -> None:
        upsert(self._connection, mark, [(name, number)])

    def clear(self, name: str) -> None:
        self._connection.execute(delete(mark).where(mark.c.name == name))


class ProgressRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return what was left under this name."""
        left = select(progress.c.value).where(progress.c.name == name)
        return self._connection.execute(left).scalar_one_or_none()

    def set(self, name: str, value: str) -> None:
        """Leave a text under a name, for the next start."""
        upsert(self._connection, progress, [(name, value)])

    def clear(self, name: str) -> None:
        """Forget it: the command came to its end."""
        self._connection.execute(delete(progress).where(progress.c.name == name))
