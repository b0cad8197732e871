"""Tables of the chain's data and of the indexer's progress.

Hashes and addresses are stored as bytes, times as seconds, and amounts as 32 bytes big-endian,
because numbers of SQLite lose digits above 2^63.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
)

from oracle.store.tables.metadata import PartialIndex, metadata

# One row: the chain and the contracts of this database, compared at every start.
identity = Table(
    "identity",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("chain_id", BigInteger, nullable=False),
    Column("genesis_hash", LargeBinary, nullable=False),
    Column("contracts", Text, nullable=False),  # JSON: name to address
    Column("oracle", LargeBinary),
    Column("start_block", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

# One row: the last folded block, and the newest final block.
cursor = Table(
    "cursor",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("final_number", BigInteger),
    Column("final_hash", LargeBinary),
    Column("epoch", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

# Headers of blocks that may still leave the chain, or to which other rows refer.
block = Table(
    "block",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, primary_key=True),
    Column("parent_hash", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("canonical", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
# At most one canonical block per height; a second one would mean a missed rewind.
PartialIndex(
    "one_canonical_block",
    block.c.number,
    unique=True,
    where="canonical",
)

# Raw calls of watched functions. The table is empty unless the profile reads calls.
call = Table(
    "call",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("tx_index", BigInteger, primary_key=True, autoincrement=False),
    Column("block_hash", LargeBinary, primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("tx_hash", LargeBinary, nullable=False),
    Column("sender", LargeBinary, nullable=False),
    Column("recipient", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("input", LargeBinary, nullable=False),
    Column("succeeded", Boolean, nullable=False),
    Column("canonical", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

# For each row that a block above the final block has changed, the row before the first change (the
# pre-image). A rewind restores these rows.
undo = Table(
    "undo",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("pre_image", LargeBinary),  # the row as msgpack; NULL if it did not exist
    sqlite_with_rowid=False,
)

# The folded state after some final blocks, in packed form. Because of it, earlier blocks need not
# be folded again. Snapshots are made from the raw rows, and are deleted with the projections.
state_snapshot = Table(
    "state_snapshot",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("logs", BigInteger, nullable=False),  # number of logs folded up to the block
    Column("made_by", LargeBinary, nullable=False),  # sha256 of fold, profile, rules, settings
    Column("body", LargeBinary, nullable=False),
    Column("checksum", LargeBinary, nullable=False),  # sha256 of the body
    sqlite_with_rowid=False,
)

# Small named values, for example how far back the undo journal reaches.
bookmark = Table(
    "bookmark",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
