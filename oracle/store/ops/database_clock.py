"""The database's own clock: what several processes on one database time each other by."""

from sqlalchemy import BigInteger, Connection, cast, func
from sqlalchemy.sql.elements import ColumnElement

# Days between the Julian epoch and 1970, and milliseconds in a day (SQLite's clock).
_JULIAN_1970, _DAY = 2440587.5, 86_400_000
_SECOND = 1000


def now_ms(connection: Connection) -> ColumnElement[int]:
    """Milliseconds since 1970 as the database tells them, not the start of a transaction."""
    if connection.dialect.name == "sqlite":
        return cast((func.julianday("now") - _JULIAN_1970) * _DAY, BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * _SECOND, BigInteger)
