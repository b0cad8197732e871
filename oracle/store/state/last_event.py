"""The newest event folded: time order is judged against it."""

from sqlalchemy import Connection, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import LastEvent
from oracle.store.bulk import Row, upsert
from oracle.store.tables.state_tables import last_event


class LastEventRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> LastEvent | None:
        """Return the newest event folded; None before the first."""
        row = self._connection.execute(select(last_event)).one_or_none()
        return None if row is None else LastEvent(Position(*row[1:5]), row.time)

    def set(self, last: LastEvent) -> None:
        """Write the newest event down."""
        upsert(self._connection, last_event, [last_row(last)])


def last_row(last: LastEvent) -> Row:
    """The event as the table's one row."""
    return (1, *last.at, last.time)
