"""Tables of objections to kickouts, posted objections, and the operator's answers."""

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, SmallInteger, Table, Text

from oracle.store.tables.metadata import metadata
from oracle.store.tables.outbox_tables import RowId

# Objections of nodes to their kickouts. They are folded from the events of the contract
# `Objections`.
objection = Table(
    "objection",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    *(
        Column(name, BigInteger, nullable=False, index=name == "block")
        for name in ("block", "tx", "log", "sub")
    ),
    Column("time", BigInteger, nullable=False),
    Column("due_since", BigInteger, nullable=False),  # start of the kickout interval, unix seconds
    Column("reason", SmallInteger, nullable=False),
    Column("text", Text, nullable=False),  # untrusted text
    sqlite_with_rowid=False,
)

# This reporter's answer to the objections to one kickout. It is not derived from the chain.
objection_answer = Table(
    "objection_answer",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("due_since", BigInteger, primary_key=True, autoincrement=False),
    Column("is_accepted", Boolean, nullable=False),
    Column("because", Text, nullable=False),
    Column("answered_at", BigInteger, nullable=False),  # unix seconds
    Column("signer", LargeBinary),  # NULL if not signed
    Column("signature", LargeBinary),
    sqlite_with_rowid=False,
)

# Signed objections that were posted to the read API. This reporter submits them.
objection_inbox = Table(
    "objection_inbox",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("node", LargeBinary, nullable=False, index=True),
    Column("seq", BigInteger, nullable=False),
    Column("due_since", BigInteger, nullable=False),  # start of the kickout interval, unix seconds
    Column("reason", SmallInteger, nullable=False),
    Column("text", LargeBinary, nullable=False),  # untrusted UTF-8 text, as signed
    Column("deadline", BigInteger, nullable=False),  # chain time
    Column("signature", LargeBinary, nullable=False),
    Column("reserved_gas", BigInteger, nullable=False),  # counts against objections.daily_gas
    # Unix seconds by the server's clock.
    Column("received_at", BigInteger, nullable=False, index=True),
    Column("intent_id", BigInteger),  # the call that submits it; NULL if not planned yet
    Column("ended_at", BigInteger),  # unix seconds by the daemon's clock; NULL if it waits
    Column("ended_reason", Text),  # why it was not submitted; NULL if it waits, or is on the chain
)
