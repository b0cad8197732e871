"""Tables of objections to kickouts, of posted ones, and of the operator's answers."""

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, SmallInteger, Table, Text

from oracle.store.tables.metadata import metadata
from oracle.store.tables.outbox_tables import RowId

# Objections of nodes to their kickouts, folded from the events of the contract `Objections`.
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
    Column("due_since", BigInteger, nullable=False),  # of the kickout, unix seconds
    Column("reason", SmallInteger, nullable=False),
    Column("words", Text, nullable=False),  # of a stranger
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
    Column("signer", LargeBinary),  # NULL: not signed
    Column("signature", LargeBinary),
    sqlite_with_rowid=False,
)

# Signed objections that were posted to the read API, and that this reporter brings on the chain.
objection_inbox = Table(
    "objection_inbox",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("node", LargeBinary, nullable=False, index=True),
    Column("seq", BigInteger, nullable=False),
    Column("due_since", BigInteger, nullable=False),  # of the kickout, unix seconds
    Column("reason", SmallInteger, nullable=False),
    Column("words", LargeBinary, nullable=False),  # as signed, of a stranger; UTF-8
    Column("deadline", BigInteger, nullable=False),  # chain time
    Column("signature", LargeBinary, nullable=False),
    # Unix seconds by the server's clock.
    Column("received_at", BigInteger, nullable=False, index=True),
    Column("intent_id", BigInteger),  # the call that brings it; NULL: not planned yet
    Column("ended_at", BigInteger),  # unix seconds by the daemon's clock; NULL: it waits
    Column("ended_reason", Text),  # why it was not brought; NULL: it waits, or is on the chain
)
