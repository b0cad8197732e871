"""What every system of the sources needs: rule sets that scored, draws, starts of tasks.

Revision 0002, after 0001. One transaction on both databases. Nothing that was folded changes: the
legacy rules' own columns are empty where no legacy rules folded, and the scores of a database
name the rules that folded it.
"""

import hashlib

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The rule sets that a program of revision 0001 could fold by, each with either way to close.
RULES = (
    '{"absent_score":0,"boost":"0.15","close":"validated","creator_timeout_rejects_group":false,'
    '"exclude_enter":"0.1","exclude_exit":"0.1","first_penalty":null,"first_penalty_from":"1",'
    '"group_size":3,"kickout_below":2,"kickout_clears_pool":true,"name":"seed",'
    '"new_node_long_term":"0.5","penalty":"0.3","pool_size":50,"pool_zero_only_on_timeout":false,'
    '"q_max":10,"rank_scores":[10,5,2],"rejoin_floor":null,"reseed_copies":0,"restarts":[],'
    '"tau_seconds":1800,"version":1,"zero_mean_is_new":false}',
    '{"absent_score":0,"boost":"0.15","close":"validated","creator_timeout_rejects_group":true,'
    '"exclude_enter":"0.2","exclude_exit":"0.8","first_penalty":"0.95","first_penalty_from":"0.99",'
    '"group_size":3,"kickout_below":2,"kickout_clears_pool":false,"name":"relay",'
    '"new_node_long_term":"0.5","penalty":"0.3","pool_size":50,"pool_zero_only_on_timeout":true,'
    '"q_max":10,"rank_scores":[10,5,2],"rejoin_floor":"0.3","reseed_copies":49,"restarts":[],'
    '"tau_seconds":1800,"version":1,"zero_mean_is_new":true}',
)
# What the columns that `node` gains stand at.
NODE_COLUMNS = {
    "window": 0,
    "window_sum": 0,
    "window_count": 0,
    "online_since": None,
    "online_seconds": 0,
}
OLD_KINDS = "'push', 'propose_kick', 'execute_kick', 'cancel_kick', 'noop'"
NEW_KINDS = (
    "'push', 'propose_kick', 'execute_kick', 'cancel_kick', 'start_task', 'queue_task', "
    "'drop_task', 'noop'"
)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

UNFINISHED = "('ready', 'assigned', 'live', 'mined')"
LIVE_KICK = f"kind IN ('propose_kick', 'execute_kick', 'cancel_kick') AND state IN {UNFINISHED}"
LIVE_START = "kind = 'start_task' AND state IN ('ready', 'assigned')"
OPEN_PUSH = "kind = 'push' AND state IN ('ready', 'assigned')"
WORK = "state IN ('planned', 'ready', 'assigned', 'live', 'mined')"


def upgrade() -> None:
    _make_rule_sets()
    _widen_nodes()
    _make_draws()
    _index(
        "waiting_task",
        "task",
        ["created_at"],
        "created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL",
    )
    _index(
        "unscored_task",
        "task",
        ["task_group"],
        "task_group IS NOT NULL AND scored_in IS NULL",
    )
    _take_kinds(NEW_KINDS)
    _index(
        "one_live_start",
        "pub_intent",
        ["chain_id", "sender", "contract", "subject"],
        LIVE_START,
        unique=True,
    )


def downgrade() -> None:
    op.drop_index("one_live_start", "pub_intent")
    _take_kinds(OLD_KINDS)
    op.drop_index("unscored_task", "task")
    op.drop_index("waiting_task", "task")
    op.drop_table("draw")
    _each_node_pre_image(lambda row: row[: -len(NODE_COLUMNS)])
    for name in reversed(NODE_COLUMNS):
        op.drop_column("node", name)
    op.drop_column("score", "rule_set")
    op.drop_table("rule_set")


def _make_rule_sets() -> None:
    op.create_table(
        "rule_set",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rule_set")),
        sa.UniqueConstraint("sha256", name=op.f("uq_rule_set_sha256")),
    )
    op.add_column("score", sa.Column("rule_set", sa.SmallInteger(), nullable=True))
    connection = op.get_bind()
    sign = connection.execute(
        sa.text("SELECT value FROM progress WHERE name = 'folded_by_rules'")
    ).scalar()
    texts = {text for rules in RULES for text in (rules, rules.replace("validated", "terminal"))}
    for text in texts:
        digest, name = hashlib.sha256(text.encode()), msgspec.json.decode(text)["name"]
        if sign == f"{name} {digest.hexdigest()}":
            connection.execute(
                sa.text("INSERT INTO rule_set VALUES (1, :name, 1, :digest, :text)"),
                {"name": name, "digest": digest.digest(), "text": text},
            )
            connection.execute(sa.text("UPDATE score SET rule_set = 1"))


