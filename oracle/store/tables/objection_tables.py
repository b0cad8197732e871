"""Tables of objections to kickouts, and of the operator's answers to them."""

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, SmallInteger, Table, Text

from oracle.store.tables.metadata import metadata

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
    sqlite_with_rowid=False,
)
