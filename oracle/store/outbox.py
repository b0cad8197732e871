"""The outbox (publishing.md 3): what we want on chain, and how far it has come."""

from sqlalchemy import Connection

from oracle.domain.block import BlockRef
from oracle.store.lease import Lease
from oracle.store.outbox_intents import Intents
from oracle.store.outbox_journal import Journal
from oracle.store.outbox_rows import Stamp
from oracle.store.outbox_senders import Senders
from oracle.store.outbox_signatures import Signatures
from oracle.store.outbox_slots import Slots


class Outbox:
    """Its rooms, inside one transaction; each writes its own lines of the journal."""

    def __init__(self, connection: Connection) -> None:
        self._lease = Lease(connection)
        self.journal = Journal(connection)
        self.senders = Senders(connection, self.journal)
        self.intents = Intents(connection, self.journal)
        self.slots = Slots(connection, self.journal, self.intents)
        self.signatures = Signatures(connection, self.journal)

    def basis_orphaned(self, ancestor: BlockRef) -> int:
        """End what was planned on blocks above `ancestor` and has no nonce; count them.

        The journal's line carries the ancestor's time: a rewind knows no other.
        """
        stamp = Stamp(ancestor.time, self._lease.current().epoch)
        return self.intents.forget_above(ancestor.number, stamp)
