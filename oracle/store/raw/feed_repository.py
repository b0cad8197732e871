"""A feed's raw rows and how far they were read (docs/explanation/feed.md#storage)."""

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
    """How far the feed was read; times by its own clock, in seconds.

    `settled_to`: every row of an earlier time is settled. `first_id` None: there was no row yet.
    `whole_at`: the last poll that showed all there was; 0: none has.
    `polls` counts up with every move; whoever moves the cursor names the one that they read.
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
    """The feed's tables, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checksums = RawChecksums(connection)

    # How far it was read.

    def cursor(self) -> FeedCursor | None:
        """Return how far the feed was read; None: it was never asked."""
        row = self._connection.execute(select(feed_cursor)).one_or_none()
        return None if row is None else FeedCursor(*row[1:])

    def move(self, cursor: FeedCursor, polls: int) -> None:
        """Move the cursor; `polls` is what was read, 0 where there was none.

        Raises:
            FatalError: another writer moved it since.
        """
        known = self.cursor()
        if (0 if known is None else known.polls) != polls:
            raise FatalError("another process moved the feed's cursor: only one may write")
        values = asdict(cursor) | {"polls": polls + 1}
        upsert(self._connection, feed_cursor, [(1, *values.values())])

    # What it said.

    def append(self, rows: Sequence[FeedRow], *, canonical: bool = True) -> int:
        """Write rows down that are not there; return how many. `canonical` False: evidence."""
        return append_missing(
            self._connection, feed_row, [_row_of(row, canonical=canonical) for row in rows]
        )

    def between(self, stream: int, first: int, last: int) -> list[FeedRow]:
        """Return the canonical rows of ids `first` to `last`, both included, in order.

        Bounds beyond what the column holds are cut: a stored id may be the largest there is.
        """
        within = feed_row.c.id.between(max(first, 0), min(last, _MAX_BIGINT))
        return self._rows(_of(stream), within, limit=None)

    def highest(self, stream: int, last: int) -> FeedRow | None:
        """Return the canonical row of the highest id up to `last`."""
        chosen = select(feed_row).where(_of(stream), feed_row.c.id <= last)
        row = self._connection.execute(chosen.order_by(feed_row.c.id.desc()).limit(1)).first()
        return None if row is None else _feed_row(row)

    def evidence(self, stream: int, number: int) -> list[FeedRow]:
        """Return what else was ever told of this id, beside the row that is folded."""
        theirs = and_(feed_row.c.stream == stream, ~feed_row.c.canonical)
        return self._rows(theirs, feed_row.c.id == number)

    def unsettled(self, stream: int) -> list[FeedRow]:
        """Return the rows whose time may still move, in order, the first `MOST_ROWS` of them."""
        return self._rows(_of(stream), feed_row.c.time.is_(None))

    def settle(self, stream: int, times: Mapping[int, int]) -> None:
        """Give rows their times, by id."""
        if times:
            here = and_(_of(stream), feed_row.c.id == bindparam("number"))
            settled = update(feed_row).where(here).values(time=bindparam("seen"))
            rows = [{"number": number, "seen": time} for number, time in times.items()]
            self._connection.execute(settled, rows)

    # Where it stands in the chain's order.

    def unplaced(self, before: int) -> list[FeedRow]:
        """Return settled rows of a time below `before` that have no block yet, in order."""
        waiting = feed_row.c.block.is_(None)
        return self._rows(feed_row.c.canonical, waiting, feed_row.c.time < before, limit=None)

    def place(self, block: int, rows: Iterable[FeedRow]) -> None:
        """Give rows their block."""
        chosen = list(rows)
        placed = [{"of": row.stream, "number": row.id} for row in chosen]
        if placed:
            stored = (_row_of(replace(row, block=block), canonical=True) for row in chosen)
            self._checksums.add(FEED, [(block, row_hash(row)) for row in stored])
            is_of = and_(feed_row.c.stream == bindparam("of"), feed_row.c.canonical)
            here = and_(is_of, feed_row.c.id == bindparam("number"))
            self._connection.execute(update(feed_row).where(here).values(block=block), placed)

    def unplace_above(self, number: int) -> None:
        """Take rows out of the chain's order again that stand above block `number`."""
        above = feed_row.c.block > number
        with self._checksums.follow_above(FEED, number):
            self._connection.execute(update(feed_row).where(above).values(block=None))

    def placed(self, first: int, last: int) -> list[FeedRow]:
        """Return the rows that stand in blocks `first` to `last`, in order."""
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
        """Count the rows that are folded, and those that wait for time or block."""
        placed = func.count(feed_row.c.block)
        counted = select(placed, func.count() - placed).where(feed_row.c.canonical)
        folded, waiting = self._connection.execute(counted).one()
        return folded, waiting

    # What is wrong with it.

    def note(self, faults: Sequence[FeedFault]) -> int:
        """Write faults down that are not there; return how many."""
        rows = [
            (one.kind, one.stream, one.row, one.found_at, one.detail, one.accepted_at)
            for one in faults
        ]
        return append_missing(self._connection, feed_fault, rows)

    def faults(self, *, is_open: bool) -> list[FeedFault]:
        """Return the faults, the oldest first; `is_open`: only those that nobody accepted."""
        chosen = select(feed_fault).order_by(
            feed_fault.c.found_at, feed_fault.c.stream, feed_fault.c.row, feed_fault.c.kind
        )
        if is_open:
            chosen = chosen.where(feed_fault.c.accepted_at.is_(None))
        return [FeedFault(*row) for row in self._connection.execute(chosen)]

    def accept(self, now: int) -> int:
        """Note that a person has accepted every open fault; return how many."""
        opened = feed_fault.c.accepted_at.is_(None)
        return self._connection.execute(
            update(feed_fault).where(opened).values(accepted_at=now)
        ).rowcount

    # Another reader's times.

    def bear_witness(self, times: Iterable[tuple[int, Hash, int]]) -> int:
        """Keep another reader's times: id, hash of the row, time; return how many are new."""
        rows = [(number, raw(hash_), time) for number, hash_, time in times]
        return append_missing(self._connection, feed_witness, rows)

    def witnessed(self, first: int, last: int) -> dict[int, tuple[Hash, int]]:
        """Return another reader's hashes and times of rows `first` to `last`, by id."""
        chosen = select(feed_witness).where(feed_witness.c.id.between(first, last))
        return {
            row.id: (Hash(hexed(row.hash)), row.time) for row in self._connection.execute(chosen)
        }

    def witnessed_above(self, number: int) -> int | None:
        """Return the time that another reader has of the first row above id `number`."""
        chosen = select(feed_witness.c.time).where(feed_witness.c.id > number)
        return self._connection.execute(
            chosen.order_by(feed_witness.c.id).limit(1)
        ).scalar_one_or_none()

    def settled(self) -> Iterator[FeedRow]:
        """Yield every settled row, in order: what a witness file says."""
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
