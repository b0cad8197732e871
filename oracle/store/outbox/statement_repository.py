"""Stores signed statements, of which one per signer and round may be live.

A statement is live while the contract may still accept it. Another statement for the same round is
stored only after the first one has expired.
"""

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from oracle.domain.ids import Address, Hash
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import SignedStatement, Stamp
from oracle.store.outbox.row_mapping import decode_statement_row, encode_statement_row
from oracle.store.tables.statement_tables import pub_peer_statement, pub_signature, signing_embargo


class SignatureRepository:
    """Access to the tables pub_signature and signing_embargo, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._journal = Journal(connection)

    def find_live(self, statement: SignedStatement) -> SignedStatement | None:
        """Return the live statement with this signer and round, or None if there is none."""
        query = select(pub_signature).where(
            pub_signature.c.chain_id == statement.chain_id,
            pub_signature.c.contract == statement.contract,
            pub_signature.c.signer == statement.signer,
            pub_signature.c.round == statement.round,
            pub_signature.c.expiry_reason.is_(None),
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else decode_statement_row(row, row.expiry_reason)

    def list_for_round(self, contract: Address, round_number: int) -> list[SignedStatement]:
        """Return all statements signed for a round, even expired ones, newest first."""
        query = (
            select(pub_signature)
            .where(
                pub_signature.c.contract == contract,
                pub_signature.c.round == round_number,
            )
            .order_by(pub_signature.c.id.desc())
        )
        return [
            decode_statement_row(row, row.expiry_reason) for row in self._connection.execute(query)
        ]

    def add(self, statement: SignedStatement, stamp: Stamp) -> None:
        """Store a signature before it is used.

        If an expired statement is signed again, it becomes live again. This happens if the chain
        returns to the fork on which the contract can accept the statement.

        Raises:
            sqlalchemy.exc.IntegrityError: another statement of this round is live.
        """
        revive_statement = (
            update(pub_signature)
            .where(
                pub_signature.c.signer == statement.signer,
                pub_signature.c.digest == statement.digest,
                pub_signature.c.expiry_reason.is_not(None),
            )
            .values(expiry_reason=None)
        )
        if self._connection.execute(revive_statement).rowcount == 0:
            self._connection.execute(
                insert(pub_signature).values(
                    encode_statement_row(statement) | {"signed_at": stamp.at}
                )
            )
        self._journal.write("stated", stamp, f"round {statement.round} {statement.digest}")

    def mark_expired(self, digest: Hash, reason: str, stamp: Stamp) -> None:
        """Mark a statement as expired when the contract can no longer accept it.

        `reason` is `expired`, `as_of_reorged`, `prev_reorged`, `round_taken` or `config_replaced`.
        """
        self._connection.execute(
            update(pub_signature)
            .where(pub_signature.c.digest == digest)
            .values(expiry_reason=reason)
        )
        self._journal.write("expired", stamp, f"{digest} {reason}")

    def extend_embargo(
        self, chain_id: int, contract: Address, signer: Address, until: int, stamp: Stamp
    ) -> None:
        """Forbid signing before block time `until`.

        Until then, statements that this database has lost may still land. An earlier embargo that
        ends later is kept.
        """
        stored_embargo_end = self.find_embargo_end(chain_id, contract, signer)
        row = {"chain_id": chain_id, "contract": contract, "signer": signer, "until": until}
        if stored_embargo_end is None:
            self._connection.execute(insert(signing_embargo).values(row))
        elif stored_embargo_end < until:
            is_this_embargo = _build_embargo_condition(chain_id, contract, signer)
            self._connection.execute(
                update(signing_embargo).where(is_this_embargo).values(until=until)
            )
        self._journal.write("embargoed", stamp, f"{signer} until {until}")

    def find_embargo_end(self, chain_id: int, contract: Address, signer: Address) -> int | None:
        """Return the block time before which the signer must not sign, or None."""
        query = select(signing_embargo.c.until).where(
            _build_embargo_condition(chain_id, contract, signer)
        )
        return self._connection.execute(query).scalar_one_or_none()


def _build_embargo_condition(
    chain_id: int, contract: Address, signer: Address
) -> ColumnElement[bool]:
    return and_(
        signing_embargo.c.chain_id == chain_id,
        signing_embargo.c.contract == contract,
        signing_embargo.c.signer == signer,
    )


class PeerStatementRepository:
    """Access to the table pub_peer_statement, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, statement: SignedStatement, source: str, stamp: Stamp) -> bool:
        """Store a verified statement from host `source`, or return False if it is stored."""
        query = select(pub_peer_statement.c.id).where(
            pub_peer_statement.c.signer == statement.signer,
            pub_peer_statement.c.digest == statement.digest,
        )
        if self._connection.execute(query).first() is not None:
            return False
        source_values = {"source": source, "received_at": stamp.at}
        self._connection.execute(
            insert(pub_peer_statement).values(encode_statement_row(statement) | source_values)
        )
        return True

    def count_received_since(self, statement: SignedStatement, time: int) -> int:
        """Count the statements received after `time` with this signer and round.

        `time` is in unix seconds.
        """
        count_query = select(func.count()).where(
            pub_peer_statement.c.contract == statement.contract,
            pub_peer_statement.c.round == statement.round,
            pub_peer_statement.c.signer == statement.signer,
            pub_peer_statement.c.received_at > time,
        )
        return int(self._connection.execute(count_query).scalar_one())

    def list_for_round(self, contract: Address, round_number: int) -> list[SignedStatement]:
        """Return the peers' statements for a round, newest first.

        A signer may occur twice.
        """
        query = (
            select(pub_peer_statement)
            .where(
                pub_peer_statement.c.contract == contract,
                pub_peer_statement.c.round == round_number,
            )
            .order_by(pub_peer_statement.c.id.desc())
        )
        return [decode_statement_row(row, None) for row in self._connection.execute(query)]
