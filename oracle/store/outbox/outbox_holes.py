"""Nonces that were adopted while they waited in a pool: one that never lands holds all behind it.

Nothing of this database was ever signed for them.
"""

from sqlalchemy import ColumnElement, Connection, exists, select, update

from oracle.errors import FatalError
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.nonce_queries import of_account
from oracle.store.outbox.records import Account, JournalSubject, NonceState, Stamp
from oracle.store.tables.outbox_tables import pub_attempt, pub_slot


class NonceGaps:
    """Slots that are over without a block, inside one transaction."""

    def __init__(self, connection: Connection, journal: Journal) -> None:
        self._connection = connection
        self._journal = journal

    def of(self, account: Account, from_nonce: int) -> list[int]:
        """Return the adopted nonces from this one on that are in no block we know of.

        Whoever asks gives the number of transactions that the chain and its pools have: from
        there on nobody has them.
        """
        chosen = (
            select(pub_slot.c.nonce)
            .where(_unseen(account), pub_slot.c.nonce >= from_nonce)
            .order_by(pub_slot.c.nonce)
        )
        return [nonce for (nonce,) in self._connection.execute(chosen)]

    def reopen(self, account: Account, nonce: int, stamp: Stamp) -> None:
        """Make a nonce vacant: the next call of the account takes it.

        Raises:
            FatalError: it was not adopted, or is in a block, or something was signed for it.
        """
        opened = (
            update(pub_slot)
            .where(_unseen(account), pub_slot.c.nonce == nonce)
            .values(state=NonceState.OPEN.value, opened_at=stamp.at, finalised_at=None)
            .returning(pub_slot.c.intent_id)
        )
        intent_id = self._connection.execute(opened).scalar_one_or_none()
        if intent_id is None:
            raise FatalError(f"outbox nonce {nonce} is no adopted one that waits for a block")
        self._journal.write("reopened", stamp, JournalSubject(int(intent_id), nonce))


def _unseen(account: Account) -> ColumnElement[bool]:
    signed = exists().where(
        pub_attempt.c.chain_id == pub_slot.c.chain_id,
        pub_attempt.c.sender == pub_slot.c.sender,
        pub_attempt.c.nonce == pub_slot.c.nonce,
    )
    is_over = pub_slot.c.state == NonceState.FINAL.value
    return of_account(account) & is_over & pub_slot.c.block_number.is_(None) & ~signed
