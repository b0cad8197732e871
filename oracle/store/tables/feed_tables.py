"""Tables of a feed's raw rows and reading progress.

None of them is a projection, because a rebuild folds the raw rows again, as it does with logs.
Times are by the feed's clock, in seconds (docs/explanation/feed.md#storage).
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

# Rows of the feed, which are kept permanently. The hash is part of the key. If a row arrives later
# with different content, it is therefore kept as evidence in addition to the first version.
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
    # `time` is NULL until the row is settled, so that it can no longer change. `block` is the
    # first block with a later time. It is NULL until the row is folded.
    Column("time", BigInteger),
    Column("block", BigInteger),
    Column("canonical", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index("ix_feed_row_block", feed_row.c.block)
Index("ix_feed_row_task_kind", feed_row.c.task, feed_row.c.kind)

# One row: how far the feed was read, written in the same transaction as the rows.
feed_cursor = Table(
    "feed_cursor",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("stream", BigInteger, nullable=False),
    Column("settled_id", BigInteger, nullable=False),
    Column("highest_id", BigInteger, nullable=False),
    # The id of the first row that ever existed; NULL if there was none.
    Column("first_id", BigInteger),
    # The feed's clock at three polls: the last one, the last complete one (0 if there was none),
    # and the last one that returned new rows.
    Column("polled_at", BigInteger, nullable=False),
    Column("fully_polled_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    # The time of the last settled row, and the time up to which all rows are settled.
    Column("row_time", BigInteger, nullable=False),
    Column("settled_to", BigInteger, nullable=False),
    # The last row that was compared with the second feed, and the time when the first feed was
    # last read again.
    Column("compared_id", BigInteger, nullable=False),
    Column("reread_at", BigInteger, nullable=False),
    Column("polls", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

# Faults of the feed; an accepted fault is kept as history.
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

# Row times that another reader has exported. With these times, both readers produce the same
# reports.
feed_witness = Table(
    "feed_witness",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
)
