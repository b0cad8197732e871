"""Tables of all reporters' signed statements, and of reasons not to sign.

Deadlines and `until` are chain time, `*_at` unix seconds by the caller's clock.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from oracle.store.tables.metadata import Hex, PartialIndex, metadata
from oracle.store.tables.outbox_tables import RowId


def _build_statement_columns() -> list[Column[Any]]:
    """Build the columns of a signed statement."""
    return [
        Column("id", RowId, primary_key=True),
        Column("chain_id", BigInteger, nullable=False),
        Column("contract", Hex, nullable=False),
        Column("signer", Hex, nullable=False),
        Column("round", BigInteger, nullable=False),
        Column("digest", Hex, nullable=False),
        Column("config", Hex, nullable=False),
        Column("prev", Hex, nullable=False),
        Column("as_of_block", BigInteger, nullable=False),
        Column("as_of_hash", Hex, nullable=False),
        Column("deadline", BigInteger, nullable=False),  # chain time
        Column("root", Hex, nullable=False),
        Column("signature", LargeBinary, nullable=False),
    ]


# Statements that this signer has signed. Two live statements for the same round would be
# equivocation.
pub_signature = Table(
    "pub_signature",
    metadata,
    *_build_statement_columns(),
    Column("expiry_reason", Text),
    Column("signed_at", BigInteger, nullable=False),
    UniqueConstraint("signer", "digest"),
    CheckConstraint(
        "expiry_reason IN"
        " ('expired', 'as_of_reorged', 'prev_reorged', 'round_taken', 'config_replaced')",
        name="expiry_reason",
    ),
)
PartialIndex(
    "one_live_signature",
    pub_signature.c.chain_id,
    pub_signature.c.contract,
    pub_signature.c.signer,
    pub_signature.c.round,
    unique=True,
    where="expiry_reason IS NULL",
)

# Statements of other reporters. Each is verified before it is stored.
pub_peer_statement = Table(
    "pub_peer_statement",
    metadata,
    *_build_statement_columns(),
    Column("source", Text, nullable=False),  # the host that sent it
    Column("received_at", BigInteger, nullable=False),
    UniqueConstraint("signer", "digest"),
)
Index(
    "peer_statement_round",
    pub_peer_statement.c.contract,
    pub_peer_statement.c.round,
)

# Signers whose database was lost. Such a signer signs nothing until the contract can no longer
# accept the statements in the lost database.
signing_embargo = Table(
    "signing_embargo",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("contract", Hex, primary_key=True),
    Column("signer", Hex, primary_key=True),
    Column("until", BigInteger, nullable=False),  # chain time
)

# Reports that the sanity gate holds until an operator releases them.
report_hold = Table(
    "report_hold",
    metadata,
    Column("period", BigInteger, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
    Column("facts", Text, nullable=False),  # JSON
    Column("held_at", BigInteger, nullable=False),
    Column("released_at", BigInteger),
    Column("released_by", Text),
)
