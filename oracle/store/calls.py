"""The raw calls that some events need, kept as the logs are (decision 5)."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from oracle.domain.logs import Call


class CallRoom:
    """A call's key is its block number, its transaction index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, calls: Sequence[Call]) -> int:
        """Write calls down in bulk; return how many became canonical by it.

        A call that is there stays as it is; an orphan becomes canonical again.
        """
        raise NotImplementedError

    def between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Call]:
        """Yield the calls of blocks `first` to `last`, both included, by block and transaction.

        Read in pages, so memory stays flat and the same transaction may write in between.
        `canonical=False` yields orphans only.
        """
        raise NotImplementedError

    def missing(self, calls: Sequence[Call]) -> list[Call]:
        """Return those that are not there as canonical ones."""
        raise NotImplementedError

    def orphan_above(self, number: int) -> int:
        """Mark every call above block `number` as not canonical; return how many."""
        raise NotImplementedError

    def count(self, *, canonical: bool = True) -> int:
        """Count the calls; reads the whole table."""
        raise NotImplementedError

    def last_block(self) -> int | None:
        """Return the highest block that has a canonical call."""
        raise NotImplementedError
