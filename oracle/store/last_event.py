"""The newest event folded: time order is judged against it."""

from sqlalchemy import Connection

from oracle.domain.ledger import LastEvent


class LastEventRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> LastEvent | None:
        """Return the newest event folded; None before the first."""
        raise NotImplementedError

    def set(self, last: LastEvent) -> None:
        """Write the newest event down."""
        raise NotImplementedError
