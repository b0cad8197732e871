"""Stores raw logs in normalised rows (docs/explanation/storage.md#logs).

Canonical logs are in `log_row`. An orphaned log is moved to `log_orphan`, and moved back when its
block becomes canonical again. `log_block` contains exactly one row for each block with canonical
logs. `log_source` assigns numbers to pairs of contract and first topic, to which log rows refer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
)

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import (
    LOG_INDEX_BITS,
    MAX_LOG_INDEX,
    Log,
    LogBlock,
    LogSource,
    LogTable,
    build_log,
)
from oracle.errors import FatalError
from oracle.store.bulk import KEYS_PER_QUERY, Row, insert_missing_rows, insert_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.raw.raw_checksums import LOGS, RawChecksums
from oracle.store.tables.log_tables import MAX_BLOCK, log_block, log_orphan, log_row, log_source


class LogSources(dict[LogSource, int]):
    """The rows of `log_source`, loaded on first use.

    There are few rows, and they never change. The lookup of an unknown source assigns the next
    number to it, and `save` stores this number. Therefore numbers are in the order in which
    sources first appear on the chain.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._source_by_number: dict[int, LogSource] = {}
        self._is_read = False
        self._new_rows: list[Row] = []

    def __missing__(self, source: LogSource) -> int:
        self._load_sources()
        if source not in self:
            address, topic = source
            source_number = self[source] = len(self) + 1
            self._source_by_number[source_number] = source
            self._new_rows.append(
                (source_number, decode_hex(address), decode_hex(topic) if topic else b"")
            )
        return self[source]

    def save(self) -> None:
        """Insert the log sources that are not stored yet."""
        insert_rows(self._connection, log_source, self._new_rows)
        self._new_rows = []

    def get_source(self, number: int) -> LogSource:
        self._load_sources()
        return self._source_by_number[number]

    def _load_sources(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for number, address, topic in self._connection.execute(select(log_source)):
            source = Address(encode_hex(address)), encode_hex(topic) if topic else ""
            self._source_by_number[number] = source
            self[source] = number


def compute_row_key(log: Log) -> int:
    """Return the primary key of a log in `log_row`."""
    return log.block << LOG_INDEX_BITS | log.index


def encode_logs_and_save_sources(table: LogTable, sources: LogSources) -> list[Row]:
    """Encode logs as rows of `log_row`, and insert new sources into `log_source`."""
    rows: list[Row] = []
    for part in table.parts:
        source_ids = [sources[source] for source in part.sources]
        rows += [
            (key, tx_index, source_ids[source_index], tx_hash, topics, data)
            for key, tx_index, source_index, tx_hash, topics, data in part.rows
        ]
    sources.save()
    return rows


def decode_log_row(row: Any, blocks: Mapping[int, LogBlock], sources: LogSources) -> Log:  # noqa: ANN401
    """Decode a row of the table `log_row`."""
    key, tx_index, source, tx_hash, topics, data = row
    return build_log(
        (key, tx_index, tx_hash, topics, data),
        blocks[key >> LOG_INDEX_BITS],
        sources.get_source(source),
    )


def decode_orphan_row(row: Any, sources: LogSources) -> Log:  # noqa: ANN401  a row of any driver
    """Decode a row of the table `log_orphan`."""
    number, log_index, block_hash, time, *values = row
    key = number << LOG_INDEX_BITS | log_index
    return decode_log_row((key, *values), {number: (block_hash, time)}, sources)


# Number of rows per query. It is large enough to be fast, and small enough to need little memory.
PAGE_ROWS = 2_000

_KEY = log_row.c.id
# This is a literal INTEGER, because PostgreSQL cannot shift by a BIGINT parameter.
_INDEX_BITS = literal_column(str(LOG_INDEX_BITS), Integer)
_BLOCK_NUMBER = _KEY.bitwise_rshift(_INDEX_BITS)
# Rows of `log_row`, with the columns of `log_orphan`.
_AS_ORPHANS = select(
    _BLOCK_NUMBER,
    _KEY.bitwise_and(MAX_LOG_INDEX),
    log_block.c.hash,
    log_block.c.time,
    *(log_row.c[name] for name in ("tx_index", "source", "tx_hash", "topics", "data")),
).join_from(log_row, log_block, log_block.c.number == _BLOCK_NUMBER)
_ORPHAN_KEY = tuple(log_orphan.primary_key.columns)
_IS_ORPHAN = tuple(column == bindparam(f"that_{column.name}") for column in _ORPHAN_KEY)


class LogRepository:
    """Access to raw logs, by block number, block hash and index in the block."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sources = LogSources(connection)
        self._checksums = RawChecksums(connection)

    def append(self, logs: Sequence[Log]) -> int:
        """Insert logs in bulk, and return how many became canonical.

        A stored canonical log is kept as it is. A stored orphan becomes canonical again with the
        new values, because it may have been orphaned for its wrong values.

        Raises:
            FatalError: two different blocks have the same number, or a log index is above
                `MAX_LOG_INDEX`.
        """
        if not logs:
            return 0
        table, blocks = _build_log_table(logs)
        known_blocks = self._load_known_blocks(blocks)
        if self._checksums.is_above_cursor(min(blocks)):
            self._checksums.add_log_hashes(table)
            return self._append_to_blocks(table, blocks, known_blocks)
        with self._checksums.track_changes(LOGS, min(blocks), max(blocks)):
            return self._append_to_blocks(table, blocks, known_blocks)

    def _append_to_blocks(
        self, table: LogTable, blocks: dict[int, LogBlock], known_blocks: Mapping[int, LogBlock]
    ) -> int:
        self._delete_orphans(table, blocks)
        new_block_rows = [
            (number, time, block_hash)
            for number, (block_hash, time) in blocks.items()
            if number not in known_blocks
        ]
        insert_rows(self._connection, log_block, new_block_rows)
        rows = encode_logs_and_save_sources(table, self._sources)
        # If none of the blocks is stored, no row can exist, so PostgreSQL can use COPY directly.
        if not known_blocks and self._connection.dialect.name != "sqlite":
            insert_rows(self._connection, log_row, rows)
            return len(rows)
        return insert_missing_rows(self._connection, log_row, rows)

    def replace(self, logs: Sequence[Log]) -> None:
        """Overwrite the stored logs that have the same keys and were proven wrong.

        The given block times apply to all logs of these blocks.

        Raises:
            FatalError: see `append`.
        """
        if not logs:
            return
        table, blocks = _build_log_table(logs)
        self._load_known_blocks(blocks)
        self._delete_orphans(table, blocks)
        block_rows = [(number, time, block_hash) for number, (block_hash, time) in blocks.items()]
        with self._checksums.track_changes(LOGS, min(blocks), max(blocks)):
            upsert_rows(self._connection, log_block, block_rows)
            upsert_rows(
                self._connection, log_row, encode_logs_and_save_sources(table, self._sources)
            )

    def orphan(self, logs: Sequence[Log]) -> None:
        """Mark logs as not canonical, because proofs show that they are not in their blocks."""
        if not logs:
            return
        block_numbers = {log.block for log in logs}
        with self._checksums.track_changes(LOGS, min(block_numbers), max(block_numbers)):
            for log in logs:
                is_in_block = log_block.c.hash == decode_hex(log.block_hash)
                self._move_to_orphans(_KEY.in_([compute_row_key(log)]) & is_in_block)
            self._delete_empty_blocks(block_numbers)

    def orphan_above(self, number: int) -> int:
        """Mark all logs above block `number` as not canonical, and return their number."""
        with self._checksums.track_removal_above(LOGS, number):
            moved_count = self._move_to_orphans(_build_range_condition(number + 1, MAX_BLOCK))
            self._connection.execute(delete(log_block).where(log_block.c.number > number))
        return moved_count

    def iterate_between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Log]:
        """Yield the logs of blocks `first` to `last`, ordered by block and index.

        Both blocks are included. Logs are read in pages, so that memory use stays constant and the
        same transaction may write meanwhile. `canonical=False` yields only orphans.
        """
        if not canonical:
            yield from self._iterate_orphans(first, last)
            return
        query = (
            select(log_row)
            .where(_build_range_condition(first, last))
            .order_by(_KEY)
            .limit(PAGE_ROWS)
        )
        last_key = (first << LOG_INDEX_BITS) - 1
        while True:
            page = self._connection.execute(query.where(last_key < _KEY)).all()
            if page:
                last_key = page[-1][0]
                blocks = self._load_blocks(
                    page[0][0] >> LOG_INDEX_BITS, last_key >> LOG_INDEX_BITS
                )
                yield from [decode_log_row(row, blocks, self._sources) for row in page]
            if len(page) < PAGE_ROWS:
                return

    def get_transaction_hashes(
        self, positions: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], Hash]:
        """Return the transaction hashes of stored canonical logs, by block and log index."""
        log_keys = sorted(block << LOG_INDEX_BITS | log_index for block, log_index in positions)
        hash_by_position = {}
        for offset in range(0, len(log_keys), KEYS_PER_QUERY):
            query = select(_KEY, log_row.c.tx_hash).where(
                _KEY.in_(log_keys[offset : offset + KEYS_PER_QUERY])
            )
            for key, tx_hash in self._connection.execute(query):
                block_and_log_index = key >> LOG_INDEX_BITS, key & MAX_LOG_INDEX
                hash_by_position[block_and_log_index] = Hash(encode_hex(tx_hash))
        return hash_by_position

    def find_lowest_block_from(self, number: int) -> tuple[int, Hash] | None:
        """Return number and hash of the first block from `number` on with a canonical log."""
        return self._find_block(log_block.c.number >= number, log_block.c.number)

    def find_highest_block_up_to(self, number: int) -> tuple[int, Hash] | None:
        """Return number and hash of the last block up to `number` with a canonical log."""
        return self._find_block(log_block.c.number <= number, log_block.c.number.desc())

    def find_block_of_nth_log(self, first: int, count: int) -> int | None:
        """Return the block of the n-th canonical log from block `first` on.

        Here, n is `count`. Return None if there are fewer logs.
        """
        query = select(_KEY).where(first << LOG_INDEX_BITS <= _KEY).order_by(_KEY)
        row = self._connection.execute(query.offset(count - 1).limit(1)).first()
        return None if row is None else row[0] >> LOG_INDEX_BITS

    def find_block_of_nth_last_log(self, last: int, count: int) -> int | None:
        """Return the block of the n-th last canonical log up to block `last`.

        Here, n is `count`. Return None if there are fewer logs.
        """
        query = select(_KEY).where((last + 1) << LOG_INDEX_BITS > _KEY).order_by(_KEY.desc())
        row = self._connection.execute(query.offset(count - 1).limit(1)).first()
        return None if row is None else row[0] >> LOG_INDEX_BITS

    def count_between(self, first: int, last: int) -> int:
        """Count the canonical logs of blocks `first` to `last`."""
        count_query = select(func.count(_KEY)).where(_build_range_condition(first, last))
        return int(self._connection.execute(count_query).scalar_one())

    def find_highest_block(self) -> int | None:
        """Return the highest block that has a canonical log, or None if there is none."""
        highest_query = select(log_block.c.number).order_by(log_block.c.number.desc()).limit(1)
        return self._connection.execute(highest_query).scalar_one_or_none()

    def count(self, *, canonical: bool = True) -> int:
        """Count the logs by reading the whole table."""
        count_query = select(func.count()).select_from(log_row if canonical else log_orphan)
        return int(self._connection.execute(count_query).scalar_one())

    def find_transaction_block(self, tx_hashes: Iterable[Hash], first: int) -> int | None:
        """Return a block from `first` on with a log of one of these transactions, if any."""
        stored_hashes = [decode_hex(tx_hash) for tx_hash in tx_hashes]
        condition = _build_range_condition(first, MAX_BLOCK) & log_row.c.tx_hash.in_(stored_hashes)
        query = select(_BLOCK_NUMBER).where(condition)
        return self._connection.execute(query.limit(1)).scalar_one_or_none()

    def _load_known_blocks(self, blocks: Mapping[int, LogBlock]) -> dict[int, LogBlock]:
        """Return the stored blocks of this span, and check that their hashes are the same.

        Raises:
            FatalError: a hash differs.
        """
        known_blocks = self._load_blocks(min(blocks), max(blocks))
        for number, (block_hash, _) in blocks.items():
            if known_blocks.get(number, (block_hash, 0))[0] != block_hash:
                raise FatalError(
                    f"the logs of block {number} have block hash {encode_hex(block_hash)}; "
                    f"expected the stored hash {encode_hex(known_blocks[number][0])}"
                )
        return known_blocks

    def _load_blocks(self, first: int, last: int) -> dict[int, LogBlock]:
        query = select(log_block).where(log_block.c.number.between(first, last))
        return {
            number: (block_hash, time)
            for number, time, block_hash in self._connection.execute(query)
        }

    def _iterate_orphans(self, first: int, last: int) -> Iterator[Log]:
        query = select(log_orphan).where(log_orphan.c.block.between(first, last))
        for row in self._connection.execute(query.order_by(*_ORPHAN_KEY)).all():
            yield decode_orphan_row(row, self._sources)

    def _delete_orphans(self, logs: Sequence[Log], blocks: Mapping[int, LogBlock]) -> None:
        """Delete the orphans of these logs, which the caller inserts again."""
        is_in_range = log_orphan.c.block.between(min(blocks), max(blocks))
        rows = self._connection.execute(select(*_ORPHAN_KEY).where(is_in_range))
        orphan_keys = {tuple(row) for row in rows}
        if not orphan_keys:
            return
        returning_keys = {
            (log.block, log.index, decode_hex(log.block_hash)) for log in logs
        } & orphan_keys
        parameter_names = [f"that_{column.name}" for column in _ORPHAN_KEY]
        if returning_keys:
            parameters = [dict(zip(parameter_names, key, strict=True)) for key in returning_keys]
            self._connection.execute(delete(log_orphan).where(*_IS_ORPHAN), parameters)

    def _move_to_orphans(self, condition: ColumnElement[bool]) -> int:
        """Move rows from `log_row` to `log_orphan`, and return how many were moved.

        `log_block` is not changed.
        """
        columns = log_orphan.columns.keys()
        insert_orphans = insert(log_orphan).from_select(columns, _AS_ORPHANS.where(condition))
        self._connection.execute(insert_orphans)
        moved_keys = select(_KEY).join_from(
            log_row, log_block, log_block.c.number == _BLOCK_NUMBER
        )
        return self._connection.execute(
            delete(log_row).where(_KEY.in_(moved_keys.where(condition)))
        ).rowcount

    def _delete_empty_blocks(self, numbers: Iterable[int]) -> None:
        """Delete the given rows of `log_block` that have no canonical log any more."""
        first_key = log_block.c.number.bitwise_lshift(_INDEX_BITS)
        has_logs = exists().where(_KEY.between(first_key, first_key + MAX_LOG_INDEX))
        is_listed = log_block.c.number.in_(list(numbers))
        self._connection.execute(delete(log_block).where(is_listed, ~has_logs))

    def _find_block(
        self, condition: ColumnElement[bool], order: ColumnElement[Any]
    ) -> tuple[int, Hash] | None:
        query = (
            select(log_block.c.number, log_block.c.hash).where(condition).order_by(order).limit(1)
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else (row[0], Hash(encode_hex(row[1])))


def _build_log_table(logs: Sequence[Log]) -> tuple[LogTable, dict[int, LogBlock]]:
    try:
        table = LogTable.from_logs(logs)
        blocks = table.blocks
    except ValueError as error:
        raise FatalError(str(error)) from None
    return table, blocks


def _build_range_condition(first: int, last: int) -> ColumnElement[bool]:
    """Build the SQL condition for rows of blocks `first` to `last`, both included."""
    end_block = min(last, MAX_BLOCK) + 1
    return _KEY.between(first << LOG_INDEX_BITS, (end_block << LOG_INDEX_BITS) - 1)
