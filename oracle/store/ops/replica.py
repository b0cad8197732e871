"""How far this database is behind the one that it is a copy of, where it is one.

Reading may be served from a PostgreSQL replica (docs/how-to/serve-the-read-api.md#replica); what
it says is then older than what the daemon wrote, and every answer says by how much.
"""

from sqlalchemy import Connection, text

# The daemon renews its lease every few seconds, so the newest transaction that was replayed is
# never old on a copy that keeps up.
# One that has replayed nothing since it was started is as old as that, or older: never "no copy".
_LAG = text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN extract(epoch FROM clock_timestamp() - "
    "coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())) END"
)


def replica_lag_seconds(connection: Connection) -> float | None:
    """Return the age of the newest transaction copied; None: this database is no copy.

    SQLite has none. Of a replica that has replayed nothing yet it is a lower bound.
    """
    if connection.dialect.name == "sqlite":
        return None
    lag = connection.execute(_LAG).scalar_one()
    return None if lag is None else max(0.0, float(lag))
