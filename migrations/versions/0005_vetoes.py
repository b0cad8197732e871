"""Who may veto a kickout, as the contract's events name it; what a rollup took for data.

Revision 0005, after 0004. One transaction on both databases. The fold tells a veto from the
cancellation of a dead kickout since its version 3: the next `run` reads the events that name the
vetoer, and folds everything anew, so that nothing is put into the new table here. What was paid
for data before is not known: it stays out of the sums.
"""

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "vetoer",
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("log", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sub", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("block", "tx", "log", "sub", name=op.f("pk_vetoer")),
    )
    op.add_column("pub_nonce", sa.Column("l1_fee_wei", sa.LargeBinary(), nullable=True))
    # Also where a program of today folded it, before a downgrade took the vetoes away.
    op.execute("UPDATE progress SET value = '2' WHERE name = 'folded_by_version'")


def downgrade() -> None:
    # An older program knows one kind of cancellation, and takes it for a veto.
    op.execute("UPDATE kick SET state = 'cancelled' WHERE state = 'vetoed'")
    _forget_vetoes_in_the_journal()
    op.drop_table("vetoer")
    op.drop_column("pub_nonce", "l1_fee_wei")


def _forget_vetoes_in_the_journal() -> None:
    undo = sa.table("undo", *map(sa.column, ("block", "kind", "key", "pre_image")))
    connection = op.get_bind()
    chosen = sa.select(undo).where(undo.c.kind == "kick", undo.c.pre_image.is_not(None))
    for row in connection.execute(chosen).all():
        *before, state = msgspec.msgpack.decode(row.pre_image)
        if state != "vetoed":
            continue
        image = msgspec.msgpack.encode([*before, "cancelled"])
        mine = (undo.c.block == row.block, undo.c.kind == row.kind, undo.c.key == row.key)
        connection.execute(undo.update().where(*mine).values(pre_image=image))
