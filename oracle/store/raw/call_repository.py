"""Stores raw calls, whose input contains data that their logs do not contain.

See docs/explanation/storage.md#raw-rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, tuple_, update

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call
from oracle.store.bulk import Row, insert_canonical_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex, encode_wei
from oracle.store.raw.raw_checksums import CALLS, RawChecksums, compute_row_hash
from oracle.store.tables.chain_tables import call

# Number of rows per query. It is large enough to be fast, and small enough to need little memory.
PAGE_ROWS = 2_000
_KEY = tuple(call.primary_key.columns)


class CallRepository:
    """Access to raw calls, by block number, transaction index and block hash."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checksums = RawChecksums(connection)

    def append(self, calls: Sequence[Call]) -> int:
        """Insert calls in bulk, and return how many became canonical.

        A stored canonical call is kept as it is. A stored orphan becomes canonical again with the
        new values, because it may have been orphaned for its wrong values.
        """
        if not calls:
            return 0
        rows = _encode_call_rows(calls)
        first_block = min(call_entry.block for call_entry in calls)
        last_block = max(call_entry.block for call_entry in calls)
        if self._checksums.is_above_cursor(first_block):
            self._checksums.add_row_hashes(
                CALLS, sorted((row[0], compute_row_hash(row)) for row in rows)
            )
            return insert_canonical_rows(self._connection, call, rows)
        with self._checksums.track_changes(CALLS, first_block, last_block):
            return insert_canonical_rows(self._connection, call, rows)

    def iterate_between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Call]:
        """Yield the calls of blocks `first` to `last`, ordered by block and index.

        Both blocks are included. Calls are read in pages, so that memory use stays constant and
        the same transaction may write meanwhile. `canonical=False` yields only orphans.
        """
        query = (
            select(call)
            .where(call.c.block <= last, call.c.canonical.is_(canonical))
            .order_by(*_KEY)
            .limit(PAGE_ROWS)
        )
        # The empty hash sorts before all hashes, so the first page begins with the first block.
        last_key: tuple[int, int, bytes] = (first, -1, b"")
        while True:
            page = self._connection.execute(query.where(tuple_(*_KEY) > last_key)).all()
            for row in page:
                yield _decode_call_row(row)
            if len(page) < PAGE_ROWS:
                return
            last_key = (page[-1][0], page[-1][1], page[-1][2])

    def replace(self, calls: Sequence[Call]) -> None:
        """Overwrite the stored calls that have the same keys and were proven wrong."""
        if calls:
            first_block = min(call_entry.block for call_entry in calls)
            last_block = max(call_entry.block for call_entry in calls)
            with self._checksums.track_changes(CALLS, first_block, last_block):
                upsert_rows(self._connection, call, _encode_call_rows(calls))

    def orphan(self, calls: Sequence[Call]) -> None:
        """Mark calls as not canonical, because proofs show that they are not in their blocks."""
        for row in _encode_call_rows(calls):
            is_this_call = and_(
                *(column == value for column, value in zip(_KEY, row, strict=False))
            )
            with self._checksums.track_changes(CALLS, row[0], row[0]):
                self._connection.execute(update(call).where(is_this_call).values(canonical=False))

    def orphan_above(self, number: int) -> int:
        """Mark all calls above block `number` as not canonical, and return their number."""
        is_above = (call.c.block > number) & call.c.canonical
        with self._checksums.track_removal_above(CALLS, number):
            return self._connection.execute(
                update(call).where(is_above).values(canonical=False)
            ).rowcount

    def find_lowest_block_from(self, number: int) -> tuple[int, Hash] | None:
        """Return number and hash of the first block from `number` on with a canonical call."""
        return self._find_block(call.c.block >= number, call.c.block)

    def find_highest_block_up_to(self, number: int) -> tuple[int, Hash] | None:
        """Return number and hash of the last block up to `number` with a canonical call."""
        return self._find_block(call.c.block <= number, call.c.block.desc())

    def _find_block(
        self, condition: ColumnElement[bool], order: ColumnElement[Any]
    ) -> tuple[int, Hash] | None:
        query = select(call.c.block, call.c.block_hash).where(condition, call.c.canonical)
        row = self._connection.execute(query.order_by(order).limit(1)).one_or_none()
        return None if row is None else (row[0], Hash(encode_hex(row[1])))

    def count(self, *, canonical: bool = True) -> int:
        """Count the calls by reading the whole table."""
        count_query = select(func.count()).where(call.c.canonical.is_(canonical))
        return int(self._connection.execute(count_query).scalar_one())


def _encode_call_rows(calls: Sequence[Call]) -> list[Row]:
    return [_encode_call_row(entry) for entry in calls]


def _encode_call_row(entry: Call) -> Row:
    return (
        entry.block,
        entry.tx,
        decode_hex(entry.block_hash),
        entry.time,
        decode_hex(entry.tx_hash),
        decode_hex(entry.sender),
        decode_hex(entry.to),
        encode_wei(entry.value),
        decode_hex(entry.input),
        entry.succeeded,
        True,
    )


def _decode_call_row(row: Any) -> Call:  # noqa: ANN401  a row of any driver
    number, tx, block_hash, time, tx_hash, sender, to, value, call_input, succeeded, _ = row
    return Call(
        block=number,
        block_hash=Hash(encode_hex(block_hash)),
        time=time,
        tx=tx,
        tx_hash=Hash(encode_hex(tx_hash)),
        sender=Address(encode_hex(sender)),
        to=Address(encode_hex(to)),
        value=int.from_bytes(value, "big"),
        input=encode_hex(call_input),
        succeeded=bool(succeeded),
    )
