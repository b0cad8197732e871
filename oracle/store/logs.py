"""The raw logs: only ever appended, orphans kept beside the canonical ones (decision 5)."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from oracle.domain.logs import Log


class LogRoom:
    """A log's key is its block number, its index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, logs: Sequence[Log]) -> int:
        """Write logs down in bulk; return how many became canonical by it.

        A log that is there stays as it is; an orphan becomes canonical again.
        """
        raise NotImplementedError

    def between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Log]:
        """Yield the logs of blocks `first` to `last`, both included, by block and index.

        Read in pages, so memory stays flat and the same transaction may write in between.
        `canonical=False` yields orphans only.
        """
        raise NotImplementedError

    def missing(self, logs: Sequence[Log]) -> list[Log]:
        """Return those that are not there as canonical ones."""
        raise NotImplementedError

    def orphan_above(self, number: int) -> int:
        """Mark every log above block `number` as not canonical; return how many."""
        raise NotImplementedError

    def count(self, *, canonical: bool = True) -> int:
        """Count the logs; reads the whole table."""
        raise NotImplementedError

    def last_block(self) -> int | None:
        """Return the highest block that has a canonical log."""
        raise NotImplementedError
