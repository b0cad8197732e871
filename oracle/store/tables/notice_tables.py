"""What subscribers are told of, and how far each was told (docs/how-to/notifications.md)."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text

from oracle.store.tables.metadata import metadata

# What may be told, in the order in which it is. No projection: what somebody was told of stays,
# whatever becomes of its block.
notice = Table(
    "notice",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    # The block that it stands and falls with; NULL: no fork takes it back.
    Column("block", BigInteger, index=True),
    Column("time", BigInteger, nullable=False),  # the chain's
    Column("kind", Text, nullable=False),
    Column("node", LargeBinary),
    # Other than a node: `halt:3`, `hold:30000104`.
    Column("subject", Text),
    Column("body", Text, nullable=False),  # JSON
    # The notice of the fork that took it back; NULL: it holds.
    Column("undone_by", BigInteger, index=True),
    sqlite_with_rowid=False,
)
Index("notice_of", notice.c.subject, notice.c.kind)

# How far each target was told, and what keeps it.
notify_place = Table(
    "notify_place",
    metadata,
    Column("target", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # the newest that it took, or did not want
    Column("tries", BigInteger, nullable=False),  # of the next one, in vain
    Column("next_at", BigInteger, nullable=False),  # unix seconds by the caller's clock
    Column("last_error", Text),
    sqlite_with_rowid=False,
)
