"""Dead letters: logs and calls of known kinds that could not be decoded.

Canonical ones are open: a fold of the same rows by a version that decodes them closes them. See
docs/explanation/ingest.md#decoding.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import DeadLetter
from oracle.store.bulk import Row, append_canonical
from oracle.store.encoding import as_said, hexed, plain, raw
from oracle.store.tables.integrity_tables import dead_letter


class DeadLetterRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, letters: Sequence[DeadLetter]) -> int:
        """Insert dead letters; return how many are newly open."""
        return append_canonical(self._connection, dead_letter, [_row_of(each) for each in letters])

    def count_open(self) -> int:
        """Count the open dead letters."""
        counted = select(func.count()).where(dead_letter.c.canonical)
        return int(self._connection.execute(counted).scalar_one())

    def open_between(self, first: int, last: int) -> list[DeadLetter]:
        """Return the open dead letters of blocks `first` to `last`, both included, in order."""
        return self.between(first, last, canonical=True)

    def between(self, first: int, last: int, *, canonical: bool) -> list[DeadLetter]:
        """Return the open dead letters of these blocks, or those of orphaned blocks, in order."""
        chosen = select(dead_letter).where(
            dead_letter.c.block.between(first, last), dead_letter.c.canonical.is_(canonical)
        )
        ordered = chosen.order_by(*dead_letter.primary_key.columns)
        return [_letter_of(row) for row in self._connection.execute(ordered)]

    def clear_open(self) -> None:
        """Delete the open dead letters, because all rows are decoded anew."""
        self._connection.execute(delete(dead_letter).where(dead_letter.c.canonical))

    def orphan_above(self, number: int) -> int:
        """Mark dead letters above block `number` as not canonical; return how many."""
        above = (dead_letter.c.block > number) & dead_letter.c.canonical
        return self._connection.execute(
            update(dead_letter).where(above).values(canonical=False)
        ).rowcount


def _row_of(each: DeadLetter) -> Row:
    return (
        each.block,
        each.tx,
        each.index,
        raw(each.block_hash),
        each.time,
        raw(each.address),
        each.name,
        plain(each.error),
        True,
    )


def _letter_of(row: Any) -> DeadLetter:  # noqa: ANN401  a row of any driver
    return DeadLetter(
        block=row.block,
        block_hash=Hash(hexed(row.block_hash)),
        time=row.time,
        tx=row.tx_index,
        index=row.log_index,
        address=Address(hexed(row.address)),
        name=row.name,
        error=as_said(row.error) or "",
    )
