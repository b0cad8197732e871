"""The database's clock, shared by all processes that use the database."""

from sqlalchemy import BigInteger, Connection, cast, func
from sqlalchemy.sql.elements import ColumnElement

# Julian day of 1970-01-01, and milliseconds per day (for SQLite's clock).
_UNIX_EPOCH_JULIAN_DAY, _MS_PER_DAY = 2440587.5, 86_400_000
_MS_PER_SECOND = 1000


def build_now_ms(connection: Connection) -> ColumnElement[int]:
    """Return an expression for the current time in milliseconds since 1970.

    The time is that of the statement, not that of the transaction's start.
    """
    if connection.dialect.name == "sqlite":
        return cast((func.julianday("now") - _UNIX_EPOCH_JULIAN_DAY) * _MS_PER_DAY, BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * _MS_PER_SECOND, BigInteger)
