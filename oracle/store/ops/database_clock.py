"""The database's clock, shared by all processes that use the database."""

from sqlalchemy import BigInteger, Connection, cast, func
from sqlalchemy.sql.elements import ColumnElement

# Julian day of 1970-01-01, and milliseconds per day (for SQLite's clock).
_JULIAN_1970, _DAY = 2440587.5, 86_400_000
_SECOND = 1000


def now_ms(connection: Connection) -> ColumnElement[int]:
    """Return an expression for the current time in milliseconds since 1970.

    The value is that of the statement, not of the start of the transaction.
    """
    if connection.dialect.name == "sqlite":
        return cast((func.julianday("now") - _JULIAN_1970) * _DAY, BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * _SECOND, BigInteger)
