"""What a gateway's selection service keeps; empty in a daemon's database."""

from sqlalchemy import BigInteger, Column, Double, LargeBinary, Table, Text

from oracle.store.tables.metadata import metadata

# Relays as a gateway told of them, in the order in which they were taken in, as long as they can
# count; and the checks that ended a time out.
relay_outcome = Table(
    "relay_outcome",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # Milliseconds since 1970: when it was told, and when the relay ended.
    Column("taken_ms", BigInteger, nullable=False, index=True),
    Column("t_ms", BigInteger, nullable=False),
    Column("chain", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("session", Text, nullable=False),
    # NULL: it failed, or nobody is blamed.
    Column("latency_ms", Double),
    Column("kind", Text, nullable=False),
    # By which it is known again; NULL: it counts each time.
    Column("outcome_id", Text),
)

# The seeds that nodes were drawn by: secret until their epoch is over.
draw_epoch = Table(
    "draw_epoch",
    metadata,
    # Milliseconds since 1970.
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("seed", LargeBinary, primary_key=True),
)

# What the last check of each node of a chain said.
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
    # Until when what passed counts, in milliseconds since 1970; 0: it did not pass.
    Column("chain_until_ms", BigInteger, nullable=False),
    Column("sync_until_ms", BigInteger, nullable=False),
    # NULL: it passed.
    Column("fault", Text),
    sqlite_with_rowid=False,
)
