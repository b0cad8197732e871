"""Kinds of calls are the program's to name; of the calls of one key one at a time is got ready.

Revision 0006, after 0005. One transaction on both databases. The three indexes that named kinds
become one on a column that the planner of a call fills; what was planned before gets its key here.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KINDS = (
    "'push', 'propose_kick', 'execute_kick', 'cancel_kick', 'start_task', 'queue_task', "
    "'drop_task', 'noop', 'rebuilt'"
)
KICKS = "'propose_kick', 'execute_kick', 'cancel_kick'"
STATES = "state IN ('ready', 'assigned')"
KIND_CHECK = re.compile(r"\s*CONSTRAINT ck_pub_intent_kind CHECK \(kind IN \([^)]*\)\),")
STATE_CHECK = "CONSTRAINT ck_pub_intent_state"
ACCOUNT = ["chain_id", "sender", "contract"]
OLD_INDEXES = (
    ("one_open_push", ACCOUNT, f"kind = 'push' AND {STATES}"),
    ("one_live_kick", [*ACCOUNT, "kind", "subject"], f"kind IN ({KICKS}) AND {STATES}"),
    ("one_live_start", [*ACCOUNT, "subject"], f"kind = 'start_task' AND {STATES}"),
)
NEW_INDEX = (
    "one_got_ready",
    [*ACCOUNT, "exclusive_key"],
    f"exclusive_key IS NOT NULL AND {STATES}",
)


def upgrade() -> None:
    for name, _, _ in OLD_INDEXES:
        op.drop_index(name, "pub_intent")
    if op.get_bind().dialect.name == "sqlite":
        _make_anew(lambda table: KIND_CHECK.sub("", table))
    else:
        op.drop_constraint(op.f("ck_pub_intent_kind"), "pub_intent")
    op.add_column("pub_intent", sa.Column("exclusive_key", sa.Text(), nullable=True))
    op.execute("UPDATE pub_intent SET exclusive_key = 'push' WHERE kind = 'push'")
    op.execute(
        "UPDATE pub_intent SET exclusive_key = kind || ':' || subject "
        f"WHERE kind IN ({KICKS}, 'start_task')"
    )
    _index(*NEW_INDEX)


def downgrade() -> None:
    op.drop_index("one_got_ready", "pub_intent")
    op.drop_column("pub_intent", "exclusive_key")
    # To an older program a call that it does not know is one that did nothing.
    op.execute(f"UPDATE pub_intent SET kind = 'noop' WHERE kind NOT IN ({KINDS})")
    check = f"kind IN ({KINDS})"
    if op.get_bind().dialect.name == "sqlite":
        with_check = f"CONSTRAINT ck_pub_intent_kind CHECK ({check}), \n\t{STATE_CHECK}"
        _make_anew(lambda table: table.replace(STATE_CHECK, with_check))
    else:
        op.create_check_constraint(op.f("ck_pub_intent_kind"), "pub_intent", check)
    for index in OLD_INDEXES:
        _index(*index)


def _index(name: str, columns: list[str], where: str) -> None:
    rows = sa.text(where)
    op.create_index(
        name, "pub_intent", columns, unique=True, sqlite_where=rows, postgresql_where=rows
    )


def _make_anew(changed) -> None:
    """Change a constraint where SQLite cannot: the table is made anew, in this transaction.

    What refers to it is without its row meanwhile, and judged at the commit.
    """
    connection = op.get_bind()
    parts = connection.execute(
        sa.text(
            "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'pub_intent' AND sql IS NOT NULL"
        )
    ).all()
    (table,) = (text for kind, text in parts if kind == "table")
    op.execute("PRAGMA defer_foreign_keys = ON")
    op.execute("CREATE TABLE kept_intent AS SELECT * FROM pub_intent")
    op.drop_table("pub_intent")
    connection.exec_driver_sql(changed(table))
    op.execute("INSERT INTO pub_intent SELECT * FROM kept_intent")
    op.drop_table("kept_intent")
    for kind, text in parts:
        if kind == "index":
            connection.exec_driver_sql(text)
