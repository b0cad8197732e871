"""What other reporters put their names to, as they told us (publishing.md 2.5)."""

from sqlalchemy import Connection, func, insert, select

from oracle.domain.ids import Address
from oracle.store.outbox.records import SignedStatement, Stamp
from oracle.store.outbox.row_mapping import statement_of, statement_row
from oracle.store.tables.statement_tables import pub_peer_statement


class PeerStatementRepository:
    """The table pub_peer_statement, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, statement: SignedStatement, source: str, stamp: Stamp) -> bool:
        """Keep a statement that was checked; `source` is the host it came from. False: known."""
        same = select(pub_peer_statement.c.id).where(
            pub_peer_statement.c.signer == statement.signer,
            pub_peer_statement.c.digest == statement.digest,
        )
        if self._connection.execute(same).first() is not None:
            return False
        told = {"source": source, "received_at": stamp.at}
        self._connection.execute(
            insert(pub_peer_statement).values(statement_row(statement) | told)
        )
        return True

    def told_since(self, like: SignedStatement, time: int) -> int:
        """Count what is kept of the same signer, round and subject, and came since a unix time."""
        counted = select(func.count()).where(
            pub_peer_statement.c.contract == like.contract,
            pub_peer_statement.c.kind == like.kind,
            pub_peer_statement.c.round == like.round,
            pub_peer_statement.c.subject == like.subject,
            pub_peer_statement.c.signer == like.signer,
            pub_peer_statement.c.received_at > time,
        )
        return int(self._connection.execute(counted).scalar_one())

    def of(
        self, contract: Address, kind: str, around: int, subject: str = ""
    ) -> list[SignedStatement]:
        """Return what peers signed for a round, the newest first; a signer may stand twice."""
        chosen = (
            select(pub_peer_statement)
            .where(
                pub_peer_statement.c.contract == contract,
                pub_peer_statement.c.kind == kind,
                pub_peer_statement.c.round == around,
                pub_peer_statement.c.subject == subject,
            )
            .order_by(pub_peer_statement.c.id.desc())
        )
        return [statement_of(row, None) for row in self._connection.execute(chosen)]
