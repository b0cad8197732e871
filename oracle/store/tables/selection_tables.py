"""What the dispatcher decided: who was drawn for which task, who is asked to download what."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, SmallInteger, Table, Text, text

from oracle.store.tables.metadata import metadata

# Which node was drawn for which task. A record, no projection, like reports: what was said of a
# block stays what was said of it.
draw = Table(
    "draw",
    metadata,
    Column("task", LargeBinary, primary_key=True),
    # The block whose hash seeds the draw; task and candidate were both there at the end of the
    # block before it.
    Column("seed_block", BigInteger, primary_key=True, autoincrement=False, index=True),
    Column("seed_hash", LargeBinary, nullable=False),
    # Weights heal with time: without it the draw could not be made again from what is stored.
    Column("seed_time", BigInteger, nullable=False),
    Column("node", LargeBinary, nullable=False),
    # The block at whose end it stood no more; NULL: it stands.
    Column("voided_block", BigInteger, index=True),
    Index(None, "node", "seed_block"),
    sqlite_with_rowid=False,
)
# One of a task at a time; what stands is found without looking at history.
Index(
    "active_draw",
    draw.c.task,
    unique=True,
    sqlite_where=text("voided_block IS NULL"),
    postgresql_where=text("voided_block IS NULL"),
)

# Which node is to be asked to download which model, as a task started. A record like the draws;
# what of it is on chain stands in the node's own row.
planned_download = Table(
    "planned_download",
    metadata,
    # The block at whose end it was decided.
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("node", LargeBinary, primary_key=True),
    Column("model", Text, primary_key=True),
    # The task that had just started.
    Column("task", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)

# The text of every rule set that ever scored here. No projection: a number once given stays.
rule_set = Table(
    "rule_set",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False, unique=True),  # of the text
    Column("text", Text, nullable=False),  # canonical JSON
)
