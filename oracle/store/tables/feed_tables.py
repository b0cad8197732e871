"""Tables of what a feed said beside the chain, raw, and how far it was read.

None is a projection: a rebuild folds them anew as it does logs. Times are the feed's clock, in
seconds (docs/explanation/feed.md#storage).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
)

from oracle.store.tables.metadata import metadata

# What the feed said, for ever. The hash ends the key: a row that is told in another way later
# stays beside the one that came first, as evidence.
feed_row = Table(
    "feed_row",
    metadata,
    Column("stream", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("args", Text, nullable=False),
    Column("seen_from", BigInteger, nullable=False),
    Column("seen_to", BigInteger, nullable=False),
    # NULL: not settled yet. The block: the first one whose time is later; NULL: none is folded.
    Column("time", BigInteger),
    Column("block", BigInteger),
    Column("canonical", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index("ix_feed_row_block", feed_row.c.block)
Index("ix_feed_row_task_kind", feed_row.c.task, feed_row.c.kind)

# One row: how far the feed was read, in the transaction that stored what was read.
feed_cursor = Table(
    "feed_cursor",
    metadata,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    Column("stream", BigInteger, nullable=False),
    Column("settled_id", BigInteger, nullable=False),
    Column("highest_id", BigInteger, nullable=False),
    # Where history starts: the first row that was ever there; NULL: there was none.
    Column("first_id", BigInteger),
    # The feed's clock at the last poll, at the last one that showed all there was (0: none has),
    # and at the last one that brought something new.
    Column("asked_at", BigInteger, nullable=False),
    Column("whole_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    # The time of the last settled row, and up to where all rows are settled.
    Column("row_time", BigInteger, nullable=False),
    Column("settled_to", BigInteger, nullable=False),
    # Up to which row the second feed was compared, and when the first was read again.
    Column("compared_id", BigInteger, nullable=False),
    Column("reread_at", BigInteger, nullable=False),
    Column("polls", BigInteger, nullable=False),
    CheckConstraint("one = 1", name="one_row"),
)

# What is wrong with the feed; an accepted fault stays as history.
feed_fault = Table(
    "feed_fault",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("stream", BigInteger, primary_key=True, autoincrement=False),
    Column("row", BigInteger, primary_key=True, autoincrement=False),
    Column("found_at", BigInteger, nullable=False),
    Column("detail", Text, nullable=False),
    Column("accepted_at", BigInteger),
    sqlite_with_rowid=False,
)

# Another reader's times of rows, which become ours: the same bytes come out.
feed_witness = Table(
    "feed_witness",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
)
