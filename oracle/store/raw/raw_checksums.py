"""Stores checksums of raw rows, which reveal lost or changed rows.

For each kind of rows and each span of blocks, the number of rows and the sum of their hashes are
stored. The daemon updates the sum when it inserts or deletes rows, in any order. A change by
another program does not update it. See docs/explanation/storage.md#raw-checksums.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, delete, exists, literal_column, select

from oracle.domain.blocks import BlockRange
from oracle.domain.logs import LOG_INDEX_BITS, MAX_LOG_INDEX, LogRow, LogTable
from oracle.domain.native import native
from oracle.store.bulk import Row, upsert_rows
from oracle.store.tables.chain_tables import call, cursor
from oracle.store.tables.feed_tables import feed_row
from oracle.store.tables.integrity_tables import raw_checksum
from oracle.store.tables.log_tables import MAX_BLOCK, log_block, log_row, log_source

# Number of blocks per span. If rows of a span are damaged, the entire span is read again.
SPAN_BLOCKS = 1_000
LOGS, CALLS, FEED = "log", "call", "feed"
KINDS = (LOGS, CALLS, FEED)

_MODULUS = 1 << 256
_CHECKSUM_BYTES = 32
_PAGE = 5_000

# (Block number, row hash).
HashedRows = Iterator[tuple[int, int]]


class Checksum(NamedTuple):
    """The number of rows and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def add(self, other: "Checksum") -> "Checksum":
        return Checksum(self.rows + other.rows, (self.total + other.total) % _MODULUS)

    def subtract(self, other: "Checksum") -> "Checksum":
        return Checksum(self.rows - other.rows, (self.total - other.total) % _MODULUS)


class DamagedSpan(NamedTuple):
    """A span of blocks whose rows differ from the rows that the daemon committed.

    `missing` is the number of lost rows, which is negative if there are too many rows.
    """

    kind: str
    first: int
    last: int
    missing: int


ChecksumBySpan = dict[int, Checksum]
_EMPTY_CHECKSUM = Checksum()


