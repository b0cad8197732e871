"""Tables of notices and of their delivery to targets (docs/how-to/notifications.md)."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text

from oracle.store.tables.metadata import metadata

# Notices, in order. They are not a projection, because a delivered notice is kept even if its
# block is removed.
notice = Table(
    "notice",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    # A notice is retracted if a fork removes this block. It is NULL if no fork retracts the
    # notice.
    Column("block", BigInteger, index=True),
    Column("time", BigInteger, nullable=False),  # chain time
    Column("kind", Text, nullable=False),
    Column("node", LargeBinary),
    # A subject other than a node: `halt:3`, `hold:30000104`.
    Column("subject", Text),
    Column("body", Text, nullable=False),  # JSON
    # The notice of the fork that retracted this notice, or NULL if it was not retracted.
    Column("undone_by", BigInteger, index=True),
    sqlite_with_rowid=False,
)
Index("notice_of", notice.c.subject, notice.c.kind)
Index("notice_of_node", notice.c.node, notice.c.seq)

# Delivery progress and retry state of each target.
notify_place = Table(
    "notify_place",
    metadata,
    Column("target", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # the newest delivered or skipped notice
    Column("tries", BigInteger, nullable=False),  # failed tries of the next notice
    Column("next_at", BigInteger, nullable=False),  # unix seconds by the caller's clock
    Column("last_error", Text),
    sqlite_with_rowid=False,
)

# Subscriptions of node owners. Their delivery progress is in `notify_place`, as `subscription:ID`.
subscription = Table(
    "subscription",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node", LargeBinary, nullable=False, index=True),
    Column("channel", Text, nullable=False),  # webhook, mail
    # A URL or a mail address, which is secret. It is empty once the subscription has ended.
    Column("target", Text, nullable=False),
    Column("kinds", Text, nullable=False),  # comma-separated; empty for all
    # Key that signs messages to webhooks. The tokens in links are derived from it.
    Column("secret", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),  # new, unconfirmed, active, ended
    Column("reason", Text),  # why it ended
    Column("created_at", BigInteger, nullable=False),  # unix seconds
    Column("changed_at", BigInteger, nullable=False),  # unix seconds of the last state change
    # SHA-256 of the target. With it, the use of a target is limited even after the target has been
    # erased.
    Column("target_hash", LargeBinary, nullable=False, index=True),
    sqlite_with_rowid=False,
)

# Nonce of each node's last signed request about subscriptions. With it, no request can be
# replayed.
subscription_nonce = Table(
    "subscription_nonce",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("nonce", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
