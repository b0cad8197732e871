"""Everything folded from the raw rows, as a whole: thrown away by refold, compared by tests."""

from collections.abc import Iterator

from sqlalchemy import Connection


class ProjectionRoom:
    """Not in it: logs, calls, blocks, identity, cursor, reports, outbox, lease, progress."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def clear(self) -> None:
        """Delete everything folded, with undo journal and lanes."""
        raise NotImplementedError

    def dump(self) -> Iterator[str]:
        """Yield all projections as text, a line a row, equal on both databases."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return the sha256 of `dump`, in hex."""
        raise NotImplementedError
