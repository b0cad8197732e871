"""Tables of the oracle contract's state, and of the reports."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    Table,
    Text,
    text,
)

from oracle.store.tables.metadata import metadata

# Words of scores that the contract holds, from its accepted rounds.
lane_word = Table(
    "lane_word",
    metadata,
    Column("word_index", BigInteger, primary_key=True, autoincrement=False),
    Column("value", LargeBinary, nullable=False),  # sixteen lanes
    Column("round", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
)

# Index of each node in the contract, as assigned by accepted rounds.
node_index = Table(
    "node_index",
    metadata,
    Column("lane_index", BigInteger, primary_key=True, autoincrement=False),
    Column("node", LargeBinary, nullable=False, index=True),
    # The round since which the node's lane is marked "do not select"; NULL: it is not.
    Column("closed_in", BigInteger),
)

# The newest kickout of each node that was proposed on chain, by any account.
kick = Table(
    "kick",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("round", BigInteger, nullable=False),
    Column("evidence", LargeBinary, nullable=False),
    Column("ready_at", BigInteger, nullable=False),
    Column("dies_at", BigInteger, nullable=False),
    Column("proposed_at", Text, nullable=False),
    Column("state", Text, nullable=False),
    # Execution of the kickout; NULL: not executed.
    Column("executed_at", Text),
    Column("executed_in", BigInteger),  # round
    Column("expelled_until", BigInteger),
    Column("target", LargeBinary),
    Column("tried_in", BigInteger),  # round of the newest try
    Column("tried_at", Text),
    Column("refusals", BigInteger),  # consecutive refusals with this reason
    Column("reason", LargeBinary),
)

# Settings of the contract ('vetoer', 'limits', 'kick_limits', 'config'), valid from their position
# on; the newest of each name is in force.
contract_setting = Table(
    "contract_setting",
    metadata,
    *(
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in ("block", "tx", "log", "sub")
    ),
    Column("time", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),  # JSON list
)

# Rounds that the contract accepted; the newest round is the contract's head.
accepted_round = Table(
    "accepted_round",
    metadata,
    *(
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in ("block", "tx", "log", "sub")
    ),
    Column("time", BigInteger, nullable=False),
    Column("round", BigInteger, nullable=False, index=True),
    Column("as_of", BigInteger, nullable=False),
    Column("as_of_hash", LargeBinary, nullable=False),
    Column("data_hash", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("config", LargeBinary, nullable=False),
    Column("transmitter", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),  # registrations and words, as pushed
)

# One report per period: its content as of the period's last block, and its outcome.
report = Table(
    "report",
    metadata,
    Column("period", BigInteger, primary_key=True, autoincrement=False),
    Column("as_of_number", BigInteger, nullable=False, index=True),
    Column("as_of_hash", LargeBinary, nullable=False),
    Column("as_of_parent", LargeBinary, nullable=False),
    Column("as_of_time", BigInteger, nullable=False),
    Column("head_round", BigInteger, nullable=False),
    Column("prev", LargeBinary, nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("root", LargeBinary, nullable=False),  # of all nodes, in round head_round + 1
    Column("data", LargeBinary, nullable=False),  # empty: nothing to report
    Column("fingerprint", LargeBinary, nullable=False),  # sha256; a rebuild must reproduce it
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("round", BigInteger),  # bound when it is signed
    Column("digest", LargeBinary),
    CheckConstraint("state IN ('due', 'skipped', 'missed', 'landed')", name="state"),
)
Index(
    "due_report",
    report.c.period,
    sqlite_where=text("state = 'due'"),
    postgresql_where=text("state = 'due'"),
)

# Leaves of the Merkle trees of cut reports, in pieces of 8,192 leaves. A report as of block B
# consists of the newest row up to B of each piece.
leaf_piece = Table(
    "leaf_piece",
    metadata,
    Column("piece", BigInteger, primary_key=True, autoincrement=False),
    Column("as_of", BigInteger, primary_key=True, autoincrement=False),
    # The digest of the piece, before the leaves, so that it can be read without them.
    Column("leaf_count", BigInteger, nullable=False),
    Column("nodes_hash", LargeBinary, nullable=False),
    Column("words_hash", LargeBinary, nullable=False),
    Column("open_count", BigInteger, nullable=False),
    Column("total_weight", BigInteger, nullable=False),
    Column("leaves", LargeBinary, nullable=False),  # 128 bytes each
)
