"""Tables of raw logs, which store values shared by many rows only once.

The hash and time of a log's block, and its address and first topic, are in separate tables. For
reading by SQL, the view `log` (`log_view`) joins the tables. See
docs/explanation/storage.md#logs.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from oracle.domain.logs import LOG_INDEX_BITS
from oracle.store.tables.metadata import metadata

# The highest block number for which block and log index fit into a positive 64-bit key.
MAX_BLOCK = 2 ** (63 - LOG_INDEX_BITS) - 1

# On SQLite, a key is used as the rowid only if it is declared INTEGER.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")

# Logs of contracts on the canonical chain.
log_row = Table(
    "log_row",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),  # block << 24 | log index
    Column("tx_index", Integer, nullable=False),
    Column("source", Integer, nullable=False),
    Column("tx_hash", LargeBinary, nullable=False),
    Column("topics", LargeBinary, nullable=False),  # all but the first, 32 bytes each, joined
    Column("data", LargeBinary, nullable=False),  # packed (docs/explanation/storage.md#packed)
)

# The blocks that have rows in `log_row`. No other block is listed.
log_block = Table(
    "log_block",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

# Pairs of contract and event kind, numbered in order of appearance.
log_source = Table(
    "log_source",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("address", LargeBinary, nullable=False),
    Column("topic0", LargeBinary, nullable=False),  # empty for a log without topics
    UniqueConstraint("address", "topic0"),
)

# Logs that are not canonical. Each has the hash and time of its block.
log_orphan = Table(
    "log_orphan",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("log_index", BigInteger, primary_key=True, autoincrement=False),
    Column("block_hash", LargeBinary, primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("tx_index", Integer, nullable=False),
    Column("source", Integer, nullable=False),
    Column("tx_hash", LargeBinary, nullable=False),
    Column("topics", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
