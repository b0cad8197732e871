"""Raw rows of a feed, and its read cursor (docs/explanation/feed.md#what-is-stored)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, select, update

from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.domain.ids import Hash
from oracle.errors import FatalError
from oracle.store.bulk import KEYS, append_missing, upsert
from oracle.store.encoding import hexed, raw
from oracle.store.raw.raw_checksums import FEED, RawChecksums, row_hash
from oracle.store.tables.feed_tables import feed_cursor, feed_fault, feed_row, feed_witness

# Rows settled in one transaction; more wait for the next.
MOST_ROWS = 20_000
_MAX_BIGINT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """Read progress of the feed; times by the feed's clock, in seconds.

    Every row with a time before `settled_to` is settled. `first_id` is None until there is a row.
    `whole_at` is the last poll that returned all rows, or 0. `polls` counts the moves; a writer
    passes the count that it read.
    """

    stream: int = 1
    settled_id: int = 0
    highest_id: int = 0
    first_id: int | None = None
    asked_at: int = 0
    whole_at: int = 0
    changed_at: int = 0
    row_time: int = 0
    settled_to: int = 0
    compared_id: int = 0
    reread_at: int = 0
    polls: int = 0


class FeedRepository:
    """Tables of the feed, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checksums = RawChecksums(connection)

    # Read cursor.

    def cursor(self) -> FeedCursor | None:
        """Return the read cursor, or None if the feed was never polled."""
        row = self._connection.execute(select(feed_cursor)).one_or_none()
        return None if row is None else FeedCursor(*row[1:])

    def move(self, cursor: FeedCursor, polls: int) -> None:
        """Move the cursor; `expected_polls` is the count that was read, 0 if there was none.

        Raises:
            FatalError: another writer has moved the cursor since.
        """
        known = self.cursor()
        if (0 if known is None else known.polls) != polls:
            raise FatalError("another process moved the feed's cursor: only one may write")
        values = asdict(cursor) | {"polls": polls + 1}
        upsert(self._connection, feed_cursor, [(1, *values.values())])

    # Content of the rows.

    def append(self, rows: Sequence[FeedRow], *, canonical: bool = True) -> int:
        """Insert new rows and return how many; `canonical` is False for evidence."""
        return append_missing(
            self._connection, feed_row, [_row_of(row, canonical=canonical) for row in rows]
        )

    def between(self, stream: int, first: int, last: int) -> list[FeedRow]:
        """Return the canonical rows of ids `first_id` to `last_id`, both included, in order.

        Bounds are clamped to the range of the column: a stored id may be the largest possible.
        """
        within = feed_row.c.id.between(max(first, 0), min(last, _MAX_BIGINT))
        return self._rows(_of(stream), within, limit=None)

    def highest(self, stream: int, last: int) -> FeedRow | None:
        """Return the canonical row of the highest id up to `last_id`."""
        chosen = select(feed_row).where(_of(stream), feed_row.c.id <= last)
        row = self._connection.execute(chosen.order_by(feed_row.c.id.desc()).limit(1)).first()
        return None if row is None else _feed_row(row)

    def evidence(self, stream: int, number: int) -> list[FeedRow]:
        """Return the conflicting rows of this id, beside the one that is folded."""
        theirs = and_(feed_row.c.stream == stream, ~feed_row.c.canonical)
        return self._rows(theirs, feed_row.c.id == number)

    def unsettled(self, stream: int) -> list[FeedRow]:
        """Return the first `MAX_ROWS` rows whose time may still change, in order."""
        return self._rows(_of(stream), feed_row.c.time.is_(None))

    def settle(self, stream: int, times: Mapping[int, int]) -> None:
        """Set the times of rows, by id."""
        if times:
            here = and_(_of(stream), feed_row.c.id == bindparam("number"))
            settled = update(feed_row).where(here).values(time=bindparam("seen"))
            rows = [{"number": number, "seen": time} for number, time in times.items()]
            self._connection.execute(settled, rows)

    # Place of the rows in the chain's order.

    def unplaced(self, before: int) -> list[FeedRow]:
        """Return settled rows before `max_time` that have no block yet, in order."""
        waiting = feed_row.c.block.is_(None)
        return self._rows(feed_row.c.canonical, waiting, feed_row.c.time < before, limit=None)

    def place(self, block: int, rows: Iterable[FeedRow]) -> None:
        """Set the block of rows."""
        chosen = list(rows)
        placed = [{"of": row.stream, "number": row.id} for row in chosen]
        if placed:
            stored = (_row_of(replace(row, block=block), canonical=True) for row in chosen)
            self._checksums.add(FEED, [(block, row_hash(row)) for row in stored])
            is_of = and_(feed_row.c.stream == bindparam("of"), feed_row.c.canonical)
            here = and_(is_of, feed_row.c.id == bindparam("number"))
            self._connection.execute(update(feed_row).where(here).values(block=block), placed)

    def unplace_above(self, number: int) -> None:
        """Clear the block of rows above block `number`."""
        above = feed_row.c.block > number
        with self._checksums.follow_above(FEED, number):
            self._connection.execute(update(feed_row).where(above).values(block=None))

    def placed(self, first: int, last: int) -> list[FeedRow]:
        """Return the rows of blocks `first_block` to `last_block`, in order."""
        within = feed_row.c.block.between(first, last)
        return self._rows(feed_row.c.canonical, within, limit=None)

    def of_tasks(self, stream: int, tasks: Sequence[str], kind: str) -> list[FeedRow]:
        """Return the canonical rows of one kind about these tasks."""
        found: list[FeedRow] = []
        for at in range(0, len(tasks), KEYS):
            named = feed_row.c.task.in_(tasks[at : at + KEYS])
            found += self._rows(_of(stream), named, feed_row.c.kind == kind)
        return found

    def counts(self) -> tuple[int, int]:
        """Count the folded rows, and those that wait for a time or a block."""
        placed = func.count(feed_row.c.block)
        counted = select(placed, func.count() - placed).where(feed_row.c.canonical)
        folded, waiting = self._connection.execute(counted).one()
        return folded, waiting

    # Faults of the feed.

    def note(self, faults: Sequence[FeedFault]) -> int:
        """Insert new faults; return how many."""
        rows = [
            (one.kind, one.stream, one.row, one.found_at, one.detail, one.accepted_at)
            for one in faults
        ]
        return append_missing(self._connection, feed_fault, rows)

    def faults(self, *, is_open: bool) -> list[FeedFault]:
        """Return the faults, oldest first; `is_open` selects those not accepted yet."""
        chosen = select(feed_fault).order_by(
            feed_fault.c.found_at, feed_fault.c.stream, feed_fault.c.row, feed_fault.c.kind
        )
        if is_open:
            chosen = chosen.where(feed_fault.c.accepted_at.is_(None))
        return [FeedFault(*row) for row in self._connection.execute(chosen)]

    def accept(self, now: int) -> int:
        """Record that an operator accepted all open faults; return how many."""
        opened = feed_fault.c.accepted_at.is_(None)
        return self._connection.execute(
            update(feed_fault).where(opened).values(accepted_at=now)
        ).rowcount

    # Times from another reader.

    def bear_witness(self, times: Iterable[tuple[int, Hash, int]]) -> int:
        """Store another reader's times (id, row hash, time); return how many are new."""
        rows = [(number, raw(hash_), time) for number, hash_, time in times]
        return append_missing(self._connection, feed_witness, rows)

    def witnessed(self, first: int, last: int) -> dict[int, tuple[Hash, int]]:
        """Return another reader's hashes and times of rows `first_id` to `last_id`, by id."""
        chosen = select(feed_witness).where(feed_witness.c.id.between(first, last))
        return {
            row.id: (Hash(hexed(row.hash)), row.time) for row in self._connection.execute(chosen)
        }

    def witnessed_above(self, number: int) -> int | None:
        """Return another reader's time of the first row above `row_id`, or None."""
        chosen = select(feed_witness.c.time).where(feed_witness.c.id > number)
        return self._connection.execute(
            chosen.order_by(feed_witness.c.id).limit(1)
        ).scalar_one_or_none()

    def settled(self) -> Iterator[FeedRow]:
        """Yield every settled row in order, as for a witness file."""
        yield from self._rows(feed_row.c.canonical, feed_row.c.time.is_not(None), limit=None)

    def _rows(self, *chosen: ColumnElement[bool], limit: int | None = MOST_ROWS) -> list[FeedRow]:
        ordered = select(feed_row).where(*chosen).order_by(feed_row.c.stream, feed_row.c.id)
        return [_feed_row(row) for row in self._connection.execute(ordered.limit(limit))]


def _of(stream: int) -> ColumnElement[bool]:
    return and_(feed_row.c.stream == stream, feed_row.c.canonical)


def _row_of(row: FeedRow, *, canonical: bool) -> tuple[Any, ...]:
    said = (row.kind, row.node, row.task, row.args)
    seen = (row.seen_from, row.seen_to, row.time, row.block)
    return (row.stream, row.id, raw(row.hash), *said, *seen, canonical)


def _feed_row(row: Any) -> FeedRow:  # noqa: ANN401  a row of any driver
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