def _widen_nodes() -> None:
    for name, value in NODE_COLUMNS.items():
        default = None if value is None else sa.text(str(value))
        column = sa.Column(name, sa.BigInteger(), nullable=value is None, server_default=default)
        op.add_column("node", column)
    _each_node_pre_image(lambda row: [*row, *NODE_COLUMNS.values()])


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


def _make_draws() -> None:
    op.create_table(
        "draw",
        sa.Column("task", sa.LargeBinary(), nullable=False),
        sa.Column("seed_block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seed_hash", sa.LargeBinary(), nullable=False),
        sa.Column("node", sa.LargeBinary(), nullable=False),
        sa.Column("voided_block", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("task", "seed_block", name=op.f("pk_draw")),
        sqlite_with_rowid=False,
    )
    for name in ("seed_block", "voided_block"):
        op.create_index(op.f(f"ix_draw_{name}"), "draw", [name], unique=False)
    _index("active_draw", "draw", ["task"], "voided_block IS NULL", unique=True)


def _take_kinds(kinds: str) -> None:
    """Say anew which kinds an intent may have."""
    if op.get_bind().dialect.name != "sqlite":
        op.drop_constraint(op.f("ck_pub_intent_kind"), "pub_intent")
        op.create_check_constraint(op.f("ck_pub_intent_kind"), "pub_intent", f"kind IN ({kinds})")
        return
    # SQLite cannot change a constraint: the table is made anew, in this transaction. What refers
    # to it is without its row meanwhile, and judged at the commit.
    op.execute("PRAGMA defer_foreign_keys = ON")
    op.execute("CREATE TABLE kept_intent AS SELECT * FROM pub_intent")
    op.drop_table("pub_intent")
    _make_intents(kinds)
    op.execute("INSERT INTO pub_intent SELECT * FROM kept_intent")
    op.drop_table("kept_intent")
    _index("intent_work", "pub_intent", ["state"], WORK)
    _index(
        "one_live_kick",
        "pub_intent",
        ["chain_id", "contract", "kind", "subject"],
        LIVE_KICK,
        unique=True,
    )
    _index("one_open_push", "pub_intent", ["chain_id", "contract"], OPEN_PUSH, unique=True)


def _make_intents(kinds: str) -> None:
    op.create_table(
        "pub_intent",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("sender", sa.LargeBinary(), nullable=False),
        sa.Column("contract", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dedup_key", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("period", sa.BigInteger(), nullable=True),
        sa.Column("round", sa.BigInteger(), nullable=True),
        sa.Column("as_of_block", sa.BigInteger(), nullable=True),
        sa.Column("as_of_hash", sa.LargeBinary(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column("calldata", sa.LargeBinary(), nullable=False),
        sa.Column("gas_limit", sa.BigInteger(), nullable=True),
        sa.Column("max_cost_wei", sa.LargeBinary(), nullable=True),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("deadline", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=True),
        sa.Column("superseded_by", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(f"kind IN ({kinds})", name=op.f("ck_pub_intent_kind")),
        sa.CheckConstraint(
            "state IN ('planned', 'ready', 'assigned', 'live', 'mined', 'final', 'reverted', 'superseded', 'cancelled', 'expired', 'rejected', 'held')",
            name=op.f("ck_pub_intent_state"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('assigned', 'live', 'mined', 'final', 'reverted') OR nonce IS NOT NULL",
            name=op.f("ck_pub_intent_nonce_bound"),
        ),
        sa.ForeignKeyConstraint(
            ["chain_id", "sender"],
            ["pub_account.chain_id", "pub_account.address"],
            name=op.f("fk_pub_intent_chain_id_sender"),
        ),
        sa.ForeignKeyConstraint(
            ["superseded_by"], ["pub_intent.id"], name=op.f("fk_pub_intent_superseded_by")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pub_intent")),
        sa.UniqueConstraint(
            "chain_id",
            "contract",
            "dedup_key",
            name=op.f("uq_pub_intent_chain_id_contract_dedup_key"),
        ),
    )


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    """Make an index of some of the rows."""
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )
