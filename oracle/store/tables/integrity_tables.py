"""Tables of what we know of what we read: coverage, proofs, dead letters, endpoints, halts.

None is a projection of the raw rows but `dead_letter`, which a fold finds again as it was.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)

from oracle.store.tables.metadata import metadata

_ROW_ID = BigInteger().with_variant(Integer(), "sqlite")

# What was ever asked of every block, by the digest of its JSON.
scope = Table(
    "scope",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("text", Text, nullable=False),  # JSON: addresses, topics, selectors
    # Counts up: the newest is the one that windows are read for.
    Column("number", SmallInteger, nullable=False, unique=True),
)

# Which blocks were read for a scope, how well, and by whom. Intervals of one scope never overlap;
# neighbours that are alike are one row.
coverage = Table(
    "coverage",
    metadata,
    Column("scope", LargeBinary, primary_key=True),
    Column("first_block", BigInteger, primary_key=True, autoincrement=False),
    Column("last_block", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("audited_by", Text),
    Column("audited_at", BigInteger),
    sqlite_with_rowid=False,
)

# Single blocks that reached more than the windows around them.
verified_block = Table(
    "verified_block",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, primary_key=True),
    Column("level", SmallInteger, nullable=False),
    Column("endpoint", Text, nullable=False),
    sqlite_with_rowid=False,
)

# What the raw rows of a span of blocks add up to, moved with each of them: 'log', 'call', 'feed'.
raw_checksum = Table(
    "raw_checksum",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("span", BigInteger, primary_key=True, autoincrement=False),  # block / 1,000
    Column("rows", BigInteger, nullable=False),
    Column("checksum", LargeBinary, nullable=False),  # sum of their hashes modulo 2^256
    sqlite_with_rowid=False,
)

# Raw rows of kinds that we know and cannot read; orphaned like the rows themselves.
dead_letter = Table(
    "dead_letter",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("tx_index", BigInteger, primary_key=True, autoincrement=False),
    Column("log_index", BigInteger, primary_key=True, autoincrement=False),  # -1: the call
    Column("block_hash", LargeBinary, primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("address", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("canonical", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

# What we learned of an endpoint, so that a restart need not learn it again.
endpoint_fact = Table(
    "endpoint_fact",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("expires", BigInteger),  # unix seconds; NULL: never
    sqlite_with_rowid=False,
)

# Why outbound work stands still; a halt that was opened again stays as history.
halt = Table(
    "halt",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    Column("name", Text, nullable=False),
    Column("since_block", BigInteger, nullable=False),
    Column("since_time", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    # The block that is told in two ways, ours and theirs.
    Column("block", BigInteger),
    Column("our_hash", LargeBinary),
    Column("their_hash", LargeBinary),
    Column("cleared_time", BigInteger),
    Column("cleared_by", Text),
    Column("cleared_reason", Text),
)
Index(
    "one_active_halt",
    halt.c.name,
    unique=True,
    sqlite_where=text("cleared_time IS NULL"),
    postgresql_where=text("cleared_time IS NULL"),
)

# Every reorganisation that was undone.
reorg_log = Table(
    "reorg_log",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    Column("ancestor", BigInteger, nullable=False),
    Column("ancestor_hash", LargeBinary, nullable=False),
    Column("old_tip", BigInteger, nullable=False),
    Column("old_hash", LargeBinary, nullable=False),
    # The other side's block when it was found; NULL where nobody told it.
    Column("new_tip", BigInteger),
    Column("new_hash", LargeBinary),
    Column("time", BigInteger, nullable=False),  # of the old tip
    Column("endpoints", Text, nullable=False),  # JSON list
    Column("logs_orphaned", BigInteger, nullable=False),
)
