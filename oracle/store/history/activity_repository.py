"""What happened lately, of all nodes together: counted by time, and one by one.

There is no index by time. Blocks have one, and times only grow with them: the first block of a
time is found by halving.
"""

from bisect import bisect_left

from sqlalchemy import ColumnElement, Connection, Table, func, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import KickoutDue, ReliabilityCause, ReliabilityChange
from oracle.store.history.history_repository import change_of, interval_of
from oracle.store.tables.state_tables import kickout, reliability_change, score


class ActivityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def scores_by_time(self, start: int, width: int, last: int) -> dict[int, int]:
        """Count scores since the time `start` by part of `width` seconds, numbered from 0.

        `last`: the newest block.
        """
        return self._counts(score, (start, width, last))

    def timeouts_by_time(self, start: int, width: int, last: int) -> dict[int, int]:
        """Count timeouts in the same way."""
        timed_out = reliability_change.c.cause == ReliabilityCause.TIMED_OUT.value
        return self._counts(reliability_change, (start, width, last), timed_out)

    def changes_since(self, time: int, last: int, limit: int) -> list[ReliabilityChange]:
        """Return the first changes of reliability at `time` or later, of all nodes, in order."""
        table, first = reliability_change, self.first_block_at(time, last)
        order = [table.c[name] for name in (*Position._fields, "node", "seq")]
        chosen = select(table).where(table.c.block >= first, table.c.time >= time)
        rows = self._connection.execute(chosen.order_by(*order).limit(limit))
        return [change_of(row) for row in rows]

    def kickouts_since(self, block: int) -> list[KickoutDue]:
        """Return the intervals that opened in this block or later, oldest first."""
        order = [kickout.c[name] for name in Position._fields]
        chosen = select(kickout).where(kickout.c.block >= block).order_by(*order)
        return [interval_of(row) for row in self._connection.execute(chosen)]

    def first_block_at(self, time: int, last: int) -> int:
        """Return a block below which nothing is of this time or later; at most `last` + 1."""
        return self._first_block_at(reliability_change, time, last)

    def _first_block_at(self, table: Table, time: int, last: int) -> int:
        first_above = select(table.c.time).order_by(table.c.block).limit(1)

        def is_late(block: int) -> bool:
            found = self._connection.execute(first_above.where(table.c.block >= block))
            seen = found.scalar_one_or_none()
            return seen is None or seen >= time

        return bisect_left(range(last + 1), x=True, key=is_late)

    def _counts(
        self, table: Table, span: tuple[int, int, int], *only: ColumnElement[bool]
    ) -> dict[int, int]:
        start, width, last = span
        part = (table.c.time - start) // width
        first = self._first_block_at(table, start, last)
        chosen = select(part, func.count()).where(table.c.block >= first, *only)
        rows = self._connection.execute(chosen.where(table.c.time >= start).group_by(part))
        return {int(number): int(count) for number, count in rows}
