"""Stores the lease that allows only one writer, timed by the database's clock.

`epoch` increases with every new holder. A former holder stops when it finds another epoch in the
row. See docs/explanation/daemon.md#lease.
"""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, cast, func, select, text, update
from sqlalchemy.sql.elements import ColumnElement

from oracle.errors import FatalError
from oracle.store.bulk import insert_missing_rows
from oracle.store.engine import WRITER_LOCK
from oracle.store.tables.outbox_tables import lease

# For SQLite's clock, the Julian day of 1970-01-01 and the number of milliseconds in a day.
_UNIX_EPOCH_JULIAN_DAY, _MS_PER_DAY = 2440587.5, 86_400_000
_ROW_ID = 1
_TAKEN_OVER = "another process has taken over the lease of this database"
MS_PER_SECOND = 1000
# The query ends a writer that keeps the server waiting within a statement. The writer may stall in
# a COPY or a batch, or not read a response. None of PostgreSQL's timeouts applies, because such a
# writer is not idle.
_TERMINATE_STALLED_WRITERS = text(
    "SELECT pg_terminate_backend(activity.pid) FROM pg_locks AS held"
    " JOIN pg_stat_activity AS activity ON activity.pid = held.pid"
    " JOIN pg_database AS here ON here.oid = held.database"
    " WHERE held.locktype = 'advisory' AND held.granted AND here.datname = current_database()"
    " AND held.classid = 0 AND held.objid = CAST(:lock AS oid) AND held.objsubid = 1"
    " AND activity.wait_event_type = 'Client'"
    " AND activity.state_change < clock_timestamp() - make_interval(secs => :seconds)"
)


def build_now_ms_expression(connection: Connection) -> ColumnElement[int]:
    """Return an SQL expression for the current unix time in milliseconds.

    The time is taken when the statement runs, not when the transaction starts.
    """
    if connection.dialect.name == "sqlite":
        return cast((func.julianday("now") - _UNIX_EPOCH_JULIAN_DAY) * _MS_PER_DAY, BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * MS_PER_SECOND, BigInteger)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of the lease, whose `holder` is None if it is free.

    `seconds_left` may be negative. `until_ms` is the end of the lease by the database's clock;
    every renewal changes it.
    """

    holder: str | None
    epoch: int
    seconds_left: float
    until_ms: int = 0


class LeaseRepository:
    """Access to the single row of the lease, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_state(self) -> LeaseState:
        """Return the state of the lease, with epoch 0 if it was never held."""
        ms_left = lease.c.until_ms - self._build_now_ms_expression()
        query = select(lease.c.holder, lease.c.epoch, ms_left, lease.c.until_ms)
        row = self._connection.execute(query).one_or_none()
        if row is None:
            return LeaseState(None, 0, 0.0)
        return LeaseState(row[0], row[1], row[2] / MS_PER_SECOND, row[3])

    def acquire(self, holder: str, seconds: float, *, dead_epoch: int | None = None) -> int | None:
        """Acquire a free or expired lease and return its epoch, or None if it is held.

        `dead_epoch` is the epoch of a holder whose process has ended. A lease with exactly this
        epoch is acquired even if it has not expired.
        """
        self._insert_missing_row()
        is_free = lease.c.holder.is_(None) | (lease.c.until_ms < self._build_now_ms_expression())
        acquire_statement = (
            update(lease)
            .where(is_free if dead_epoch is None else is_free | (lease.c.epoch == dead_epoch))
            .values(
                holder=holder,
                epoch=lease.c.epoch + 1,
                until_ms=self._build_now_ms_expression() + round(seconds * MS_PER_SECOND),
            )
            .returning(lease.c.epoch)
        )
        return self._connection.execute(acquire_statement).scalar_one_or_none()

    def renew(self, epoch: int, seconds: float) -> bool:
        """Extend the lease to `seconds` from now, or return False if it was taken over."""
        until_ms = self._build_now_ms_expression() + round(seconds * MS_PER_SECOND)
        is_own_lease = (lease.c.epoch == epoch) & lease.c.holder.is_not(None)
        result = self._connection.execute(
            update(lease).where(is_own_lease).values(until_ms=until_ms)
        )
        return result.rowcount == 1

    def release(self, epoch: int) -> None:
        """Release the lease, unless another process has taken it over."""
        is_own_lease = lease.c.epoch == epoch
        self._connection.execute(
            update(lease)
            .where(is_own_lease)
            .values(holder=None, until_ms=self._build_now_ms_expression())
        )

    def lock_held_lease(self, epoch: int) -> None:
        """Check that the lease is held, and block other writers until the transaction ends.

        Raises:
            FatalError: another process has taken over; this transaction must be rolled back.
        """
        own_lease = select(lease.c.id).where(
            (lease.c.epoch == epoch) & lease.c.holder.is_not(None)
        )
        if self._connection.execute(own_lease.with_for_update()).one_or_none() is None:
            raise FatalError(_TAKEN_OVER)

    def verify_lease_by_write(self, epoch: int) -> None:
        """Check by a write that the lease is held and the database is writable.

        The write moves the end of the lease by one millisecond, because SQLite skips writes that
        change nothing.

        Raises:
            FatalError: another process has taken over; this transaction must be rolled back.
        """
        is_own_lease = (lease.c.epoch == epoch) & lease.c.holder.is_not(None)
        touch_statement = update(lease).where(is_own_lease).values(until_ms=lease.c.until_ms + 1)
        if self._connection.execute(touch_statement).rowcount != 1:
            raise FatalError(_TAKEN_OVER)

    def terminate_stalled_writer(self, seconds: float) -> bool:
        """Terminate the connection of a writer that has stalled for `seconds`.

        Return whether a connection was ended. PostgreSQL then rolls back the writer's transaction.
        With SQLite, nothing is done.
        """
        if self._connection.dialect.name == "sqlite":
            return False
        parameters = {"lock": WRITER_LOCK, "seconds": seconds}
        return any(self._connection.execute(_TERMINATE_STALLED_WRITERS, parameters).scalars())

    def _insert_missing_row(self) -> None:
        """Insert the row of a free lease if it is missing.

        Concurrent calls are safe.
        """
        insert_missing_rows(self._connection, lease, [(_ROW_ID, None, 0, 0)])

    def _build_now_ms_expression(self) -> ColumnElement[int]:
        return build_now_ms_expression(self._connection)
