"""Raw calls: transactions whose input holds data that their logs lack.

See docs/explanation/storage.md#raw-rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, tuple_, update

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call
from oracle.store.bulk import Row, append_canonical, upsert
from oracle.store.encoding import hexed, raw, wei
from oracle.store.raw.raw_checksums import CALLS, RawChecksums, row_hash
from oracle.store.tables.chain_tables import call

# Rows per query: large enough for speed, small enough for flat memory.
PAGE = 2_000
_KEY = tuple(call.primary_key.columns)


class CallRepository:
    """Raw calls, keyed by block number, transaction index and block hash."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checksums = RawChecksums(connection)

    def append(self, calls: Sequence[Call]) -> int:
        """Insert calls in bulk; return how many became canonical.

        A canonical call is kept as it is; an orphan becomes canonical again with the new values,
        because it may have been orphaned for wrong ones.
        """
        if not calls:
            return 0
        rows = _rows_of(calls)
        first, last = min(entry.block for entry in calls), max(entry.block for entry in calls)
        if self._checksums.is_above(first):
            self._checksums.add(CALLS, sorted((row[0], row_hash(row)) for row in rows))
            return append_canonical(self._connection, call, rows)
        with self._checksums.follow(CALLS, first, last):
            return append_canonical(self._connection, call, rows)

    def between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Call]:
        """Yield the calls of blocks `first` to `last`, both included, by block and index.

        Read in pages, so memory stays flat and the same transaction may write in between.
        `canonical=False` yields orphans only.
        """
        chosen = (
            select(call)
            .where(call.c.block <= last, call.c.canonical.is_(canonical))
            .order_by(*_KEY)
            .limit(PAGE)
        )
        # No hash sorts below the empty one, so the first page begins with the first block.
        after: tuple[int, int, bytes] = (first, -1, b"")
        while True:
            page = self._connection.execute(chosen.where(tuple_(*_KEY) > after)).all()
            for row in page:
                yield _call_of(row)
            if len(page) < PAGE:
                return
            after = (page[-1][0], page[-1][1], page[-1][2])

    def replace(self, calls: Sequence[Call]) -> None:
        """Overwrite calls of the same keys, which were proven wrong."""
        if calls:
            first, last = min(one.block for one in calls), max(one.block for one in calls)
            with self._checksums.follow(CALLS, first, last):
                upsert(self._connection, call, _rows_of(calls))

    def orphan(self, calls: Sequence[Call]) -> None:
        """Mark these calls as not canonical: proofs show that their block does not contain them."""
        for row in _rows_of(calls):
            here = and_(*(column == value for column, value in zip(_KEY, row, strict=False)))
            with self._checksums.follow(CALLS, row[0], row[0]):
                self._connection.execute(update(call).where(here).values(canonical=False))

    def orphan_above(self, number: int) -> int:
        """Mark every call above block `number` as not canonical; return how many."""
        above = (call.c.block > number) & call.c.canonical
        with self._checksums.follow_above(CALLS, number):
            return self._connection.execute(
                update(call).where(above).values(canonical=False)
            ).rowcount

    def lowest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the lowest block from `number` on that has a canonical call, and its hash."""
        return self._hash_of(call.c.block >= number, call.c.block)

    def highest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the highest block up to `number` that has a canonical call, and its hash."""
        return self._hash_of(call.c.block <= number, call.c.block.desc())

    def _hash_of(
        self, chosen: ColumnElement[bool], order: ColumnElement[Any]
    ) -> tuple[int, Hash] | None:
        found = select(call.c.block, call.c.block_hash).where(chosen, call.c.canonical)
        row = self._connection.execute(found.order_by(order).limit(1)).one_or_none()
        return None if row is None else (row[0], Hash(hexed(row[1])))

    def count(self, *, canonical: bool = True) -> int:
        """Count the calls; reads the whole table."""
        counted = select(func.count()).where(call.c.canonical.is_(canonical))
        return int(self._connection.execute(counted).scalar_one())


def _rows_of(calls: Sequence[Call]) -> list[Row]:
    return [_row_of(entry) for entry in calls]


def _row_of(entry: Call) -> Row:
    return (
        entry.block,
        entry.tx,
        raw(entry.block_hash),
        entry.time,
        raw(entry.tx_hash),
        raw(entry.sender),
        raw(entry.to),
        wei(entry.value),
        raw(entry.input),
        entry.succeeded,
        True,
    )


def _call_of(row: Any) -> Call:  # noqa: ANN401  a row of any driver
    number, tx, block_hash, time, tx_hash, sender, to, value, content, succeeded, _ = row
    return Call(
        block=number,
        block_hash=Hash(hexed(block_hash)),
        time=time,
        tx=tx,
        tx_hash=Hash(hexed(tx_hash)),
        sender=Address(hexed(sender)),
        to=Address(hexed(to)),
        value=int.from_bytes(value, "big"),
        input=hexed(content),
        succeeded=bool(succeeded),
    )
