"""What sending for good needs: bumps, replaces, peers, gates, quiet signers, and who did it.

Revision 0004, after 0003. One transaction on both databases. What was on its way goes on: a
transaction that was sent keeps the block of its last sending as that of the first, and a nonce
without one counts as opened at the block that the database had come to.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

OLD_KINDS = (
    "'push', 'propose_kick', 'execute_kick', 'cancel_kick', 'start_task', 'queue_task', "
    "'drop_task', 'noop'"
)
NEW_KINDS = f"{OLD_KINDS}, 'rebuilt'"
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPEN_PUSH = "kind = 'push' AND state IN ('ready', 'assigned')"
LIVE_KICK = (
    "kind IN ('propose_kick', 'execute_kick', 'cancel_kick') AND "
    "state IN ('ready', 'assigned', 'live', 'mined')"
)
READY_KICK = (
    "kind IN ('propose_kick', 'execute_kick', 'cancel_kick') AND state IN ('ready', 'assigned')"
)
OLD_INDEXES = (
    ("one_open_push", ["chain_id", "contract"], OPEN_PUSH),
    ("one_live_kick", ["chain_id", "contract", "kind", "subject"], LIVE_KICK),
)
NEW_INDEXES = (
    ("one_open_push", ["chain_id", "sender", "contract"], OPEN_PUSH),
    ("one_live_kick", ["chain_id", "sender", "contract", "kind", "subject"], READY_KICK),
)
# Table, column, type, and what the rows of before get where the column may not be empty.
COLUMNS = (
    ("pub_account", "pause_class", sa.Text, None),
    ("pub_intent", "replaces", sa.BigInteger, None),
    ("pub_nonce", "opened_block", sa.BigInteger, "0"),
    ("pub_nonce", "last_bump_block", sa.BigInteger, None),
    ("pub_nonce", "mined_at", sa.BigInteger, None),
    ("pub_attempt", "reason", sa.Text, "first"),
    ("pub_attempt", "first_sent_block", sa.BigInteger, None),
    ("pub_journal", "actor", sa.Text, None),
)
# Name, table, columns, and of which rows: whom a nonce was given to, and what a day costs.
MORE_INDEXES = (
    ("intent_nonce", "pub_intent", ["chain_id", "sender", "nonce"], None),
    ("nonce_opened", "pub_nonce", ["chain_id", "sender", "opened_at"], None),
    (
        "nonce_bumped",
        "pub_nonce",
        ["chain_id", "sender", "last_bump_at"],
        "last_bump_at IS NOT NULL",
    ),
)
TABLES = ("report_hold", "signing_embargo", "pub_peer_statement")


def upgrade() -> None:
    _take_kinds(OLD_KINDS, NEW_KINDS)
    for table, name, kind, default in COLUMNS:
        empty = default is None
        op.add_column(table, sa.Column(name, kind(), nullable=empty, server_default=default))
    _index_anew(NEW_INDEXES)
    _index_more()
    _make_statements()
    _make_gates()
    _go_on()


def downgrade() -> None:
    # An older program knows no adopted nonces; to it they are calls that did nothing.
    op.execute("UPDATE pub_intent SET kind = 'noop' WHERE kind = 'rebuilt'")
    for table in TABLES:
        op.drop_table(table)
    for name, table, _columns, _where in MORE_INDEXES:
        op.drop_index(name, table)
    _index_anew(OLD_INDEXES)
    for table, name, _kind, _default in reversed(COLUMNS):
        op.drop_column(table, name)
    _take_kinds(NEW_KINDS, OLD_KINDS)


def _make_statements() -> None:
    op.create_table(
        "pub_peer_statement",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("contract", sa.LargeBinary(), nullable=False),
        sa.Column("signer", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("prev_digest", sa.LargeBinary(), nullable=True),
        sa.Column("as_of_block", sa.BigInteger(), nullable=True),
        sa.Column("as_of_hash", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('report', 'kick')", name=op.f("ck_pub_peer_statement_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pub_peer_statement")),
        sa.UniqueConstraint("signer", "digest", name=op.f("uq_pub_peer_statement_signer_digest")),
    )
    op.create_index(
        "peer_statement_round",
        "pub_peer_statement",
        ["contract", "kind", "round", "subject"],
        unique=False,
    )
    op.create_table(
        "signing_embargo",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("contract", sa.LargeBinary(), nullable=False),
        sa.Column("signer", sa.LargeBinary(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "contract", "signer", name=op.f("pk_pub_quiet")),
    )


def _make_gates() -> None:
    op.create_table(
        "report_hold",
        sa.Column("period", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("held_at", sa.BigInteger(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("released_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("period", name=op.f("pk_report_gate")),
    )


def _index_anew(indexes: tuple[tuple[str, list[str], str], ...]) -> None:
    for name, columns, where in indexes:
        op.drop_index(name, "pub_intent")
        op.create_index(
            name,
            "pub_intent",
            columns,
            unique=True,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )


def _index_more() -> None:
    for name, table, columns, where in MORE_INDEXES:
        rows = None if where is None else sa.text(where)
        op.create_index(name, table, columns, sqlite_where=rows, postgresql_where=rows)


def _go_on() -> None:
    """Say of what is under way what the older program did not write down."""
    op.execute("UPDATE pub_attempt SET first_sent_block = last_sent_block")
    op.execute(
        "UPDATE pub_nonce SET opened_block = COALESCE("
        "(SELECT MIN(last_sent_block) FROM pub_attempt WHERE "
        "pub_attempt.chain_id = pub_nonce.chain_id AND pub_attempt.sender = pub_nonce.sender "
        "AND pub_attempt.nonce = pub_nonce.nonce), (SELECT MAX(number) FROM cursor), 0)"
    )
    op.execute("UPDATE pub_nonce SET mined_at = opened_at WHERE block_number IS NOT NULL")
    # Its words are all that an older program left of why an account is paused.
    op.execute(
        "UPDATE pub_account SET pause_class = CASE "
        "WHEN pause_reason LIKE 'nonce %' THEN 'foreign' "
        "WHEN pause_reason LIKE 'chain%' THEN 'chain' "
        "ELSE 'malformed' END WHERE paused"
    )


def _take_kinds(before: str, after: str) -> None:
    """Say anew which kinds an intent may have."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        op.drop_constraint(op.f("ck_pub_intent_kind"), "pub_intent")
        op.create_check_constraint(op.f("ck_pub_intent_kind"), "pub_intent", f"kind IN ({after})")
        return
    # SQLite cannot change a constraint: the table is made anew, in this transaction. What refers
    # to it is without its row meanwhile, and judged at the commit.
    parts = connection.execute(
        sa.text(
            "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'pub_intent' AND sql IS NOT NULL"
        )
    ).all()
    (table,) = (text for kind, text in parts if kind == "table")
    op.execute("PRAGMA defer_foreign_keys = ON")
    op.execute("CREATE TABLE kept_intent AS SELECT * FROM pub_intent")
    op.drop_table("pub_intent")
    connection.exec_driver_sql(table.replace(f"({before})", f"({after})"))
    op.execute("INSERT INTO pub_intent SELECT * FROM kept_intent")
    op.drop_table("kept_intent")
    for kind, text in parts:
        if kind == "index":
            connection.exec_driver_sql(text)
