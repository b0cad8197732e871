"""Stores the raw rows of a feed, and how far it was read (docs/explanation/feed.md#storage)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, select, update

from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.domain.ids import Hash
from oracle.errors import FatalError
from oracle.store.bulk import KEYS_PER_QUERY, insert_missing_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.raw.raw_checksums import FEED, RawChecksums, compute_row_hash
from oracle.store.tables.feed_tables import feed_cursor, feed_fault, feed_row, feed_witness

# Maximum number of rows that are read at once.
MAX_ROWS = 20_000
_MAX_BIGINT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """The progress of reading a feed; times are by the feed's clock, in seconds.

    Every row with a time before `settled_to` is settled. `first_id` is None until there is a row.
    `fully_polled_at` is the time of the last poll that returned all rows, or 0. `polls` is how
    often the cursor was moved; a writer must pass the value that it has read.
    """

    stream: int = 1
    settled_id: int = 0
    highest_id: int = 0
    first_id: int | None = None
    polled_at: int = 0
    fully_polled_at: int = 0
    changed_at: int = 0
    row_time: int = 0
    settled_to: int = 0
    compared_id: int = 0
    reread_at: int = 0
    polls: int = 0


class FeedRepository:
    """Access to the tables of the feed, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checksums = RawChecksums(connection)

    # Read cursor.

    def get_cursor(self) -> FeedCursor | None:
        """Return the feed's read cursor, or None if the feed was never polled."""
        row = self._connection.execute(select(feed_cursor)).one_or_none()
        return None if row is None else FeedCursor(*row[1:])

    def move_cursor(self, cursor: FeedCursor, expected_polls: int) -> None:
        """Move the cursor, unless another writer has moved it.

        `expected_polls` is `polls` as it was read, or 0 without a cursor.

        Raises:
            FatalError: another writer has moved the cursor since it was read.
        """
        stored_cursor = self.get_cursor()
        if (0 if stored_cursor is None else stored_cursor.polls) != expected_polls:
            raise FatalError("another process moved the feed cursor; only one writer is allowed")
        values = asdict(cursor) | {"polls": expected_polls + 1}
        upsert_rows(self._connection, feed_cursor, [(1, *values.values())])

    # Content of the rows.

    def append(self, rows: Sequence[FeedRow], *, canonical: bool = True) -> int:
        """Insert new rows, and return their number.

        Rows that are stored as evidence of a conflict are not canonical.
        """
        return insert_missing_rows(
            self._connection,
            feed_row,
            [_encode_feed_row(row, canonical=canonical) for row in rows],
        )

    def list_canonical_rows(self, stream: int, first_id: int, last_id: int) -> list[FeedRow]:
        """Return the canonical rows with ids `first_id` to `last_id`, both included, in order.

        The bounds are limited to the range of the column, because a stored id may be its maximum.
        """
        is_in_range = feed_row.c.id.between(max(first_id, 0), min(last_id, _MAX_BIGINT))
        return self._select_rows(
            _build_canonical_stream_condition(stream), is_in_range, limit=None
        )

    def list_unsettled_rows(self, stream: int) -> list[FeedRow]:
        """Return the first `MAX_ROWS` rows whose time is not settled, in order."""
        return self._select_rows(
            _build_canonical_stream_condition(stream), feed_row.c.time.is_(None)
        )

    def set_times(self, stream: int, time_by_id: Mapping[int, int]) -> None:
        """Set the times of feed rows, given by row id."""
        if time_by_id:
            is_row = and_(
                _build_canonical_stream_condition(stream), feed_row.c.id == bindparam("number")
            )
            update_statement = update(feed_row).where(is_row).values(time=bindparam("seen"))
            rows = [{"number": row_id, "seen": time} for row_id, time in time_by_id.items()]
            self._connection.execute(update_statement, rows)

    # Blocks to which rows are assigned.

    def list_rows_without_block(self, max_time: int) -> list[FeedRow]:
        """Return the settled rows before `max_time` that have no block yet, in order."""
        has_no_block = feed_row.c.block.is_(None)
        return self._select_rows(
            feed_row.c.canonical, has_no_block, feed_row.c.time < max_time, limit=None
        )

    def assign_block(self, block: int, rows: Iterable[FeedRow]) -> None:
        row_list = list(rows)
        parameters = [{"in_stream": row.stream, "number": row.id} for row in row_list]
        if parameters:
            stored_rows = (
                _encode_feed_row(replace(row, block=block), canonical=True) for row in row_list
            )
            self._checksums.add_row_hashes(
                FEED, [(block, compute_row_hash(row)) for row in stored_rows]
            )
            is_in_stream = and_(feed_row.c.stream == bindparam("in_stream"), feed_row.c.canonical)
            is_row = and_(is_in_stream, feed_row.c.id == bindparam("number"))
            self._connection.execute(
                update(feed_row).where(is_row).values(block=block), parameters
            )

    def unassign_blocks_above(self, number: int) -> None:
        """Unassign all rows from blocks above `number`."""
        is_above = feed_row.c.block > number
        with self._checksums.track_removal_above(FEED, number):
            self._connection.execute(update(feed_row).where(is_above).values(block=None))

    def list_rows_of_blocks(self, first_block: int, last_block: int) -> list[FeedRow]:
        """Return the rows assigned to a range of blocks, in order.

        The range includes both ends.
        """
        is_in_range = feed_row.c.block.between(first_block, last_block)
        return self._select_rows(feed_row.c.canonical, is_in_range, limit=None)

    def list_rows_for_tasks(self, stream: int, tasks: Sequence[str], kind: str) -> list[FeedRow]:
        """Return the canonical rows of one kind that concern these tasks."""
        rows: list[FeedRow] = []
        for offset in range(0, len(tasks), KEYS_PER_QUERY):
            is_task = feed_row.c.task.in_(tasks[offset : offset + KEYS_PER_QUERY])
            rows += self._select_rows(
                _build_canonical_stream_condition(stream), is_task, feed_row.c.kind == kind
            )
        return rows

    def count_folded_and_waiting_rows(self) -> tuple[int, int]:
        """Return the number of folded rows, and the number of rows without a block."""
        placed_count = func.count(feed_row.c.block)
        count_query = select(placed_count, func.count() - placed_count).where(feed_row.c.canonical)
        folded_count, waiting_count = self._connection.execute(count_query).one()
        return folded_count, waiting_count

    # Faults of the feed.

    def record_faults(self, faults: Sequence[FeedFault]) -> int:
        """Insert new faults, and return their number."""
        rows = [
            (fault.kind, fault.stream, fault.row, fault.found_at, fault.detail, fault.accepted_at)
            for fault in faults
        ]
        return insert_missing_rows(self._connection, feed_fault, rows)

    def list_faults(self, *, is_open: bool) -> list[FeedFault]:
        """Return the faults, oldest first.

        `is_open` selects faults that were not accepted yet.
        """
        query = select(feed_fault).order_by(
            feed_fault.c.found_at, feed_fault.c.stream, feed_fault.c.row, feed_fault.c.kind
        )
        if is_open:
            query = query.where(feed_fault.c.accepted_at.is_(None))
        return [FeedFault(*row) for row in self._connection.execute(query)]

    def accept_faults(self, now: int) -> int:
        """Record that an operator accepted all open faults, and return their number."""
        is_open = feed_fault.c.accepted_at.is_(None)
        return self._connection.execute(
            update(feed_fault).where(is_open).values(accepted_at=now)
        ).rowcount

    # Times from another reader.

    def save_witness_times(self, times: Iterable[tuple[int, Hash, int]]) -> int:
        """Store the row times that another reader recorded, and return how many were new."""
        rows = [(row_id, decode_hex(hash_), time) for row_id, hash_, time in times]
        return insert_missing_rows(self._connection, feed_witness, rows)

    def get_witness_time_by_row_id(
        self, first_id: int, last_id: int
    ) -> dict[int, tuple[Hash, int]]:
        """Return another reader's hashes and times of the rows in a range of ids.

        The range includes both ends.
        """
        query = select(feed_witness).where(feed_witness.c.id.between(first_id, last_id))
        return {
            row.id: (Hash(encode_hex(row.hash)), row.time)
            for row in self._connection.execute(query)
        }

    def find_next_witness_time(self, row_id: int) -> int | None:
        """Return another reader's time of the next row after `row_id`, if it has one."""
        query = select(feed_witness.c.time).where(feed_witness.c.id > row_id)
        return self._connection.execute(
            query.order_by(feed_witness.c.id).limit(1)
        ).scalar_one_or_none()

    def iterate_settled_rows(self) -> Iterator[FeedRow]:
        """Yield all settled rows in order."""
        yield from self._select_rows(
            feed_row.c.canonical, feed_row.c.time.is_not(None), limit=None
        )

    def _select_rows(
        self, *conditions: ColumnElement[bool], limit: int | None = MAX_ROWS
    ) -> list[FeedRow]:
        query = select(feed_row).where(*conditions).order_by(feed_row.c.stream, feed_row.c.id)
        return [_decode_feed_row(row) for row in self._connection.execute(query.limit(limit))]


def _build_canonical_stream_condition(stream: int) -> ColumnElement[bool]:
    return and_(feed_row.c.stream == stream, feed_row.c.canonical)


def _encode_feed_row(row: FeedRow, *, canonical: bool) -> tuple[Any, ...]:
    content = (row.kind, row.node, row.task, row.args)
    times_and_block = (row.seen_from, row.seen_to, row.time, row.block)
    return (row.stream, row.id, decode_hex(row.hash), *content, *times_and_block, canonical)


def _decode_feed_row(row: Any) -> FeedRow:  # noqa: ANN401  a row of any driver
    return FeedRow(
        id=row.id,
        kind=row.kind,
        node=row.node,
        task=row.task,
        args=row.args,
        stream=row.stream,
        seen_from=row.seen_from,
        seen_to=row.seen_to,
        time=row.time,
        block=row.block,
    )
