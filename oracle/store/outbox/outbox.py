"""The outbox: what we want on chain, and how far it has come.

See docs/explanation/transactions.md.
"""

from sqlalchemy import Connection

from oracle.store.outbox.accounts import AccountRepository, NonceGaps
from oracle.store.outbox.intents import Intents
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.nonce_slots import NonceSlots
from oracle.store.outbox.outbox_stats import OutboxStats


class Outbox:
    """Its rooms, inside one transaction; each writes its own lines of the journal."""

    def __init__(self, connection: Connection) -> None:
        self.journal = Journal(connection)
        self.accounts = AccountRepository(connection, self.journal)
        self.intents = Intents(connection, self.journal)
        self.slots = NonceSlots(connection, self.journal, self.intents)
        self.gaps = NonceGaps(connection, self.journal)
        self.counts = OutboxStats(connection)
