"""A cache of the lanes computed last; thrown away whenever the state goes back."""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, select

from oracle.store.bulk import upsert
from oracle.store.marks import LANES_AS_OF, Marks
from oracle.store.round_tables import lane


class LaneRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._marks = Marks(connection)

    def load(self) -> dict[int, int]:
        """Return lane by index."""
        rows = self._connection.execute(select(lane.c.lane_index, lane.c.lane))
        return {row.lane_index: row.lane for row in rows}

    def as_of(self) -> int | None:
        """Return the block that the lanes were computed at; None: there are none."""
        return self._marks.get(LANES_AS_OF)

    def save(self, lanes: Mapping[int, int], as_of: int) -> None:
        """Write lanes computed at block `as_of`; the others stay as they were."""
        upsert(self._connection, lane, list(lanes.items()))
        self._marks.set(LANES_AS_OF, as_of)

    def clear(self) -> None:
        """Throw the cache away."""
        self._connection.execute(delete(lane))
        self._marks.clear(LANES_AS_OF)