class RawChecksums:
    """Access to the table `raw_checksum`, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_row_hashes(self, kind: str, hashed_rows: Iterable[tuple[int, int]]) -> None:
        """Add the hashes of new rows in blocks above the cursor."""
        self._apply_changes(kind, _sum_hashes_by_span(hashed_rows))

    def add_log_hashes(self, table: LogTable) -> None:
        """Add the hashes of new logs in blocks above the cursor."""
        self._apply_changes(LOGS, sum_log_hashes(table))

    def is_above_cursor(self, block: int) -> bool:
        """Return whether a block is above the cursor, so that none of its rows is committed.

        If there is no cursor, the result is whether no rows were ever added.
        """
        number: int | None = self._connection.execute(select(cursor.c.number)).scalar_one_or_none()
        if number is not None:
            return block > number
        return self._connection.execute(select(raw_checksum.c.span).limit(1)).first() is None

    @contextmanager
    def track_changes(self, kind: str, first: int, last: int) -> Iterator[None]:
        """Update the checksums after the `with` block has changed rows of these blocks.

        The checksum of a span that was damaged before is not updated. The span is repaired if the
        `with` block restores the committed rows; after any other change it is still damaged.
        """
        first_span = first // SPAN_BLOCKS
        last_span = min(last, MAX_BLOCK) // SPAN_BLOCKS
        first_and_last_block = first_span * SPAN_BLOCKS, (last_span + 1) * SPAN_BLOCKS - 1
        committed_checksums = self._load_stored_checksums(kind, first_span, last_span)
        checksums_before = _sum_hashes_by_span(self._hash_stored_rows(kind, *first_and_last_block))
        yield
        checksums_after = _sum_hashes_by_span(self._hash_stored_rows(kind, *first_and_last_block))
        self._apply_changes(
            kind,
            {
                span: checksums_after.get(span, _EMPTY_CHECKSUM).subtract(
                    checksums_before.get(span, _EMPTY_CHECKSUM)
                )
                for span in checksums_before.keys() | checksums_after.keys()
                if checksums_before.get(span, _EMPTY_CHECKSUM)
                == committed_checksums.get(span, _EMPTY_CHECKSUM)
            },
        )

    @contextmanager
    def track_removal_above(self, kind: str, number: int) -> Iterator[None]:
        """Remove the checksums above block `number` when the `with` block removes the rows."""
        span_index = number // SPAN_BLOCKS
        with self.track_changes(kind, number + 1, (span_index + 1) * SPAN_BLOCKS - 1):
            yield
        is_above = (raw_checksum.c.kind == kind) & (raw_checksum.c.span > span_index)
        self._connection.execute(delete(raw_checksum).where(is_above))

    def find_damaged_spans(self, first: int, last: int) -> list[DamagedSpan]:
        """Read all rows of blocks `first` to `last`, and return the damaged spans."""
        first_span = first // SPAN_BLOCKS
        last_span = last // SPAN_BLOCKS
        damaged_spans = []
        for kind in KINDS:
            committed_checksums = self._load_stored_checksums(kind, first_span, last_span)
            current_checksums = _sum_hashes_by_span(
                self._hash_stored_rows(
                    kind, first_span * SPAN_BLOCKS, (last_span + 1) * SPAN_BLOCKS - 1
                )
            )
            empty_spans = (
                self._find_spans_of_empty_blocks(first_span, last_span)
                if kind == LOGS
                else set[int]()
            )
            for span in sorted(
                committed_checksums.keys() | current_checksums.keys() | empty_spans
            ):
                difference = committed_checksums.get(span, _EMPTY_CHECKSUM).subtract(
                    current_checksums.get(span, _EMPTY_CHECKSUM)
                )
                if difference != _EMPTY_CHECKSUM or span in empty_spans:
                    first_block = max(first, span * SPAN_BLOCKS)
                    last_block = min(last, (span + 1) * SPAN_BLOCKS - 1)
                    damaged_spans.append(
                        DamagedSpan(kind, first_block, last_block, difference.rows)
                    )
        return damaged_spans

    def recompute_checksums(self, blocks: BlockRange, indexed: BlockRange) -> None:
        """Recompute the checksums of the spans whose indexed blocks are all in `blocks`.

        The caller must have compared the rows with the chain and found them equal. Rows of
        `log_block` without logs are deleted.
        """
        first_and_last_span = blocks.first // SPAN_BLOCKS, blocks.last // SPAN_BLOCKS
        self._connection.execute(
            delete(log_block).where(_build_empty_block_condition(*first_and_last_span))
        )
        for kind in (LOGS, CALLS):
            for span in range(blocks.first // SPAN_BLOCKS, blocks.last // SPAN_BLOCKS + 1):
                low_block = span * SPAN_BLOCKS
                high_block = (span + 1) * SPAN_BLOCKS - 1
                if (
                    max(low_block, indexed.first) < blocks.first
                    or min(high_block, indexed.last) > blocks.last
                ):
                    continue
                current_checksum = _sum_hashes_by_span(
                    self._hash_stored_rows(kind, low_block, high_block)
                ).get(span, _EMPTY_CHECKSUM)
                stored_checksum = self._load_stored_checksums(kind, span, span).get(
                    span, _EMPTY_CHECKSUM
                )
                self._apply_changes(kind, {span: current_checksum.subtract(stored_checksum)})

    def _load_stored_checksums(self, kind: str, first_span: int, last_span: int) -> ChecksumBySpan:
        columns = raw_checksum.c
        query = select(columns.span, columns.rows, columns.checksum).where(
            columns.kind == kind, columns.span.between(first_span, last_span)
        )
        return {
            span: Checksum(rows, int.from_bytes(total, "big"))
            for span, rows, total in self._connection.execute(query).all()
        }

    def _apply_changes(self, kind: str, changes: Mapping[int, Checksum]) -> None:
        nonzero_changes = {
            span: change for span, change in changes.items() if change != _EMPTY_CHECKSUM
        }
        if not nonzero_changes:
            return
        stored_checksums = self._load_stored_checksums(
            kind, min(nonzero_changes), max(nonzero_changes)
        )
        rows: list[Row] = []
        for span, change in nonzero_changes.items():
            updated_checksum = stored_checksums.get(span, _EMPTY_CHECKSUM).add(change)
            if updated_checksum == _EMPTY_CHECKSUM:
                is_stored_span = (raw_checksum.c.kind == kind) & (raw_checksum.c.span == span)
                self._connection.execute(delete(raw_checksum).where(is_stored_span))
            else:
                rows.append(
                    (
                        kind,
                        span,
                        updated_checksum.rows,
                        updated_checksum.total.to_bytes(_CHECKSUM_BYTES, "big"),
                    )
                )
        upsert_rows(self._connection, raw_checksum, rows)

    def _hash_stored_rows(self, kind: str, first: int, last: int) -> HashedRows:
        if kind == LOGS:
            return self._hash_stored_logs(first, min(last, MAX_BLOCK))
        if kind == CALLS:
            return self._hash_table_rows(
                call.c.block.between(first, last) & call.c.canonical, call
            )
        condition = feed_row.c.block.between(first, last) & feed_row.c.canonical
        return self._hash_table_rows(condition, feed_row)

    def _hash_stored_logs(self, first: int, last: int) -> HashedRows:
        """Yield the block number and the hash of each stored log.

        If the row of a log's block or source is missing, an empty value is hashed in its place.
        """
        sources = {
            source_number: _encode_log_source(address.hex(), topic.hex())
            for source_number, address, topic in self._connection.execute(select(log_source)).all()
        }
        last_key = (first << LOG_INDEX_BITS) - 1
        end_key = ((last + 1) << LOG_INDEX_BITS) - 1
        query = select(log_row).where(log_row.c.id <= end_key).order_by(log_row.c.id).limit(_PAGE)
        while True:
            page = self._connection.execute(query.where(log_row.c.id > last_key)).all()
            blocks: dict[int, bytes] = {}
            if page:
                last_key = page[-1][0]
                condition = log_block.c.number.between(
                    page[0][0] >> LOG_INDEX_BITS, last_key >> LOG_INDEX_BITS
                )
                blocks = {
                    block_number: _encode_log_block(block_hash, time)
                    for block_number, time, block_hash in self._connection.execute(
                        select(log_block).where(condition)
                    ).all()
                }
            for key, tx, source, tx_hash, topics, data in page:
                block_number = key >> LOG_INDEX_BITS
                block_and_source = blocks.get(block_number, b"") + sources.get(source, b"")
                yield (
                    block_number,
                    _compute_log_hash(key, tx, block_and_source, tx_hash, topics, data),
                )
            if len(page) < _PAGE:
                return

    def _find_spans_of_empty_blocks(self, first_span: int, last_span: int) -> set[int]:
        """Find the spans with rows of `log_block` that have no logs.

        A database that is not damaged has no such rows.
        """
        query = select(log_block.c.number).where(
            _build_empty_block_condition(first_span, last_span)
        )
        return {row[0] // SPAN_BLOCKS for row in self._connection.execute(query).all()}

    def _hash_table_rows(self, condition: Any, table: Any) -> HashedRows:  # noqa: ANN401
        block_column = table.columns.keys().index("block")
        query = select(table).where(condition).execution_options(yield_per=_PAGE)
        for row in self._connection.execute(query):
            yield row[block_column], compute_row_hash(row)


def _build_empty_block_condition(first_span: int, last_span: int) -> ColumnElement[bool]:
    """Build the SQL condition for rows of `log_block` without logs in these spans."""
    first_key = log_block.c.number.bitwise_lshift(literal_column(str(LOG_INDEX_BITS), Integer))
    has_logs = exists().where(log_row.c.id.between(first_key, first_key + MAX_LOG_INDEX))
    is_in_spans = log_block.c.number.between(
        first_span * SPAN_BLOCKS, (last_span + 1) * SPAN_BLOCKS - 1
    )
    return is_in_spans & ~has_logs


def sum_log_hashes(table: LogTable) -> ChecksumBySpan:
    """Compute the checksums of logs by block span.

    They equal the checksums of the stored rows.
    """
    checksum_by_span: ChecksumBySpan = {}
    for part in table.parts:
        sources = [_encode_log_source(address[2:], topic[2:]) for address, topic in part.sources]
        blocks = {number: _encode_log_block(*block) for number, block in part.blocks.items()}
        native_sums = None
        if native is not None:
            native_sums = native.sum_row_hashes([*part.rows], blocks, sources, SPAN_BLOCKS)
        sums: Iterable[tuple[int, Checksum]] = (
            _sum_hashes_by_span(_hash_log_rows(part.rows, blocks, sources)).items()
            if native_sums is None
            else (
                (span, Checksum(rows, int.from_bytes(total))) for span, rows, total in native_sums
            )
        )
        for span, checksum in sums:
            checksum_by_span[span] = checksum_by_span.get(span, _EMPTY_CHECKSUM).add(checksum)
    return checksum_by_span


def _hash_log_rows(
    rows: Sequence[LogRow], blocks: Mapping[int, bytes], sources: Sequence[bytes]
) -> HashedRows:
    for key, tx_index, source_index, tx_hash, topics, data in rows:
        block_number = key >> LOG_INDEX_BITS
        block_and_source = blocks[block_number] + sources[source_index]
        yield (
            block_number,
            _compute_log_hash(key, tx_index, block_and_source, tx_hash, topics, data),
        )


def compute_row_hash(row: Iterable[Any]) -> int:
    """Compute the hash of a call row or feed row.

    Each value is hashed with its length, so that the borders between values are part of the hash.
    """
    parts = []
    for value in row:
        if isinstance(value, (bytes, bytearray, memoryview)):
            encoded_value = bytes(value)
        else:
            # Booleans are hashed as numbers, because SQLite returns them as numbers.
            encoded_value = str(int(value) if isinstance(value, bool) else value).encode()
        parts.append(b"%d:%b" % (len(encoded_value), encoded_value))
    return int.from_bytes(sha256(b"".join(parts)).digest(), "big")


def _compute_log_hash(
    key: int,
    tx_index: int,
    block_and_source: bytes,
    tx_hash: Any,  # noqa: ANN401
    topics: Any,  # noqa: ANN401
    data: Any,  # noqa: ANN401
) -> int:
    encoded_head = b"%d,%d,%d," % (key, tx_index, len(topics))
    digest = sha256(b"".join((encoded_head, block_and_source, tx_hash, topics, data))).digest()
    return int.from_bytes(digest, "big")


def _encode_log_source(address: str, topic: str) -> bytes:
    return f"{address}:{topic};".encode()


def _encode_log_block(block_hash: Any, time: int) -> bytes:  # noqa: ANN401
    return b"%d:%b;" % (time, bytes(block_hash))


def _sum_hashes_by_span(hashed_rows: Iterable[tuple[int, int]]) -> ChecksumBySpan:
    checksum_by_span: ChecksumBySpan = {}
    for span, rows in groupby(hashed_rows, key=_SPAN_OF):
        hashes = list(map(_HASH, rows))
        checksum_by_span[span] = checksum_by_span.get(span, _EMPTY_CHECKSUM).add(
            Checksum(len(hashes), sum(hashes) % _MODULUS)
        )
    return checksum_by_span


def _get_span_index(hashed_row: tuple[int, int]) -> int:
    return hashed_row[0] // SPAN_BLOCKS


_SPAN_OF: Callable[[tuple[int, int]], int] = _get_span_index
_HASH = itemgetter(1)
