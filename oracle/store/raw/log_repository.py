"""Raw logs in normalised rows: see docs/explanation/storage.md#logs.

Rows of `log_row` are canonical; others move to `log_orphan`, and back when their block is
canonical again. `log_block` has exactly one row for each block with canonical logs.
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

from oracle.domain.ids import Hash
from oracle.domain.log_table import INDEX_BITS, MOST_INDEX, LogBlock, LogTable, log_of_row
from oracle.domain.logs import Log
from oracle.errors import FatalError
from oracle.store.bulk import Row, append, append_missing, upsert
from oracle.store.encoding import hexed, raw
from oracle.store.raw.log_sources import LogSources
from oracle.store.raw.raw_checksums import LOGS, RawChecksums, hashed_logs
from oracle.store.tables.log_tables import MOST_BLOCK, log_block, log_orphan, log_row


def key_of(log: Log) -> int:
    """Return the primary key of a log's row."""
    return log.block << INDEX_BITS | log.index


def rows_of(table: LogTable, sources: LogSources) -> list[Row]:
    """Return the rows, in the order of the table's columns; store new sources."""
    rows: list[Row] = []
    for part in table.parts:
        numbers = [sources[source] for source in part.sources]
        rows += [
            (key, tx, numbers[place], tx_hash, topics, data)
            for key, tx, place, tx_hash, topics, data in part.rows
        ]
    sources.save()
    return rows


def log_of(row: Any, blocks: Mapping[int, LogBlock], sources: LogSources) -> Log:  # noqa: ANN401
    """Decode a row of `log_row`."""
    key, tx, source, tx_hash, topics, data = row
    return log_of_row(
        (key, tx, tx_hash, topics, data), blocks[key >> INDEX_BITS], sources.named(source)
    )


def orphan_of(row: Any, sources: LogSources) -> Log:  # noqa: ANN401  a row of any driver
    """Decode a row of `log_orphan`."""
    number, index, block_hash, time, *content = row
    key = number << INDEX_BITS | index
    return log_of((key, *content), {number: (block_hash, time)}, sources)


# Rows per query: large enough for speed, small enough for flat memory.
PAGE = 2_000

_KEY = log_row.c.id
# PostgreSQL shifts only by INTEGER, and literal numbers would be BIGINT.
_BITS = literal_column(str(INDEX_BITS), Integer)
_NUMBER = _KEY.bitwise_rshift(_BITS)
# Rows become orphans unchanged.
_AS_ORPHANS = select(
    _NUMBER,
    _KEY.bitwise_and(MOST_INDEX),
    log_block.c.hash,
    log_block.c.time,
    *(log_row.c[name] for name in ("tx_index", "source", "tx_hash", "topics", "data")),
).join_from(log_row, log_block, log_block.c.number == _NUMBER)
_ORPHAN_KEY = tuple(log_orphan.primary_key.columns)
_IS_ORPHAN = tuple(column == bindparam(f"that_{column.name}") for column in _ORPHAN_KEY)


