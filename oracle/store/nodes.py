"""The nodes' rows: one each, at the head."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection

from oracle.domain.ids import Address
from oracle.domain.nodes import Membership, Node


class NodeRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, addresses: Iterable[Address]) -> dict[Address, Node]:
        """Return the nodes of these addresses that are there."""
        raise NotImplementedError

    def save(self, nodes: Iterable[Node]) -> None:
        """Write each node's row, new or not."""
        raise NotImplementedError

    def all(self) -> Iterator[Node]:
        """Yield every node, by address, in pages."""
        raise NotImplementedError

    def page(self, after: Address | None, limit: int) -> list[Node]:
        """Return up to `limit` nodes whose address is above `after`, by address."""
        raise NotImplementedError

    def changed_since(self, block: int) -> Iterator[Node]:
        """Yield the nodes whose row changed in a block above `block`."""
        raise NotImplementedError

    def recovering_at(self, time: int) -> Iterator[Node]:
        """Yield the nodes whose reliability still healed at `time`, in seconds.

        Base below 1 and less than 2^21 seconds ago (scoring.md 1).
        """
        raise NotImplementedError

    def counts(self) -> dict[tuple[Membership, bool, bool], int]:
        """Count the nodes by membership, whether paused, and whether running a task."""
        raise NotImplementedError
