"""The spells in which a node's kickout was due (decision 10)."""

from collections.abc import Sequence

from sqlalchemy import Connection

from oracle.domain.ids import Address
from oracle.domain.ledger import KickoutDue


class KickoutRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, spells: Sequence[KickoutDue]) -> None:
        """Write spells opened and closed; the last word about a spell counts."""
        raise NotImplementedError

    def open(self) -> list[KickoutDue]:
        """Return the spells that last, oldest first."""
        raise NotImplementedError

    def of_node(self, node: Address) -> list[KickoutDue]:
        """Return all spells of the node, oldest first."""
        raise NotImplementedError
