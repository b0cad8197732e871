"""Checksums of the raw rows, to detect rows lost or changed outside a transaction.

For each kind of rows and each span of blocks the number of rows and the sum of their hashes are
stored. Insertions and deletions update a sum in any order; a change outside the daemon's
transactions does not. See docs/explanation/storage.md#raw-checksums.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, delete, exists, literal_column, select

from oracle.domain.blocks import BlockRange
from oracle.domain.log_table import INDEX_BITS, MOST_INDEX, LogTable
from oracle.store.bulk import Row, upsert
from oracle.store.tables.chain_tables import call, cursor
from oracle.store.tables.feed_tables import feed_row
from oracle.store.tables.integrity_tables import raw_checksum
from oracle.store.tables.log_tables import MOST_BLOCK, log_block, log_row, log_source

# Blocks per span: the unit that is read again after damage.
SPAN_BLOCKS = 1_000
LOGS, CALLS, FEED = "log", "call", "feed"
KINDS = (LOGS, CALLS, FEED)

_MODULUS = 1 << 256
_CHECKSUM_BYTES = 32
_PAGE = 5_000

# Pairs of block number and row hash.
Hashed = Iterator[tuple[int, int]]


class Checksum(NamedTuple):
    """Number of rows and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def plus(self, other: "Checksum") -> "Checksum":
        return Checksum(self.rows + other.rows, (self.total + other.total) % _MODULUS)

    def minus(self, other: "Checksum") -> "Checksum":
        return Checksum(self.rows - other.rows, (self.total - other.total) % _MODULUS)


class DamagedSpan(NamedTuple):
    """A span whose rows differ from the committed ones; `missing` < 0: too many rows."""

    kind: str
    blocks: BlockRange
    missing: int


Sums = dict[int, Checksum]
_NOTHING = Checksum()


