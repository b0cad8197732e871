"""Tables of the outbox and the lease (docs/explanation/transactions.md, daemon.md#lease).

An intent is a requested call, a slot is the nonce assigned to an intent, and an attempt is the
bytes signed for a nonce. The journal records every step. `*_at` are unix seconds by the caller's
clock, and the lease uses the database's clock. Deadlines and `not_before` are chain time.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from oracle.store.tables.metadata import Hex, PartialIndex, Wei, metadata

# On SQLite, row ids are assigned only if the key is declared INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")

# One row: the process that may write. `epoch` increases with every holder. Every write checks it,
# so that a former holder can no longer write.
lease = Table(
    "lease",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("holder", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),  # database clock
    CheckConstraint("id = 1", name="one_row"),
)

# One row: the health of the daemon that leads or last led (docs/explanation/health.md).
daemon_health = Table(
    "daemon_health",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("process", Text, nullable=False),  # as named in the lease
    Column("reported_ms", BigInteger, nullable=False),  # database clock, of the last report
    Column("findings", Text, nullable=False),  # JSON: [[condition, detail], …]
    Column("ended_ms", BigInteger),  # NULL if the daemon runs, or was killed
    Column("failure", Text),  # cause of the end; NULL if stopped by an operator
    CheckConstraint("id = 1", name="one_row"),
)

# One row per sending account. It is the only counter of the account's next nonce.
pub_account = Table(
    "pub_account",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("address", Hex, primary_key=True),
    Column("next_nonce", BigInteger, nullable=False),
    Column("paused", Boolean(create_constraint=False), nullable=False, default=False),
    Column("pause_reason", Text),
    Column("pause_class", Text),
    CheckConstraint("next_nonce >= 0", name="next_nonce"),
)

# A call that the daemon sends exactly once.
pub_intent = Table(
    "pub_intent",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("sender", Hex, nullable=False),
    Column("contract", Hex, nullable=False),
    Column("kind", Text, nullable=False),
    Column("dedup_key", Text, nullable=False),  # push:round=7:period=99
    Column("subject", Text, nullable=False, default=""),  # a node's address, or task=0x…
    Column("period", BigInteger),  # the report's, for pushes
    Column("round", BigInteger),
    Column("as_of_block", BigInteger),
    Column("as_of_hash", Hex),
    Column("digest", Hex),  # signed digest; the event names it
    Column("calldata", Hex, nullable=False),
    Column("gas_limit", BigInteger),
    Column("max_cost_wei", Wei),  # set when ready: gas limit times the highest fee
    Column("priority", SmallInteger, nullable=False, default=100),
    Column("not_before", BigInteger),
    Column("deadline", BigInteger),
    Column("state", Text, nullable=False),
    Column("nonce", BigInteger),
    Column("superseded_by", BigInteger, ForeignKey("pub_intent.id")),
    Column("error_class", Text),
    Column("error_text", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("replaces", BigInteger),  # the intent whose nonce this one took
    Column("yielded_at", BigInteger),  # when it yielded to another transmitter
    Column("exclusive_key", Text),  # push, accuse:0x…, start_task:task=0x…
    ForeignKeyConstraint(["chain_id", "sender"], ["pub_account.chain_id", "pub_account.address"]),
    UniqueConstraint("chain_id", "contract", "dedup_key"),
    CheckConstraint(
        "state IN ('planned', 'ready', 'assigned', 'live', 'mined', 'final', 'reverted', "
        "'superseded', 'cancelled', 'expired', 'rejected', 'held')",
        name="state",
    ),
    CheckConstraint(
        "state NOT IN ('assigned', 'live', 'mined', 'final', 'reverted') OR nonce IS NOT NULL",
        name="nonce_bound",
    ),
)

# At most one call per exclusive key is being prepared, for example one push, or one start of a
# task. This index does not cover calls that were sent. A reorg may make a mined call live again
# beside its successor, and the planner checks those calls. The index is per account, so that calls
# of a lost key do not block a new key.
_IN_PREPARATION = "exclusive_key IS NOT NULL AND state IN ('ready', 'assigned')"
PartialIndex(
    "one_exclusive_call",
    pub_intent.c.chain_id,
    pub_intent.c.sender,
    pub_intent.c.contract,
    pub_intent.c.exclusive_key,
    unique=True,
    where=_IN_PREPARATION,
)
# The index finds all intents of a nonce, to compare them and to add up the cost reserved for the
# nonce.
Index("intent_nonce", pub_intent.c.chain_id, pub_intent.c.sender, pub_intent.c.nonce)
_WORK = "state IN ('planned', 'ready', 'assigned', 'live', 'mined')"
PartialIndex(
    "intent_work",
    pub_intent.c.state,
    where=_WORK,
)

# A nonce, and the intent that the nonce currently serves.
pub_nonce = Table(
    "pub_nonce",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("sender", Hex, primary_key=True),
    Column("nonce", BigInteger, primary_key=True, autoincrement=False),
    Column("intent_id", BigInteger, ForeignKey("pub_intent.id"), nullable=False),
    Column("state", Text, nullable=False),
    Column("won_attempt", BigInteger),
    Column("block_number", BigInteger),
    Column("block_hash", Hex),
    Column("receipt_status", SmallInteger),
    Column("gas_used", BigInteger),
    Column("gas_price_wei", Wei),
    Column("opened_at", BigInteger, nullable=False),
    Column("last_bump_at", BigInteger),
    Column("finalised_at", BigInteger),
    # Head of the chain when the slot was opened (0 if unknown), and when it was last bumped. The
    # time until a bump is counted in blocks.
    Column("opened_block", BigInteger, nullable=False, server_default="0"),
    Column("last_bump_block", BigInteger),
    Column("mined_at", BigInteger),
    Column("l1_fee_wei", Wei),  # data fee of a rollup, paid in addition to gas
    CheckConstraint("state IN ('open', 'live', 'mined', 'final', 'foreign')", name="state"),
)
_NONCE_WORK = "state IN ('open', 'live', 'mined')"
PartialIndex(
    "nonce_work",
    pub_nonce.c.chain_id,
    pub_nonce.c.sender,
    pub_nonce.c.nonce,
    where=_NONCE_WORK,
)
# The index finds the slots of the last hour and day. Their cost counts against the budgets.
Index("nonce_opened", pub_nonce.c.chain_id, pub_nonce.c.sender, pub_nonce.c.opened_at)
_BUMPED = "last_bump_at IS NOT NULL"
PartialIndex(
    "nonce_bumped",
    pub_nonce.c.chain_id,
    pub_nonce.c.sender,
    pub_nonce.c.last_bump_at,
    where=_BUMPED,
)

# Signed transactions. They are stored before they are sent, and are never changed or signed again.
pub_attempt = Table(
    "pub_attempt",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("sender", Hex, nullable=False),
    Column("nonce", BigInteger, nullable=False),
    Column("intent_id", BigInteger, ForeignKey("pub_intent.id"), nullable=False),
    Column("seq", SmallInteger, nullable=False),
    Column("tx_hash", Hex, nullable=False, unique=True),
    Column("raw_tx", LargeBinary, nullable=False),
    Column("tx_type", SmallInteger, nullable=False),
    Column("max_fee_wei", Wei, nullable=False),
    Column("tip_wei", Wei, nullable=False),
    Column("gas_limit", BigInteger, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("signed_at", BigInteger, nullable=False),
    Column("first_sent_at", BigInteger),
    Column("last_sent_at", BigInteger),
    Column("last_sent_block", BigInteger),  # chain head then; resends are counted in blocks
    Column("sends", Integer, nullable=False, default=0),
    Column("last_error_class", Text),
    Column("last_error_text", Text),
    Column("reason", Text, nullable=False, server_default="first"),
    Column("first_sent_block", BigInteger),
    ForeignKeyConstraint(
        ["chain_id", "sender", "nonce"],
        ["pub_nonce.chain_id", "pub_nonce.sender", "pub_nonce.nonce"],
    ),
    UniqueConstraint("chain_id", "sender", "nonce", "seq"),
)

# One row for every change of the outbox, written in the same transaction as the change.
pub_journal = Table(
    "pub_journal",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("intent_id", BigInteger, index=True),
    Column("nonce", BigInteger),
    Column("attempt_id", BigInteger),
    Column("event", Text, nullable=False),
    Column("detail", Text, nullable=False, default=""),
    Column("lease_epoch", BigInteger),
    Column("actor", Text),  # the OS user of a command; NULL for the daemon
)
