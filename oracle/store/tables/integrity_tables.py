"""Tables about the integrity of data, such as coverage, dead letters and halts.

Of these tables, only `dead_letter` can be reproduced by a fold of the raw rows.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
)

from oracle.store.tables.metadata import PartialIndex, metadata

_ROW_ID = BigInteger().with_variant(Integer(), "sqlite")

# Every scope for which blocks were ever read, by the digest of its JSON.
scope = Table(
    "scope",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("text", Text, nullable=False),  # JSON: addresses, topics, selectors
    # Windows are read for the scope with the highest number.
    Column("number", SmallInteger, nullable=False, unique=True),
)

# Blocks that were read for a scope, with level and endpoint. Intervals of the same scope never
# overlap. Adjacent intervals with equal values are merged into a single row.
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

# Single blocks that have a higher level than the windows around them.
verified_block = Table(
    "verified_block",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, primary_key=True),
    Column("level", SmallInteger, nullable=False),
    Column("endpoint", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Checksum of the raw rows of one kind ('log', 'call', 'feed') in a span of blocks. Every inserted
# or deleted row updates it.
raw_checksum = Table(
    "raw_checksum",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("span", BigInteger, primary_key=True, autoincrement=False),  # block / 1,000
    Column("rows", BigInteger, nullable=False),
    Column("checksum", LargeBinary, nullable=False),  # sum of the rows' hashes modulo 2^256
    sqlite_with_rowid=False,
)

# Raw rows of known kinds that could not be decoded. A reorg orphans them together with their raw
# rows.
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

# Facts that the daemon has learned about endpoints. They are kept across restarts.
endpoint_fact = Table(
    "endpoint_fact",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("expires", BigInteger),  # unix seconds; NULL if it never expires
    sqlite_with_rowid=False,
)

# Halts of outbound work. A cleared halt is kept as history.
halt = Table(
    "halt",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    Column("name", Text, nullable=False),
    Column("since_block", BigInteger, nullable=False),
    Column("since_time", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    # The block about which two sources disagree, its indexed hash, and the other hash.
    Column("block", BigInteger),
    Column("our_hash", LargeBinary),
    Column("their_hash", LargeBinary),
    Column("cleared_time", BigInteger),
    Column("cleared_by", Text),
    Column("cleared_reason", Text),
)
PartialIndex(
    "one_active_halt",
    halt.c.name,
    unique=True,
    where="cleared_time IS NULL",
)

# Every reorg for which the index was rewound.
reorg_log = Table(
    "reorg_log",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    Column("ancestor", BigInteger, nullable=False),
    Column("ancestor_hash", LargeBinary, nullable=False),
    Column("old_tip", BigInteger, nullable=False),
    Column("old_hash", LargeBinary, nullable=False),
    # Tip of the other fork when the reorg was found. It is NULL if no endpoint reported a tip.
    Column("new_tip", BigInteger),
    Column("new_hash", LargeBinary),
    Column("time", BigInteger, nullable=False),  # of the old tip
    Column("endpoints", Text, nullable=False),  # JSON list
    Column("logs_orphaned", BigInteger, nullable=False),
)