class RawChecksums:
    """The table `raw_checksum`, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, kind: str, hashed: Iterable[tuple[int, int]]) -> None:
        """Add new rows of blocks above the cursor (`is_above_cursor`)."""
        self._move(kind, _sums(hashed))

    def is_above(self, block: int) -> bool:
        """Return whether a block lies above the cursor, so that it has no committed rows."""
        number = self._connection.execute(select(cursor.c.number)).scalar_one_or_none()
        return number is not None and block > number

    @contextmanager
    def follow(self, kind: str, first: int, last: int) -> Iterator[None]:
        """Update the checksums by the changes made meanwhile in blocks `first` to `last`.

        The checksum of a span that was damaged before is kept: restoring the committed rows
        repairs the span, and any other change leaves it damaged.
        """
        low, high = first // SPAN_BLOCKS, min(last, MOST_BLOCK) // SPAN_BLOCKS
        blocks = low * SPAN_BLOCKS, (high + 1) * SPAN_BLOCKS - 1
        committed = self._stored(kind, low, high)
        before = _sums(self._hashed(kind, *blocks))
        yield
        after = _sums(self._hashed(kind, *blocks))
        self._move(
            kind,
            {
                span: after.get(span, _NOTHING).minus(before.get(span, _NOTHING))
                for span in before.keys() | after.keys()
                if before.get(span, _NOTHING) == committed.get(span, _NOTHING)
            },
        )

    @contextmanager
    def follow_above(self, kind: str, number: int) -> Iterator[None]:
        """Remove the checksums above block `number`, whose rows are deleted meanwhile."""
        span = number // SPAN_BLOCKS
        with self.follow(kind, number + 1, (span + 1) * SPAN_BLOCKS - 1):
            yield
        above = (raw_checksum.c.kind == kind) & (raw_checksum.c.span > span)
        self._connection.execute(delete(raw_checksum).where(above))

    def damaged(self, first: int, last: int) -> list[DamagedSpan]:
        """Compare the rows of the spans around `first` to `last`; reads all of them."""
        low, high = first // SPAN_BLOCKS, last // SPAN_BLOCKS
        found = []
        for kind in KINDS:
            committed = self._stored(kind, low, high)
            there = _sums(self._hashed(kind, low * SPAN_BLOCKS, (high + 1) * SPAN_BLOCKS - 1))
            empty = self._spans_of_empty_blocks(low, high) if kind == LOGS else set[int]()
            for span in sorted(committed.keys() | there.keys() | empty):
                difference = committed.get(span, _NOTHING).minus(there.get(span, _NOTHING))
                if difference != _NOTHING or span in empty:
                    blocks = BlockRange(
                        max(first, span * SPAN_BLOCKS), min(last, (span + 1) * SPAN_BLOCKS - 1)
                    )
                    found.append(DamagedSpan(kind, blocks, difference.rows))
        return found

    def reset(self, blocks: BlockRange, indexed: BlockRange) -> None:
        """Recompute the chain's checksums in spans of which `blocks` holds all indexed blocks.

        Call it only after comparing the rows with the chain and finding them equal.
        """
        spans = blocks.first // SPAN_BLOCKS, blocks.last // SPAN_BLOCKS
        self._connection.execute(delete(log_block).where(_empty_span(*spans)))
        for kind in (LOGS, CALLS):
            for span in range(blocks.first // SPAN_BLOCKS, blocks.last // SPAN_BLOCKS + 1):
                low, high = span * SPAN_BLOCKS, (span + 1) * SPAN_BLOCKS - 1
                if max(low, indexed.first) < blocks.first or min(high, indexed.last) > blocks.last:
                    continue
                there = _sums(self._hashed(kind, low, high)).get(span, _NOTHING)
                stored = self._stored(kind, span, span).get(span, _NOTHING)
                self._move(kind, {span: there.minus(stored)})

    def _stored(self, kind: str, low: int, high: int) -> Sums:
        columns = raw_checksum.c
        chosen = select(columns.span, columns.rows, columns.checksum).where(
            columns.kind == kind, columns.span.between(low, high)
        )
        return {
            span: Checksum(rows, int.from_bytes(total, "big"))
            for span, rows, total in self._connection.execute(chosen).all()
        }

    def _move(self, kind: str, changes: Mapping[int, Checksum]) -> None:
        moved = {span: change for span, change in changes.items() if change != _NOTHING}
        if not moved:
            return
        known = self._stored(kind, min(moved), max(moved))
        rows: list[Row] = []
        for span, change in moved.items():
            now = known.get(span, _NOTHING).plus(change)
            if now == _NOTHING:
                here = (raw_checksum.c.kind == kind) & (raw_checksum.c.span == span)
                self._connection.execute(delete(raw_checksum).where(here))
            else:
                rows.append((kind, span, now.rows, now.total.to_bytes(_CHECKSUM_BYTES, "big")))
        upsert(self._connection, raw_checksum, rows)

    def _hashed(self, kind: str, first: int, last: int) -> Hashed:
        if kind == LOGS:
            return self._hashed_logs(first, min(last, MOST_BLOCK))
        if kind == CALLS:
            return self._hashed_rows(call.c.block.between(first, last) & call.c.canonical, call)
        within = feed_row.c.block.between(first, last) & feed_row.c.canonical
        return self._hashed_rows(within, feed_row)

    def _hashed_logs(self, first: int, last: int) -> Hashed:
        """Hash stored logs; a missing block or source of a row counts as empty."""
        sources = {
            number: _source_bytes(address.hex(), topic.hex())
            for number, address, topic in self._connection.execute(select(log_source)).all()
        }
        after, end = (first << INDEX_BITS) - 1, ((last + 1) << INDEX_BITS) - 1
        chosen = select(log_row).where(log_row.c.id <= end).order_by(log_row.c.id).limit(_PAGE)
        while True:
            page = self._connection.execute(chosen.where(log_row.c.id > after)).all()
            blocks: dict[int, bytes] = {}
            if page:
                after = page[-1][0]
                within = log_block.c.number.between(page[0][0] >> INDEX_BITS, after >> INDEX_BITS)
                blocks = {
                    number: _block_bytes(block_hash, time)
                    for number, time, block_hash in self._connection.execute(
                        select(log_block).where(within)
                    ).all()
                }
            for key, tx, source, tx_hash, topics, data in page:
                number = key >> INDEX_BITS
                shared = blocks.get(number, b"") + sources.get(source, b"")
                yield number, _log_hash(key, tx, shared, tx_hash, topics, data)
            if len(page) < _PAGE:
                return

    def _spans_of_empty_blocks(self, low: int, high: int) -> set[int]:
        """Return the spans with a block row without logs; there should be none."""
        named = select(log_block.c.number).where(_empty_span(low, high))
        return {row[0] // SPAN_BLOCKS for row in self._connection.execute(named).all()}

    def _hashed_rows(self, within: Any, table: Any) -> Hashed:  # noqa: ANN401  SQL's own types
        place = table.columns.keys().index("block")
        chosen = select(table).where(within).execution_options(yield_per=_PAGE)
        for row in self._connection.execute(chosen):
            yield row[place], row_hash(row)


def _empty_span(low: int, high: int) -> ColumnElement[bool]:
    """Build the condition for rows of `log_block` in these spans without any log."""
    first = log_block.c.number.bitwise_lshift(literal_column(str(INDEX_BITS), Integer))
    has_logs = exists().where(log_row.c.id.between(first, first + MOST_INDEX))
    within = log_block.c.number.between(low * SPAN_BLOCKS, (high + 1) * SPAN_BLOCKS - 1)
    return within & ~has_logs


def hashed_logs(table: LogTable) -> Hashed:
    """Yield block and hash of each log, as stored."""
    for part in table.parts:
        sources = [_source_bytes(address[2:], topic[2:]) for address, topic in part.sources]
        blocks = {number: _block_bytes(*block) for number, block in part.blocks.items()}
        for key, tx, place, tx_hash, topics, data in part.rows:
            number = key >> INDEX_BITS
            shared = blocks[number] + sources[place]
            yield number, _log_hash(key, tx, shared, tx_hash, topics, data)


def row_hash(row: Iterable[Any]) -> int:
    """Return the hash of a row of another table; length prefixes separate its values."""
    parts = []
    for value in row:
        if isinstance(value, (bytes, bytearray, memoryview)):
            written = bytes(value)
        else:
            # SQLite's booleans are numbers.
            written = str(int(value) if isinstance(value, bool) else value).encode()
        parts.append(b"%d:%b" % (len(written), written))
    return int.from_bytes(sha256(b"".join(parts)).digest(), "big")


def _log_hash(key: int, tx: int, shared: bytes, tx_hash: Any, topics: Any, data: Any) -> int:  # noqa: ANN401  as any driver has it
    head = b"%d,%d,%d," % (key, tx, len(topics))
    digest = sha256(b"".join((head, shared, tx_hash, topics, data))).digest()
    return int.from_bytes(digest, "big")


def _source_bytes(address: str, topic: str) -> bytes:
    return f"{address}:{topic};".encode()


def _block_bytes(block_hash: Any, time: int) -> bytes:  # noqa: ANN401  bytes of any driver
    return b"%d:%b;" % (time, bytes(block_hash))


def _sums(hashed: Iterable[tuple[int, int]]) -> Sums:
    sums: Sums = {}
    for span, rows in groupby(hashed, key=_SPAN_OF):
        totals = list(map(_HASH, rows))
        sums[span] = sums.get(span, _NOTHING).plus(Checksum(len(totals), sum(totals) % _MODULUS))
    return sums


def _span_of(hashed: tuple[int, int]) -> int:
    return hashed[0] // SPAN_BLOCKS


_SPAN_OF: Callable[[tuple[int, int]], int] = _span_of
_HASH = itemgetter(1)
