"""Tables of a gateway's selection service, which are empty in a daemon's database."""

from sqlalchemy import BigInteger, Column, Double, LargeBinary, Table, Text

from oracle.store.tables.metadata import metadata

# Outcomes of relays in the order in which the gateway's reports arrived, and checks that ended a
# node's exclusion. Rows are kept as long as they can affect a ranking.
relay_outcome = Table(
    "relay_outcome",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # Milliseconds since 1970 at which the outcome was received, and at which the relay ended.
    Column("taken_ms", BigInteger, nullable=False, index=True),
    Column("t_ms", BigInteger, nullable=False),
    Column("chain", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("session", Text, nullable=False),
    # The latency is NULL if the relay failed, or if no node is to blame.
    Column("latency_ms", Double),
    Column("kind", Text, nullable=False),
    # Idempotency key; NULL if the same outcome counts every time it is reported.
    Column("outcome_id", Text),
)

# Seeds with which nodes were drawn. A seed is secret until its epoch is over.
draw_epoch = Table(
    "draw_epoch",
    metadata,
    # Milliseconds since 1970.
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("seed", LargeBinary, primary_key=True),
)

# The last check of each node of a chain.
node_check = Table(
    "node_check",
    metadata,
    Column("chain", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # Milliseconds since 1970.
    Column("at_ms", BigInteger, nullable=False),
    Column("chain_id", BigInteger),
    Column("height", BigInteger),
    Column("best", BigInteger),
    # Time until which a passed check is valid, in milliseconds since 1970, or 0 if the check
    # failed.
    Column("chain_until_ms", BigInteger, nullable=False),
    Column("sync_until_ms", BigInteger, nullable=False),
    # NULL if the check was passed.
    Column("fault", Text),
    sqlite_with_rowid=False,
)
