"""Writes the journal of the outbox, with one row for every change.

The row is committed together with the change.
"""

from sqlalchemy import Connection, insert, select

from oracle.store.outbox.records import JournalEntry, Stamp
from oracle.store.tables.outbox_tables import pub_journal


class Journal:
    """Append-only journal of the outbox."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(
        self,
        event: str,
        stamp: Stamp,
        detail: str = "",
        *,
        intent_id: int | None = None,
        nonce: int | None = None,
        attempt_id: int | None = None,
    ) -> None:
        """Append an entry about the given rows; `detail` must not contain a secret."""
        row = {
            "at": stamp.at,
            "intent_id": intent_id,
            "nonce": nonce,
            "attempt_id": attempt_id,
            "event": event,
            "detail": detail,
            "lease_epoch": stamp.epoch,
            "actor": stamp.actor,
        }
        self._connection.execute(insert(pub_journal).values(row))

    def list_for_intent(self, intent_id: int) -> list[JournalEntry]:
        """Return the entries of one intent, oldest first."""
        rows = self._connection.execute(
            select(
                pub_journal.c.at,
                pub_journal.c.intent_id,
                pub_journal.c.nonce,
                pub_journal.c.attempt_id,
                pub_journal.c.event,
                pub_journal.c.detail,
                pub_journal.c.lease_epoch,
                pub_journal.c.actor,
            )
            .where(pub_journal.c.intent_id == intent_id)
            .order_by(pub_journal.c.id)
        )
        return [JournalEntry(*row) for row in rows]
