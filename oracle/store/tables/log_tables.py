"""Tables of raw logs, narrow: what many rows share stands once.

A log is a row of four numbers and texts of bytes; its block's hash and time, and its address and
first topic, stand in tables of their own. Whoever reads by SQL reads the view `log`
(`log_view`), which has them side by side. See docs/explanation/storage.md#logs.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from oracle.domain.log_table import INDEX_BITS
from oracle.store.tables.metadata import metadata

# What is left of a positive number of 64 bits.
MOST_BLOCK = 2 ** (63 - INDEX_BITS) - 1

# SQLite's own row number, where the key is called INTEGER.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")

# What contracts emitted, on the chain that we follow.
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

# The blocks that have a row in `log_row`, and no other.
log_block = Table(
    "log_block",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

# Contracts with a kind of event each, numbered as they came.
log_source = Table(
    "log_source",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("address", LargeBinary, nullable=False),
    Column("topic0", LargeBinary, nullable=False),  # empty: a log without topics
    UniqueConstraint("address", "topic0"),
)

# Logs of blocks that are not, or not any more, on the chain that we follow, each with its block.
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