class LogRepository:
    """Raw logs, keyed by block number, block hash and index in the block."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sources = LogSources(connection)
        self._checksums = RawChecksums(connection)

    def append(self, logs: Sequence[Log]) -> int:
        """Insert logs in bulk; return how many became canonical.

        A canonical log is kept as it is; an orphan becomes canonical again with the new values,
        because it may have been orphaned for wrong ones.

        Raises:
            FatalError: two blocks of one number, or a log index above `MOST_INDEX`.
        """
        if not logs:
            return 0
        table, blocks = _table_of(logs)
        known = self._known(blocks)
        if self._checksums.is_above(min(blocks)):
            self._checksums.add(LOGS, hashed_logs(table))
            return self._append(table, blocks, known)
        with self._checksums.follow(LOGS, min(blocks), max(blocks)):
            return self._append(table, blocks, known)

    def _append(
        self, table: LogTable, blocks: dict[int, LogBlock], known: Mapping[int, LogBlock]
    ) -> int:
        self._drop_orphans(table, blocks)
        fresh = [(n, time, h) for n, (h, time) in blocks.items() if n not in known]
        append(self._connection, log_block, fresh)
        rows = rows_of(table, self._sources)
        # Without stored blocks there are no rows, so PostgreSQL can COPY straight into the table.
        if not known and self._connection.dialect.name != "sqlite":
            append(self._connection, log_row, rows)
            return len(rows)
        return append_missing(self._connection, log_row, rows)

    def replace(self, logs: Sequence[Log]) -> None:
        """Overwrite logs of the same keys, which were proven wrong.

        The given block times apply to all logs of these blocks.

        Raises:
            FatalError: as `append`.
        """
        if not logs:
            return
        table, blocks = _table_of(logs)
        self._known(blocks)
        self._drop_orphans(table, blocks)
        told = [(number, time, block_hash) for number, (block_hash, time) in blocks.items()]
        with self._checksums.follow(LOGS, min(blocks), max(blocks)):
            upsert(self._connection, log_block, told)
            upsert(self._connection, log_row, rows_of(table, self._sources))

    def orphan(self, logs: Sequence[Log]) -> None:
        """Mark these logs as not canonical: proofs show that their block does not contain them."""
        if not logs:
            return
        numbers = {log.block for log in logs}
        with self._checksums.follow(LOGS, min(numbers), max(numbers)):
            for log in logs:
                here = log_block.c.hash == raw(log.block_hash)
                self._set_aside(_KEY.in_([key_of(log)]) & here)
            self._drop_empty(numbers)

    def orphan_above(self, number: int) -> int:
        """Mark every log above block `number` as not canonical; return how many."""
        with self._checksums.follow_above(LOGS, number):
            moved = self._set_aside(_within(number + 1, MOST_BLOCK))
            self._connection.execute(delete(log_block).where(log_block.c.number > number))
        return moved

    def between(self, first: int, last: int, *, canonical: bool = True) -> Iterator[Log]:
        """Yield the logs of blocks `first` to `last`, both included, by block and index.

        Read in pages, so memory stays flat and the same transaction may write in between.
        `canonical=False` yields orphans only.
        """
        if not canonical:
            yield from self._orphans(first, last)
            return
        chosen = select(log_row).where(_within(first, last)).order_by(_KEY).limit(PAGE)
        after = (first << INDEX_BITS) - 1
        while True:
            page = self._connection.execute(chosen.where(after < _KEY)).all()
            if page:
                after = page[-1][0]
                blocks = self._blocks(page[0][0] >> INDEX_BITS, after >> INDEX_BITS)
                yield from [log_of(row, blocks, self._sources) for row in page]
            if len(page) < PAGE:
                return

    def lowest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the lowest block from `number` on that has a canonical log, and its hash."""
        return self._hash_of(log_block.c.number >= number, log_block.c.number)

    def highest_hash(self, number: int) -> tuple[int, Hash] | None:
        """Return the highest block up to `number` that has a canonical log, and its hash."""
        return self._hash_of(log_block.c.number <= number, log_block.c.number.desc())

    def block_after(self, first: int, count: int) -> int | None:
        """Return the block of the `count`-th canonical log from `first` on, or None if fewer."""
        chosen = select(_KEY).where(first << INDEX_BITS <= _KEY).order_by(_KEY)
        row = self._connection.execute(chosen.offset(count - 1).limit(1)).first()
        return None if row is None else row[0] >> INDEX_BITS

    def block_before(self, last: int, count: int) -> int | None:
        """Return the block of the `count`-th canonical log down from `last`, or None if fewer."""
        chosen = select(_KEY).where((last + 1) << INDEX_BITS > _KEY).order_by(_KEY.desc())
        row = self._connection.execute(chosen.offset(count - 1).limit(1)).first()
        return None if row is None else row[0] >> INDEX_BITS

    def count_between(self, first: int, last: int) -> int:
        """Count the canonical logs of blocks `first` to `last`, by the index alone."""
        counted = select(func.count(_KEY)).where(_within(first, last))
        return int(self._connection.execute(counted).scalar_one())

    def last_block(self) -> int | None:
        """Return the highest block that has a canonical log."""
        highest = select(log_block.c.number).order_by(log_block.c.number.desc()).limit(1)
        return self._connection.execute(highest).scalar_one_or_none()

    def count(self, *, canonical: bool = True) -> int:
        """Count the logs; reads the whole table."""
        counted = select(func.count()).select_from(log_row if canonical else log_orphan)
        return int(self._connection.execute(counted).scalar_one())

    def block_of(self, transactions: Iterable[Hash], first: int) -> int | None:
        """Return a block, from `first` on, with a log of one of these transactions, or None."""
        known = [raw(one) for one in transactions]
        chosen = _within(first, MOST_BLOCK) & log_row.c.tx_hash.in_(known)
        found = select(_NUMBER).where(chosen)
        return self._connection.execute(found.limit(1)).scalar_one_or_none()

    def _known(self, blocks: Mapping[int, LogBlock]) -> dict[int, LogBlock]:
        """Return the stored blocks of this span; raise FatalError if a hash differs."""
        known = self._blocks(min(blocks), max(blocks))
        for number, (block_hash, _) in blocks.items():
            if known.get(number, (block_hash, 0))[0] != block_hash:
                raise FatalError(
                    f"logs of another block {number}, {hexed(block_hash)}, than we have: "
                    f"{hexed(known[number][0])}"
                )
        return known

    def _blocks(self, first: int, last: int) -> dict[int, LogBlock]:
        within = select(log_block).where(log_block.c.number.between(first, last))
        return {number: (h, time) for number, time, h in self._connection.execute(within)}

    def _orphans(self, first: int, last: int) -> Iterator[Log]:
        within = select(log_orphan).where(log_orphan.c.block.between(first, last))
        for row in self._connection.execute(within.order_by(*_ORPHAN_KEY)).all():
            yield orphan_of(row, self._sources)

    def _drop_orphans(self, logs: Sequence[Log], blocks: Mapping[int, LogBlock]) -> None:
        """Delete the orphans of these logs, which are inserted again with their new values."""
        within = log_orphan.c.block.between(min(blocks), max(blocks))
        found = self._connection.execute(select(*_ORPHAN_KEY).where(within))
        orphans = {tuple(row) for row in found}
        if not orphans:
            return
        back = {(log.block, log.index, raw(log.block_hash)) for log in logs} & orphans
        names = [f"that_{column.name}" for column in _ORPHAN_KEY]
        if back:
            named = [dict(zip(names, key, strict=True)) for key in back]
            self._connection.execute(delete(log_orphan).where(*_IS_ORPHAN), named)

    def _set_aside(self, chosen: ColumnElement[bool]) -> int:
        """Move rows to the orphans and return how many; their blocks are kept."""
        columns = log_orphan.columns.keys()
        moving = insert(log_orphan).from_select(columns, _AS_ORPHANS.where(chosen))
        self._connection.execute(moving)
        moved = select(_KEY).join_from(log_row, log_block, log_block.c.number == _NUMBER)
        return self._connection.execute(
            delete(log_row).where(_KEY.in_(moved.where(chosen)))
        ).rowcount

    def _drop_empty(self, numbers: Iterable[int]) -> None:
        """Delete those of these blocks that have no canonical log any more."""
        first = log_block.c.number.bitwise_lshift(_BITS)
        rows = exists().where(_KEY.between(first, first + MOST_INDEX))
        named = log_block.c.number.in_(list(numbers))
        self._connection.execute(delete(log_block).where(named, ~rows))

    def _hash_of(
        self, chosen: ColumnElement[bool], order: ColumnElement[Any]
    ) -> tuple[int, Hash] | None:
        found = select(log_block.c.number, log_block.c.hash).where(chosen).order_by(order).limit(1)
        row = self._connection.execute(found).one_or_none()
        return None if row is None else (row[0], Hash(hexed(row[1])))


def _table_of(logs: Sequence[Log]) -> tuple[LogTable, dict[int, LogBlock]]:
    try:
        table = LogTable.of(logs)
        blocks = table.blocks
    except ValueError as error:
        raise FatalError(str(error)) from None
    return table, blocks


def _within(first: int, last: int) -> ColumnElement[bool]:
    """Build the condition that a row belongs to blocks `first` to `last`, both included."""
    above = min(last, MOST_BLOCK) + 1
    return _KEY.between(first << INDEX_BITS, (above << INDEX_BITS) - 1)
