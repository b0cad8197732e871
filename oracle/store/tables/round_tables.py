"""Tables of the oracle contract's state and of the reports."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    LargeBinary,
    Table,
    Text,
)

from oracle.store.tables.metadata import PartialIndex, metadata

# Kickouts of nodes that were ever accused, allowed or expelled on-chain, by any account.
kick = Table(
    "kick",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("state", Text, nullable=False),
    Column("spared_until", BigInteger, nullable=False),  # unix seconds
    Column("allowed", BigInteger, nullable=False),  # start of an interval, unix seconds, or 0
    # The newest accusation; NULL if never accused.
    Column("accused_at", Text),
    Column("accused_in", BigInteger),  # round
    Column("due_since", BigInteger),
    Column("ready_at", BigInteger),
    Column("evidence", LargeBinary),
    # Execution of the kickout; NULL if not executed.
    Column("executed_at", Text),
    Column("executed_in", BigInteger),  # round
    Column("expelled_until", BigInteger),
    Column("target", LargeBinary),
    Column("tried_in", BigInteger),  # round of the newest try
    Column("tried_at", Text),
    Column("refusals", BigInteger),  # consecutive refusals with this reason
    Column("reason", LargeBinary),
)

# Settings of the contract ('limits', 'kick_limits', 'signers', 'config', 'paused_until', 'rules').
# Each is valid from its position on, and the newest row of each name is in force. The table also
# contains the timelock's operations on rules ('rules_scheduled', 'operation_salted',
# 'operation_cancelled', 'rules_executed').
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

# Rounds that the contract accepted. The newest round is the contract's head.
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
    Column("root", LargeBinary, nullable=False),
    Column("config", LargeBinary, nullable=False),
    # Bit i is set if the signer at index i of the configuration signed.
    Column("signer_bitmap", LargeBinary, nullable=False),
)

# Ranges of rounds whose roots were withdrawn. The contract rejects proofs against these roots.
strike = Table(
    "strike",
    metadata,
    *(
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in ("block", "tx", "log", "sub")
    ),
    Column("time", BigInteger, nullable=False),
    Column("first_round", BigInteger, nullable=False),
    Column("last_round", BigInteger, nullable=False),
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
    # Number of nodes and of steps by which the lanes of this round differ from those of round
    # head_round (`ReportChange`).
    Column("changed_nodes", BigInteger, nullable=False),
    Column("changed_steps", BigInteger, nullable=False),
    Column("max_changed_steps", BigInteger, nullable=False),
    Column("crosses_band", Boolean, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),  # sha256; a rebuild must reproduce it
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("round", BigInteger),  # bound when it is signed
    Column("digest", LargeBinary),
    CheckConstraint("state IN ('due', 'skipped', 'missed', 'landed')", name="state"),
)
PartialIndex(
    "due_report",
    report.c.period,
    where="state = 'due'",
)

# Leaves of the reports' Merkle trees, in pieces of 8,192 leaves. For the report as of block B, the
# leaves of each piece are in the newest row up to B.
leaf_piece = Table(
    "leaf_piece",
    metadata,
    Column("piece", BigInteger, primary_key=True, autoincrement=False),
    Column("as_of", BigInteger, primary_key=True, autoincrement=False),
    # The digest of the piece comes before the leaves. It can therefore be read without them.
    Column("leaf_count", BigInteger, nullable=False),
    Column("nodes_hash", LargeBinary, nullable=False),
    Column("words_hash", LargeBinary, nullable=False),
    Column("open_count", BigInteger, nullable=False),
    Column("total_weight", BigInteger, nullable=False),
    Column("leaves", LargeBinary, nullable=False),  # 128 bytes each
)
