"""Tables of the dispatcher's decisions, such as drawn nodes and planned downloads."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, SmallInteger, Table, Text

from oracle.store.tables.metadata import PartialIndex, metadata

# The node drawn for each task. Like reports, draws are not a projection, so a rebuild keeps them.
draw = Table(
    "draw",
    metadata,
    Column("task", LargeBinary, primary_key=True),
    # The block whose hash seeds the draw. The task and every candidate existed at the end of the
    # previous block.
    Column("seed_block", BigInteger, primary_key=True, autoincrement=False, index=True),
    Column("seed_hash", LargeBinary, nullable=False),
    # The time of the seed block. Repeating the draw needs it, because weights recover with time.
    Column("seed_time", BigInteger, nullable=False),
    Column("node", LargeBinary, nullable=False),
    # The block at whose end the draw stopped being active. It is NULL while the draw is active.
    Column("voided_block", BigInteger, index=True),
    # The sum of all candidates' weights (32 bytes), and the number of candidates. A node's weight
    # divided by this sum was its chance to be drawn.
    Column("total_weight", LargeBinary, nullable=False),
    Column("candidate_count", BigInteger, nullable=False),
    # Index of the draw among the block's draws, from 0. A drawn node is not a candidate in later
    # draws of the block.
    Column("place", BigInteger, nullable=False),
    Index(None, "node", "seed_block"),
    sqlite_with_rowid=False,
)
# At most one active draw per task. The index also finds active draws without reading history.
PartialIndex(
    "active_draw",
    draw.c.task,
    unique=True,
    where="voided_block IS NULL",
)

# Nodes that will be requested to download a model after a task started. Like draws, these rows are
# not a projection. Requests that are already on-chain are in the node's row.
planned_download = Table(
    "planned_download",
    metadata,
    # The block at whose end the download was planned.
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("node", LargeBinary, primary_key=True),
    Column("model", Text, primary_key=True),
    # The task that started in that block.
    Column("task", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)

# Every rule set that was ever used for scores. These rows are not a projection, because numbers
# are never reassigned.
rule_set = Table(
    "rule_set",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False, unique=True),  # of the text
    Column("text", Text, nullable=False),  # canonical JSON
)
