"""Replication lag of this database, if it is a replica.

Reads may be served from a PostgreSQL replica (docs/how-to/serve-the-read-api.md#replica); its data
is then older than what the daemon wrote, and every response states by how much.
"""

from sqlalchemy import Connection, text

# The daemon renews its lease every few seconds, so on a replica that keeps up the newest replayed
# transaction is never old. A replica that has replayed nothing since its start lags at least since
# then.
_LAG_QUERY = text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN extract(epoch FROM clock_timestamp() - "
    "coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())) END"
)


def get_replica_lag_seconds(connection: Connection) -> float | None:
    """Return the age of the newest replayed transaction, or None if this is no replica.

    SQLite has no replicas. For a replica that has replayed nothing yet the value is a lower bound.
    """
    if connection.dialect.name == "sqlite":
        return None
    lag = connection.execute(_LAG_QUERY).scalar_one()
    return None if lag is None else max(0.0, float(lag))
