"""What the signer put its name to: one live statement for each round and subject.

A second one for the same round is written only after the first can no longer land.
"""

from sqlalchemy import Connection, insert, select, update

from oracle.domain.ids import Hash
from oracle.store.outbox_journal import Journal
from oracle.store.outbox_rows import About, SignedStatement, Stamp
from oracle.store.outbox_tables import pub_signature


class Signatures:
    """The table pub_signature, inside one transaction."""

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
            pub_signature.c.dead_why.is_(None),
        )
        row = self._connection.execute(chosen).one_or_none()
        if row is None:
            return None
        return SignedStatement(
            chain_id=row.chain_id,
            contract=row.contract,
            signer=row.signer,
            kind=row.kind,
            round=row.round,
            subject=row.subject,
            digest=Hash(row.digest),
            signature=bytes(row.signature),
            expires_at=row.expires_at,
            prev_digest=row.prev_digest,
            as_of_block=row.as_of_block,
            as_of_hash=row.as_of_hash,
        )

    def add(self, statement: SignedStatement, stamp: Stamp) -> None:
        """Write a signature down before it is used.

        Raises:
            sqlalchemy.exc.IntegrityError: another statement of this round is live.
        """
        self._connection.execute(
            insert(pub_signature).values(
                chain_id=statement.chain_id,
                contract=statement.contract,
                signer=statement.signer,
                kind=statement.kind,
                round=statement.round,
                subject=statement.subject,
                digest=statement.digest,
                prev_digest=statement.prev_digest,
                as_of_block=statement.as_of_block,
                as_of_hash=statement.as_of_hash,
                expires_at=statement.expires_at,
                signature=statement.signature,
                signed_at=stamp.at,
            )
        )
        self._journal.write(
            "stated", stamp, About(), f"{statement.kind} {statement.round} {statement.digest}"
        )

    def bury(self, digest: Hash, why: str, stamp: Stamp) -> None:
        """Mark a statement as one that can no longer land.

        `why`: `expired`, `anchor_reorged`, `prev_reorged` or `round_taken`.
        """
        self._connection.execute(
            update(pub_signature).where(pub_signature.c.digest == digest).values(dead_why=why)
        )
        self._journal.write("buried", stamp, About(), f"{digest} {why}")
