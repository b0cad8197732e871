"""Single blocks that reached more than the windows around them, by their hash."""

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from oracle.domain.ids import Hash
from oracle.domain.verification import Level
from oracle.store.bulk import upsert
from oracle.store.encoding import raw
from oracle.store.tables.integrity_tables import verified_block


class VerifiedBlockRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, blocks: Iterable[tuple[int, Hash]], level: Level, endpoint: str) -> None:
        """Write down that these blocks, by number and hash, have reached this level.

        One that has reached more keeps it.
        """
        named = list(blocks)
        if not named:
            return
        numbers = [number for number, _ in named]
        known = self.between(min(numbers), max(numbers))
        rows = [
            (number, raw(block_hash), level.value, endpoint)
            for number, block_hash in named
            if known.get(number, Level.NOTHING) <= level
        ]
        upsert(self._connection, verified_block, rows)

    def between(self, first: int, last: int) -> dict[int, Level]:
        """Return by number what single blocks from `first` to `last` have reached."""
        chosen = select(verified_block.c.number, verified_block.c.level)
        rows = self._connection.execute(chosen.where(verified_block.c.number.between(first, last)))
        return {number: Level(level) for number, level in rows}

    def forget_above(self, number: int) -> None:
        """Forget the blocks above `number`: others may stand there now."""
        self._connection.execute(delete(verified_block).where(verified_block.c.number > number))
