"""Stores dead letters, which are logs and calls that could not be decoded.

Only logs and calls of known kinds become dead letters. A dead letter is open while it is
canonical. It is closed when its row is folded again by a version that can decode the row. See
docs/explanation/ingest.md#decoding.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import DeadLetter
from oracle.store.bulk import Row, insert_canonical_rows
from oracle.store.encoding import decode_hex, encode_hex, escape_nul, unescape_nul
from oracle.store.tables.integrity_tables import dead_letter


class DeadLetterRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, dead_letters: Sequence[DeadLetter]) -> int:
        """Insert dead letters, and return how many were not open before."""
        return insert_canonical_rows(
            self._connection,
            dead_letter,
            [_encode_dead_letter_row(letter) for letter in dead_letters],
        )

    def count_open(self) -> int:
        count_query = select(func.count()).where(dead_letter.c.canonical)
        return int(self._connection.execute(count_query).scalar_one())

    def list_open(self, first: int, last: int) -> list[DeadLetter]:
        """Return the open dead letters of blocks `first` to `last`, in order.

        Both blocks are included.
        """
        return self.list_between(first, last, canonical=True)

    def has_open(self, first: int, last: int) -> bool:
        """Return whether a block from `first` to `last` has an open dead letter."""
        is_open = dead_letter.c.block.between(first, last) & dead_letter.c.canonical
        query = select(dead_letter.c.block).where(is_open).limit(1)
        return self._connection.execute(query).first() is not None

    def list_between(self, first: int, last: int, *, canonical: bool) -> list[DeadLetter]:
        """Return the dead letters of blocks `first` to `last`, in order.

        Both blocks are included. The open dead letters are returned, or those of orphaned blocks
        if `canonical` is False.
        """
        query = select(dead_letter).where(
            dead_letter.c.block.between(first, last), dead_letter.c.canonical.is_(canonical)
        )
        ordered_query = query.order_by(*dead_letter.primary_key.columns)
        return [_decode_dead_letter_row(row) for row in self._connection.execute(ordered_query)]

    def delete_open(self, first: int, last: int) -> None:
        """Delete the open dead letters of these blocks, which are decoded again afterwards."""
        is_open = dead_letter.c.block.between(first, last) & dead_letter.c.canonical
        self._connection.execute(delete(dead_letter).where(is_open))

    def orphan_above(self, number: int) -> int:
        """Mark dead letters above block `number` as not canonical, and return their number."""
        is_above = (dead_letter.c.block > number) & dead_letter.c.canonical
        return self._connection.execute(
            update(dead_letter).where(is_above).values(canonical=False)
        ).rowcount


def _encode_dead_letter_row(letter: DeadLetter) -> Row:
    return (
        letter.block,
        letter.tx,
        letter.index,
        decode_hex(letter.block_hash),
        letter.time,
        decode_hex(letter.address),
        letter.name,
        escape_nul(letter.error),
        True,
    )


def _decode_dead_letter_row(row: Any) -> DeadLetter:  # noqa: ANN401  a row of any driver
    return DeadLetter(
        block=row.block,
        block_hash=Hash(encode_hex(row.block_hash)),
        time=row.time,
        tx=row.tx_index,
        index=row.log_index,
        address=Address(encode_hex(row.address)),
        name=row.name,
        error=unescape_nul(row.error) or "",
    )
