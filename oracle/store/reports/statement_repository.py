"""Signed statements: at most one live statement for each round and subject.

Another statement for the same round is stored only after the first can no longer land.
"""

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from oracle.domain.ids import Address, Hash
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import JournalSubject, SignedStatement, Stamp
from oracle.store.outbox.row_mapping import statement_of, statement_row
from oracle.store.tables.statement_tables import pub_peer_statement, pub_signature, signing_embargo


class Signatures:
    """The tables pub_signature and signing_embargo, inside one transaction."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def live(self, wanted: SignedStatement) -> SignedStatement | None:
        """Return the live statement of the same signer, kind, round and subject."""
        chosen = select(pub_signature).where(
            pub_signature.c.chain_id == wanted.chain_id,
            pub_signature.c.contract == wanted.contract,
            pub_signature.c.signer == wanted.signer,
            pub_signature.c.kind == wanted.kind,
            pub_signature.c.round == wanted.round,
            pub_signature.c.subject == wanted.subject,
            pub_signature.c.expiry_reason.is_(None),
        )
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else statement_of(row, row.expiry_reason)

    def of_round(
        self, contract: Address, kind: str, around: int, subject: str = ""
    ) -> list[SignedStatement]:
        """Return the statements signed for a round, newest first, expired ones included."""
        chosen = (
            select(pub_signature)
            .where(
                pub_signature.c.contract == contract,
                pub_signature.c.kind == kind,
                pub_signature.c.round == around,
                pub_signature.c.subject == subject,
            )
            .order_by(pub_signature.c.id.desc())
        )
        return [statement_of(row, row.expiry_reason) for row in self._connection.execute(chosen)]

    def add(self, statement: SignedStatement, stamp: Stamp) -> None:
        """Store a signature before it is used.

        An expired statement signed again becomes live again, because a fork may return.

        Raises:
            sqlalchemy.exc.IntegrityError: another statement of this round is live.
        """
        again = (
            update(pub_signature)
            .where(
                pub_signature.c.signer == statement.signer,
                pub_signature.c.digest == statement.digest,
                pub_signature.c.expiry_reason.is_not(None),
            )
            .values(expiry_reason=None)
        )
        if self._connection.execute(again).rowcount == 0:
            self._connection.execute(
                insert(pub_signature).values(statement_row(statement) | {"signed_at": stamp.at})
            )
        self._journal.write(
            "stated",
            stamp,
            JournalSubject(),
            f"{statement.kind} {statement.round} {statement.digest}",
        )

    def mark_expired(self, digest: Hash, why: str, stamp: Stamp) -> None:
        """Mark a statement as one that can no longer land.

        `reason` is `expired`, `as_of_reorged`, `prev_reorged`, `round_taken` or `config_replaced`.
        """
        self._connection.execute(
            update(pub_signature).where(pub_signature.c.digest == digest).values(expiry_reason=why)
        )
        self._journal.write("expired", stamp, JournalSubject(), f"{digest} {why}")

    def embargo(
        self, chain_id: int, contract: Address, signer: Address, until: int, stamp: Stamp
    ) -> None:
        """Sign nothing before `until` (chain time): lost statements may still land.

        A later stored end is kept.
        """
        present = self.embargoed_until(chain_id, contract, signer)
        row = {"chain_id": chain_id, "contract": contract, "signer": signer, "until": until}
        if present is None:
            self._connection.execute(insert(signing_embargo).values(row))
        elif present < until:
            mine = _embargo_of(chain_id, contract, signer)
            self._connection.execute(update(signing_embargo).where(mine).values(until=until))
        self._journal.write("embargoed", stamp, JournalSubject(), f"{signer} until {until}")

    def embargoed_until(self, chain_id: int, contract: Address, signer: Address) -> int | None:
        """Return the chain time before which this signer signs nothing, or None."""
        chosen = select(signing_embargo.c.until).where(_embargo_of(chain_id, contract, signer))
        return self._connection.execute(chosen).scalar_one_or_none()


def _embargo_of(chain_id: int, contract: Address, signer: Address) -> ColumnElement[bool]:
    return and_(
        signing_embargo.c.chain_id == chain_id,
        signing_embargo.c.contract == contract,
        signing_embargo.c.signer == signer,
    )


class PeerStatementRepository:
    """The table pub_peer_statement, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, statement: SignedStatement, source: str, stamp: Stamp) -> bool:
        """Store a verified statement from host `source`; return False if it is stored already."""
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
        """Count the statements of the same signer, round and subject received since a time.

        `time` is in unix seconds.
        """
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
        """Return the statements of peers for a round, newest first; a signer may occur twice."""
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
