"""Single numbers of the store itself, by name."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.tables.chain_tables import mark

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
