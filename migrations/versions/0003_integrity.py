"""What we know of what we read: coverage, proofs, dead letters, endpoints, halts, reorgs.

Revision 0003, after 0002. One transaction on both databases. What an older database holds is
covered at level -1 under a scope without a name, which the next start gives its own name; nodes
that wait for the end of a task to pause or quit were not remembered, and are not.
"""

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# The scope of everything that came in before scopes were kept.
NAMELESS = b"\x00" * 32
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLES = (
    "reorg_log",
    "halt",
    "endpoint_fact",
    "dead_letter",
    "verified_block",
    "coverage",
    "scope",
)


def upgrade() -> None:
    _make_coverage()
    _make_dead_letters()
    _make_facts()
    _make_halts()
    _make_reorgs()
    op.add_column("node", sa.Column("pending", sa.Text(), nullable=True))
    _each_node_pre_image(lambda row: [*row, None])
    _cover_what_is_there()


def downgrade() -> None:
    _each_node_pre_image(lambda row: row[:-1])
    op.drop_column("node", "pending")
    for table in TABLES:
        op.drop_table(table)


def _make_coverage() -> None:
    op.create_table(
        "scope",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scope")),
        sa.UniqueConstraint("number", name=op.f("uq_scope_number")),
    )
    op.create_table(
        "coverage",
        sa.Column("scope", sa.LargeBinary(), nullable=False),
        sa.Column("first_block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_block", sa.BigInteger(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("audited_by", sa.Text(), nullable=True),
        sa.Column("audited_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("scope", "first_block", name=op.f("pk_coverage")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "verified_block",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", "hash", name=op.f("pk_verified_block")),
        sqlite_with_rowid=False,
    )


def _make_dead_letters() -> None:
    op.create_table(
        "dead_letter",
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tx_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("log_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block_hash", sa.LargeBinary(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint(
            "block", "tx_index", "log_index", "block_hash", name=op.f("pk_dead_letter")
        ),
        sqlite_with_rowid=False,
    )


def _make_facts() -> None:
    op.create_table(
        "endpoint_fact",
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("endpoint", "name", name=op.f("pk_rpc_fact")),
        sqlite_with_rowid=False,
    )


def _make_halts() -> None:
    op.create_table(
        "halt",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since_block", sa.BigInteger(), nullable=False),
        sa.Column("since_time", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=True),
        sa.Column("our_hash", sa.LargeBinary(), nullable=True),
        sa.Column("their_hash", sa.LargeBinary(), nullable=True),
        sa.Column("cleared_time", sa.BigInteger(), nullable=True),
        sa.Column("cleared_by", sa.Text(), nullable=True),
        sa.Column("cleared_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_latch")),
    )
    op.create_index(
        "one_active_halt",
        "halt",
        ["name"],
        unique=True,
        sqlite_where=sa.text("cleared_time IS NULL"),
        postgresql_where=sa.text("cleared_time IS NULL"),
    )


def _make_reorgs() -> None:
    op.create_table(
        "reorg_log",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("ancestor", sa.BigInteger(), nullable=False),
        sa.Column("ancestor_hash", sa.LargeBinary(), nullable=False),
        sa.Column("old_tip", sa.BigInteger(), nullable=False),
        sa.Column("old_hash", sa.LargeBinary(), nullable=False),
        sa.Column("new_tip", sa.BigInteger(), nullable=True),
        sa.Column("new_hash", sa.LargeBinary(), nullable=True),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("endpoints", sa.Text(), nullable=False),
        sa.Column("logs_orphaned", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reorg_log")),
    )


def _each_node_pre_image(rewritten) -> None:
    """Rewrite what the undo journal holds of nodes: whole rows, in the order of the columns."""
    undo = sa.table(
        "undo", sa.column("block"), sa.column("kind"), sa.column("key"), sa.column("pre_image")
    )
    connection = op.get_bind()
    kept = connection.execute(
        sa.select(undo).where(undo.c.kind == "node", undo.c.pre_image.is_not(None))
    ).all()
    for block, kind, key, image in kept:
        changed = msgspec.msgpack.encode(rewritten(msgspec.msgpack.decode(image)))
        same = (undo.c.block == block) & (undo.c.kind == kind) & (undo.c.key == key)
        connection.execute(sa.update(undo).where(same).values(pre_image=changed))


def _cover_what_is_there() -> None:
    """Say of every block up to the cursor that it was read, and not how well."""
    op.get_bind().execute(
        sa.text(
            "INSERT INTO coverage (scope, first_block, last_block, level, endpoint) "
            "SELECT :nameless, identity.start_block, cursor.number, -1, '' "
            "FROM identity, cursor WHERE cursor.number >= identity.start_block"
        ),
        {"nameless": NAMELESS},
    )
