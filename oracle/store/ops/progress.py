"""Where commands that may be interrupted stand: a small text under a name."""

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.tables.chain_tables import progress


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
