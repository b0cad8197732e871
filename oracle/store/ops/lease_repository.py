"""The single-writer lease of the database, timed by the database's clock.

`epoch` rises with every new holder; a writer that was overtaken no longer finds its epoch and
stops. See docs/explanation/daemon.md#lease.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from oracle.errors import FatalError
from oracle.store.engine import WRITER_LOCK
from oracle.store.ops.database_clock import now_ms
from oracle.store.tables.outbox_tables import lease

_ROW = 1
_TAKEN_OVER = "another process has taken over the lease of this database"
_SECOND = 1000
# The server waits for the client inside a statement: during a COPY, a batch, or a response that is
# not read. PostgreSQL does not count that as idle, so none of its timeouts applies.
_END_STALLED = text(
    "SELECT pg_terminate_backend(activity.pid) FROM pg_locks AS held"
    " JOIN pg_stat_activity AS activity ON activity.pid = held.pid"
    " JOIN pg_database AS here ON here.oid = held.database"
    " WHERE held.locktype = 'advisory' AND held.granted AND here.datname = current_database()"
    " AND held.classid = 0 AND held.objid = CAST(:lock AS oid) AND held.objsubid = 1"
    " AND activity.wait_event_type = 'Client'"
    " AND activity.state_change < clock_timestamp() - make_interval(secs => :seconds)"
)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """State of the lease; `holder` is None if it is free. `seconds_left` may be negative.

    `until_ms` is its end by the database's clock; every renewal changes it.
    """

    holder: str | None
    epoch: int
    seconds_left: float
    until_ms: int = 0


class Lease:
    """The lease row, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def current(self) -> LeaseState:
        """Return the state of the lease; an epoch of 0 means that it was never held."""
        left = lease.c.until_ms - self._now()
        columns = select(lease.c.holder, lease.c.epoch, left, lease.c.until_ms)
        row = self._connection.execute(columns).one_or_none()
        return (
            LeaseState(None, 0, 0.0)
            if row is None
            else LeaseState(row[0], row[1], row[2] / _SECOND, row[3])
        )

    def take(self, holder: str, seconds: float, *, gone: int | None = None) -> int | None:
        """Acquire the lease if it is free or expired; return its epoch, or None if it is held.

        `dead_epoch` is the epoch of a holder known to be dead: the lease of that epoch, but of no
        later one, is taken at once.
        """
        self._lay_row()
        is_over = lease.c.holder.is_(None) | (lease.c.until_ms < self._now())
        taken = (
            update(lease)
            .where(is_over if gone is None else is_over | (lease.c.epoch == gone))
            .values(
                holder=holder,
                epoch=lease.c.epoch + 1,
                until_ms=self._now() + round(seconds * _SECOND),
            )
            .returning(lease.c.epoch)
        )
        return self._connection.execute(taken).scalar_one_or_none()

    def renew(self, epoch: int, seconds: float) -> bool:
        """Hold the lease for `seconds` from now; return False if another process has taken over."""
        until = self._now() + round(seconds * _SECOND)
        mine = (lease.c.epoch == epoch) & lease.c.holder.is_not(None)
        changed = self._connection.execute(update(lease).where(mine).values(until_ms=until))
        return changed.rowcount == 1

    def release(self, epoch: int) -> None:
        """Release the lease; nothing happens if another process has taken over."""
        mine = lease.c.epoch == epoch
        self._connection.execute(
            update(lease).where(mine).values(holder=None, until_ms=self._now())
        )

    def guard(self, epoch: int) -> None:
        """Lock out every other writer until this transaction ends.

        Raises:
            FatalError: another process has taken over; this transaction must be rolled back.
        """
        mine = select(lease.c.id).where((lease.c.epoch == epoch) & lease.c.holder.is_not(None))
        if self._connection.execute(mine.with_for_update()).one_or_none() is None:
            raise FatalError(_TAKEN_OVER)

    def prove(self, epoch: int) -> None:
        """Prove by a write that the lease is held and that the database is writable.

        The end of the lease moves by one millisecond, because SQLite skips writes that change
        nothing.

        Raises:
            FatalError: see `guard`.
        """
        mine = (lease.c.epoch == epoch) & lease.c.holder.is_not(None)
        same = update(lease).where(mine).values(until_ms=lease.c.until_ms + 1)
        if self._connection.execute(same).rowcount != 1:
            raise FatalError(_TAKEN_OVER)

    def end_stalled_writer(self, seconds: float) -> bool:
        """End the connection of a writer that kept the server waiting for `seconds`.

        PostgreSQL only: its transaction is rolled back. Return whether a connection was ended.
        """
        if self._connection.dialect.name == "sqlite":
            return False
        told = {"lock": WRITER_LOCK, "seconds": seconds}
        return any(self._connection.execute(_END_STALLED, told).scalars())

    def _lay_row(self) -> None:
        """Insert the one row, as free, if it is missing; concurrent first starts do not clash."""
        dialect = sqlite if self._connection.dialect.name == "sqlite" else postgresql
        row = dialect.insert(lease).values(id=_ROW, holder=None, epoch=0, until_ms=0)
        self._connection.execute(row.on_conflict_do_nothing())

    def _now(self) -> ColumnElement[int]:
        return now_ms(self._connection)
