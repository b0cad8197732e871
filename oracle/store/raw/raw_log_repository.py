"""The raw calls: transactions whose input says what their logs do not."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, and_, func, select, tuple_, update

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log
from oracle.store.bulk import Row, append_canonical, upsert
from oracle.store.encoding import hexed, raw, split, wei
from oracle.store.tables.chain_tables import call, log

# Rows read at a time: large enough for speed, small enough for flat memory.
PAGE = 2_000

Raw = TypeVar("Raw")


class RawRowRepository(Generic[Raw]):
    """Rows of one table, whose key is block number, index in the block, and the block's hash."""

    def __init__(
        self,
        connection: Connection,
        table: Table,
        rows_of: Callable[[Sequence[Raw]], list[Row]],
        raw_of: Callable[[Any], Raw],
    ) -> None:
        self._connection = connection
        self._table = table
        self._key = list(table.primary_key.columns)
        self._rows_of = rows_of
        self._raw_of = raw_of

    def append(self, rows: Sequence[Raw]) -> int:
        """Write rows down in bulk; return how many became canonical by it.

        A row that is there stays as it is; an orphan becomes canonical again, with what is said
        of it now: it may have been set aside for what it said.
        """
        return append_canonical(self._connection, self._table, self._rows_of(rows))

    def between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Raw]:
        """Yield the rows of blocks `first` to `last`, both included, by block and index.

        Read in pages, so memory stays flat and the same transaction may write in between.
        `canonical=False` yields orphans only.
        """
        key, raw_of = self._key, self._raw_of
        chosen = (
            select(self._table)
            .where(key[0] <= last, self._table.c.canonical.is_(canonical))
            .order_by(*key)
            .limit(PAGE)
        )
        # No hash is shorter than the empty one: the first page begins with the first block.
        after: tuple[int, int, bytes] = (first, -1, b"")
        while True:
            page = self._connection.execute(chosen.where(tuple_(*key) > after)).all()
            for row in page:
                yield raw_of(row)
            if len(page) < PAGE:
                return
            after = (page[-1][0], page[-1][1], page[-1][2])

    def replace(self, rows: Sequence[Raw]) -> None:
        """Write rows down in place of those of the same key, which were proven wrong."""
        upsert(self._connection, self._table, self._rows_of(rows))

    def orphan(self, rows: Sequence[Raw]) -> None:
        """Mark these rows as not canonical: their block, as it was proven, has them not."""
        for row in self._rows_of(rows):
            here = and_(*(column == value for column, value in zip(self._key, row, strict=False)))
            self._connection.execute(update(self._table).where(here).values(canonical=False))

    def orphan_above(self, number: int) -> int:
        """Mark every row above block `number` as not canonical; return how many."""
        above = (self._key[0] > number) & self._table.c.canonical
        return self._connection.execute(
            update(self._table).where(above).values(canonical=False)
        ).rowcount

    def lowest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the lowest block from `number` on that has a canonical row, and its hash."""
        return self._hash_of(self._key[0] >= number, self._key[0])

    def highest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the highest block up to `number` that has a canonical row, and its hash."""
        return self._hash_of(self._key[0] <= number, self._key[0].desc())

    def _hash_of(
        self, chosen: ColumnElement[bool], order: ColumnElement[Any]
    ) -> tuple[int, Hash] | None:
        found = select(self._key[0], self._table.c.block_hash).where(
            chosen, self._table.c.canonical
        )
        row = self._connection.execute(found.order_by(order).limit(1)).one_or_none()
        return None if row is None else (row[0], Hash(hexed(row[1])))

    def count(self, *, canonical: bool = True) -> int:
        """Count the rows; reads the whole table."""
        counted = select(func.count()).where(self._table.c.canonical.is_(canonical))
        return int(self._connection.execute(counted).scalar_one())

    def counts(self, first: int, last: int, *without: ColumnElement[bool]) -> dict[int, int]:
        """Count the canonical rows of each block from `first` to `last`; none: not in it.

        Rows that one of `without` is true of are not counted.
        """
        number = self._key[0]
        chosen = and_(number.between(first, last), self._table.c.canonical)
        counted = select(number, func.count()).where(chosen, *(~one for one in without))
        return {row[0]: row[1] for row in self._connection.execute(counted.group_by(number))}

    def last_block(self) -> int | None:
        """Return the highest block that has a canonical row."""
        highest = select(self._key[0]).where(self._table.c.canonical).order_by(self._key[0].desc())
        return self._connection.execute(highest.limit(1)).scalar_one_or_none()


class CallRepository(RawRowRepository[Call]):
    """A call's key is its block number, its transaction's index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, call, _rows_of, _call_of)


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


class LogRepository(RawRowRepository[Log]):
    """A log's key is its block number, its index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, log, _log_rows_of, _log_of)

    def counts_without(self, address: Address | None, first: int, last: int) -> dict[int, int]:
        """Count the canonical logs of each block, but those of one contract."""
        theirs = [] if address is None else [log.c.address == raw(address)]
        return self.counts(first, last, *theirs)

    def block_of(self, transactions: Iterable[Hash], first: int) -> int | None:
        """Return the block, from `first` on, of a canonical log of one of these transactions."""
        known = [raw(one) for one in transactions]
        found = select(log.c.block).where(
            log.c.block >= first, log.c.canonical, log.c.tx_hash.in_(known)
        )
        return self._connection.execute(found.limit(1)).scalar_one_or_none()


class _Known(dict[str, bytearray]):
    """Hex to bytes, each text once: neighbours share block and address."""

    def __missing__(self, text: str) -> bytearray:
        found = self[text] = bytearray.fromhex(text[2:])
        return found


def _log_rows_of(logs: Sequence[Log]) -> list[Row]:
    # One expression for all of them: this runs over every log of the chain. sqlite3 takes a
    # bytearray as it is; at bytes it looks longer than it takes to write them.
    known, raw = _Known(), bytearray.fromhex
    return [
        (
            entry.block,
            entry.index,
            known[entry.block_hash],
            entry.time,
            entry.tx,
            raw(entry.tx_hash[2:]),
            known[entry.address],
            raw("".join(entry.topics).replace("0x", "")),
            raw(entry.data[2:]),
            True,
        )
        for entry in logs
    ]


def _log_of(row: Any) -> Log:  # noqa: ANN401  a row of any driver
    number, index, block_hash, time, tx, tx_hash, address, topics, content, _ = row
    return Log(
        block=number,
        block_hash=Hash("0x" + block_hash.hex()),
        time=time,
        tx=tx,
        tx_hash=Hash("0x" + tx_hash.hex()),
        index=index,
        address=Address("0x" + address.hex()),
        topics=split(topics),
        data="0x" + content.hex(),
    )
