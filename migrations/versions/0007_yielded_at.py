"""When a call was left to another transmitter: that happens once, and no text has to tell it.

Revision 0007, after 0005. One transaction on both databases. Of calls that were left before it is
not known: they may be left once more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pub_intent", sa.Column("yielded_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("pub_intent", "yielded_at")
