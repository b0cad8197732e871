"""A cache of the lanes computed last; thrown away whenever the state goes back."""

from collections.abc import Mapping

from sqlalchemy import Connection


class LaneRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self) -> dict[int, int]:
        """Return lane by index."""
        raise NotImplementedError

    def as_of(self) -> int | None:
        """Return the block that the lanes were computed at; None: there are none."""
        raise NotImplementedError

    def save(self, lanes: Mapping[int, int], as_of: int) -> None:
        """Write lanes computed at block `as_of`; the others stay as they were."""
        raise NotImplementedError

    def clear(self) -> None:
        """Throw the cache away."""
        raise NotImplementedError
