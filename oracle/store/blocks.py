"""Headers that we may still need: above the final block, and where logs and reports stand."""

from collections.abc import Sequence

from sqlalchemy import Connection

from oracle.domain.block import BlockRef


class BlockRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, blocks: Sequence[BlockRef]) -> None:
        """Write headers down as canonical; repeating it changes nothing."""
        raise NotImplementedError

    def at(self, number: int) -> BlockRef | None:
        """Return the canonical block of this height, where we have it."""
        raise NotImplementedError

    def between(self, first: int, last: int) -> list[BlockRef]:
        """Return the canonical blocks from `first` to `last`, both included, ascending."""
        raise NotImplementedError

    def newest(self) -> BlockRef | None:
        """Return the highest canonical block that we have."""
        raise NotImplementedError

    def discard_above(self, number: int) -> int:
        """Mark every block above `number` as not canonical; return how many."""
        raise NotImplementedError

    def prune_below(self, number: int) -> int:
        """Delete the headers below `number`, orphans included; return how many."""
        raise NotImplementedError
