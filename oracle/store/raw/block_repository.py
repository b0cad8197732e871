"""Stored block headers: above the final block, and those of logs and reports."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import Level
from oracle.domain.ids import Hash
from oracle.store.bulk import append_canonical, upsert
from oracle.store.encoding import hexed, raw
from oracle.store.tables.chain_tables import block
from oracle.store.tables.integrity_tables import verified_block


class BlockRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, blocks: Sequence[BlockRef]) -> None:
        """Save headers as canonical; idempotent."""
        rows = [
            (each.number, raw(each.hash), raw(each.parent_hash), each.time, True)
            for each in blocks
        ]
        append_canonical(self._connection, block, rows)

    def at(self, number: int) -> BlockRef | None:
        """Return the canonical block of this height, or None if it is not stored."""
        found = self.between(number, number)
        return found[0] if found else None

    def between(self, first: int, last: int) -> list[BlockRef]:
        """Return the canonical blocks from `first` to `last`, both included, ascending."""
        chosen = select(block).where(block.c.number.between(first, last), block.c.canonical)
        return [
            _block_of(row) for row in self._connection.execute(chosen.order_by(block.c.number))
        ]

    def newest(self) -> BlockRef | None:
        """Return the highest stored canonical block, or None."""
        return self.highest_to(None)

    def highest_to(self, number: int | None) -> BlockRef | None:
        """Return the highest stored canonical block up to `number` (None: no limit), or None."""
        chosen = select(block).where(block.c.canonical).order_by(block.c.number.desc()).limit(1)
        if number is not None:
            chosen = chosen.where(block.c.number <= number)
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else _block_of(row)

    def lowest_from(self, number: int) -> BlockRef | None:
        """Return the lowest stored canonical block from `number` on, or None."""
        chosen = select(block).where(block.c.canonical, block.c.number >= number)
        row = self._connection.execute(chosen.order_by(block.c.number).limit(1)).one_or_none()
        return None if row is None else _block_of(row)

    def discard_above(self, number: int) -> int:
        """Mark every block above `number` as not canonical; return how many."""
        above = (block.c.number > number) & block.c.canonical
        return self._connection.execute(
            update(block).where(above).values(canonical=False)
        ).rowcount

    def prune_below(self, number: int) -> int:
        """Delete the headers below `number`, orphans included; return how many."""
        return self._connection.execute(delete(block).where(block.c.number < number)).rowcount


def _block_of(row: Any) -> BlockRef:  # noqa: ANN401  a row of any driver
    return BlockRef(row.number, Hash(hexed(row.hash)), Hash(hexed(row.parent_hash)), row.time)


class VerifiedBlockRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, blocks: Iterable[tuple[int, Hash]], level: Level, endpoint: str) -> None:
        """Store that these blocks, by number and hash, have reached a verification level.

        A block that has reached a higher level keeps it.
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
        """Return the levels of single verified blocks from `first` to `last`, by number."""
        chosen = select(verified_block.c.number, verified_block.c.level)
        rows = self._connection.execute(chosen.where(verified_block.c.number.between(first, last)))
        return {number: Level(level) for number, level in rows}

    def forget_above(self, number: int) -> None:
        """Delete the entries above block `number`, which may be replaced by other blocks."""
        self._connection.execute(delete(verified_block).where(verified_block.c.number > number))
