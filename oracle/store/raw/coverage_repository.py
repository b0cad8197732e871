"""Records which blocks were read for each scope, as disjoint intervals.

See docs/explanation/storage.md#coverage.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, update

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import (
    CoverageInterval,
    IngestScope,
    VerificationLevel,
    merge_adjacent_intervals,
    subtract_coverage,
)
from oracle.store.bulk import Row, upsert_rows
from oracle.store.tables.integrity_tables import coverage, scope

# Scope of the coverage that an older version stored. At its first start, this version assigns the
# coverage to a real scope.
UNNAMED_SCOPE_ID = bytes(32)


# This query is built once, because every window runs it.
_NEWEST_SCOPE_ID = select(scope.c.id).order_by(scope.c.number.desc()).limit(1)
# Intervals are disjoint. Of the intervals that begin before a range, only the last can therefore
# overlap it.
_LAST_START_BEFORE = (
    select(func.max(coverage.c.first_block))
    .where(coverage.c.scope == bindparam("scope_id"), coverage.c.first_block < bindparam("first"))
    .scalar_subquery()
)
_TOUCHING = (
    select(coverage)
    .where(
        coverage.c.scope == bindparam("scope_id"),
        coverage.c.first_block >= func.coalesce(_LAST_START_BEFORE, bindparam("first")),
        coverage.c.first_block <= bindparam("beyond"),
    )
    .order_by(coverage.c.first_block)
)
# For each interval in a range, its end and the start of the next interval. The database computes
# them, because a million rows would take a dozen seconds in Python.
_SPANS_IN_ORDER = (
    select(
        coverage.c.last_block,
        func.lead(coverage.c.first_block).over(order_by=coverage.c.first_block).label("next"),
    )
    .where(
        coverage.c.scope == bindparam("scope_id"),
        coverage.c.first_block >= func.coalesce(_LAST_START_BEFORE, bindparam("first")),
        coverage.c.first_block <= bindparam("last"),
        # An interval that begins before the range may also end before it.
        coverage.c.last_block >= bindparam("first"),
    )
    .subquery()
)
# The gap after the last interval ends at the end of the range.
_NEXT_START = func.coalesce(_SPANS_IN_ORDER.c.next, bindparam("last") + 1)
_GAPS = (
    select(_SPANS_IN_ORDER.c.last_block + 1, _NEXT_START - 1)
    .where(_SPANS_IN_ORDER.c.last_block + 1 < _NEXT_START)
    .order_by(_SPANS_IN_ORDER.c.last_block)
)


class CoverageRepository:
    """Access to the covered blocks of each scope, by the scope's id.

    `get_current_scope` returns the scope that is in use.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def set_scope(self, new_scope: IngestScope) -> None:
        """Store the scope for which windows are read from now on.

        The first scope of a database takes over coverage that an older version stored without a
        scope; any other new scope starts without coverage.
        """
        # Every window calls this. Usually one query is enough, because the scope has not changed.
        current_id = self._connection.execute(_NEWEST_SCOPE_ID).scalar_one_or_none()
        if current_id == new_scope.id:
            return
        max_number = self._connection.execute(select(func.max(scope.c.number))).scalar() or 0
        # If the scope was used earlier, it becomes the newest again.
        upsert_rows(self._connection, scope, [(new_scope.id, new_scope.to_json(), max_number + 1)])
        if current_id is None:
            self._connection.execute(
                update(coverage)
                .where(coverage.c.scope == UNNAMED_SCOPE_ID)
                .values(scope=new_scope.id)
            )

    def get_current_scope(self) -> IngestScope | None:
        """Return the scope for which windows are read, or None before the first start."""
        newest_query = select(scope.c.text).order_by(scope.c.number.desc()).limit(1)
        scope_json = self._connection.execute(newest_query).scalar_one_or_none()
        return None if scope_json is None else IngestScope.from_json(scope_json)

    def list_scopes(self) -> list[IngestScope]:
        """Return every scope that was ever used, newest first."""
        query = select(scope.c.text).order_by(scope.c.number.desc())
        return [IngestScope.from_json(text) for text in self._connection.execute(query).scalars()]

    def store_interval(self, scope_id: bytes, new_span: CoverageInterval) -> None:
        """Store an interval, replacing any earlier coverage of its blocks.

        Adjacent intervals with equal values are merged.
        """
        old_spans = self._list_touching_intervals(scope_id, new_span.first, new_span.last)
        new_spans = list(
            merge_adjacent_intervals(
                sorted(
                    [*subtract_coverage(old_spans, new_span), new_span], key=attrgetter("first")
                )
            )
        )
        first_blocks = {span.first for span in new_spans}
        for span in old_spans:
            if span.first not in first_blocks:
                self._delete_interval(scope_id, span.first)
        known_spans = set(old_spans)
        upsert_rows(
            self._connection,
            coverage,
            [
                _encode_coverage_row(scope_id, span)
                for span in new_spans
                if span not in known_spans
            ],
        )

    def list_intervals(
        self, scope_id: bytes, first: int | None = None, last: int | None = None
    ) -> list[CoverageInterval]:
        """Return the intervals in the given range, ascending.

        The first and last interval are clipped to the range.
        """
        if first is None or last is None:
            query = select(coverage).where(coverage.c.scope == scope_id)
            rows = self._connection.execute(query.order_by(coverage.c.first_block))
            return [decode_coverage_row(row) for row in rows]
        touching_intervals = self._list_touching_intervals(scope_id, first, last)
        return [
            replace(span, first=max(first, span.first), last=min(last, span.last))
            for span in touching_intervals
            if span.first <= last and span.last >= first
        ]

    def list_gaps(self, scope_id: bytes, first: int, last: int) -> list[BlockRange]:
        """Return the uncovered ranges of blocks from `first` to `last`, ascending."""
        lowest_span = self.find_lowest_interval(scope_id, first, last)
        if lowest_span is None:
            return [BlockRange(first, last)] if first <= last else []
        parameters = {"scope_id": scope_id, "first": lowest_span.first, "last": last}
        gaps = [BlockRange(*gap) for gap in self._connection.execute(_GAPS, parameters)]
        if lowest_span.first > first:
            return [BlockRange(first, lowest_span.first - 1), *gaps]
        return gaps

    def find_lowest_interval(
        self, scope_id: bytes, first: int, last: int
    ) -> CoverageInterval | None:
        """Return the lowest interval from `first` to `last`, or None if there is none.

        The interval is clipped to this range.
        """
        parameters = {"scope_id": scope_id, "first": first, "beyond": last}
        # Read two rows, because the first interval may end before the range.
        for span in map(
            decode_coverage_row, self._connection.execute(_TOUCHING.limit(2), parameters)
        ):
            if span.last >= first:
                return replace(span, first=max(first, span.first), last=min(last, span.last))
        return None

    def raise_level(
        self, scope_id: bytes, blocks: BlockRange, level: VerificationLevel, endpoint: str
    ) -> None:
        """Raise blocks to the verification level that an endpoint confirmed.

        A higher level is kept.
        """
        for span in self.list_intervals(scope_id, blocks.first, blocks.last):
            if span.level < level:
                self.store_interval(scope_id, replace(span, level=level, endpoint=endpoint))

    def record_audit(
        self, scope_id: bytes, blocks: BlockRange, endpoint: str, head_block: int
    ) -> None:
        """Record that a second endpoint confirmed blocks when the head was `head_block`."""
        intervals = self.list_intervals(scope_id, blocks.first, blocks.last)
        for span in intervals[:1] + intervals[1:][-1:]:
            self.store_interval(
                scope_id, replace(span, audited_by=endpoint, audited_at=head_block)
            )
        # Intervals that lie entirely within the range rarely have to be merged, so they are all
        # updated by a single statement.
        starts_in_range = coverage.c.first_block.between(blocks.first, blocks.last)
        is_inside_range = (
            starts_in_range
            & (coverage.c.last_block <= blocks.last)
            & (coverage.c.scope == scope_id)
        )
        self._connection.execute(
            update(coverage)
            .where(is_inside_range)
            .values(audited_by=endpoint, audited_at=head_block)
        )

    def find_lowest_unaudited_interval(
        self, scope_id: bytes, blocks: BlockRange, max_blocks: int
    ) -> CoverageInterval | None:
        """Return the lowest interval in the range that no second endpoint has confirmed.

        The interval has at most `max_blocks` blocks, all from one endpoint. Adjacent stored
        intervals of that endpoint are merged, and the lowest of their levels is returned. The
        result is None if there is no such interval.
        """
        query = (
            select(coverage)
            .where(
                coverage.c.scope == scope_id,
                coverage.c.audited_by.is_(None),
                coverage.c.last_block >= blocks.first,
                coverage.c.first_block <= blocks.last,
            )
            .order_by(coverage.c.first_block)
            .limit(max_blocks)
        )
        merged_interval: CoverageInterval | None = None
        for span in map(decode_coverage_row, self._connection.execute(query)):
            if merged_interval is None:
                merged_interval = replace(span, first=max(blocks.first, span.first))
            elif (span.first, span.endpoint) == (
                merged_interval.last + 1,
                merged_interval.endpoint,
            ):
                merged_interval = replace(
                    merged_interval, last=span.last, level=min(merged_interval.level, span.level)
                )
            else:
                break
        if merged_interval is None:
            return None
        return replace(
            merged_interval,
            last=min(blocks.last, merged_interval.last, merged_interval.first + max_blocks - 1),
        )

    def find_lowest_interval_below_level(
        self, scope_id: bytes, level: VerificationLevel, blocks: BlockRange
    ) -> CoverageInterval | None:
        """Return the lowest interval in the range below this level, if there is one.

        The interval is clipped to the range.
        """
        query = (
            _select_below_level(scope_id, level, blocks.first)
            .order_by(coverage.c.first_block)
            .limit(1)
        )
        row = self._connection.execute(query).one_or_none()
        if row is None or row.first_block > blocks.last:
            return None
        interval = decode_coverage_row(row)
        return replace(
            interval, first=max(blocks.first, interval.first), last=min(blocks.last, interval.last)
        )

    def count_blocks_below_level(
        self, scope_id: bytes, level: VerificationLevel, first: int, last: int
    ) -> int:
        """Count the blocks `first` to `last` that were read below this level."""
        query = _select_below_level(scope_id, level, first).where(coverage.c.first_block <= last)
        intervals = map(decode_coverage_row, self._connection.execute(query))
        return sum(min(last, span.last) - max(first, span.first) + 1 for span in intervals)

    def count_unaudited_blocks_below_level(
        self, scope_id: bytes, level: VerificationLevel, last: int
    ) -> int:
        """Count the unaudited blocks up to `last` that are below this level."""
        query = _select_below_level(scope_id, level, 0).where(
            coverage.c.first_block <= last, coverage.c.audited_by.is_(None)
        )
        intervals = map(decode_coverage_row, self._connection.execute(query))
        return sum(min(last, span.last) - span.first + 1 for span in intervals)

    def delete_above(self, number: int) -> None:
        """Delete the coverage above block `number`, in every scope."""
        self._connection.execute(delete(coverage).where(coverage.c.first_block > number))
        shorten_statement = update(coverage).where(coverage.c.last_block > number)
        self._connection.execute(shorten_statement.values(last_block=number))

    def count_blocks_by_level(self, scope_id: bytes) -> dict[VerificationLevel, int]:
        """Count the covered blocks by their verification level."""
        block_count = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        count_query = (
            select(coverage.c.level, block_count)
            .where(coverage.c.scope == scope_id)
            .group_by(coverage.c.level)
        )
        return {
            VerificationLevel(level): int(count)
            for level, count in self._connection.execute(count_query)
        }

    def count_audited_blocks(self, scope_id: bytes) -> int:
        """Count the covered blocks that a second endpoint confirmed."""
        block_count = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        is_audited = (coverage.c.scope == scope_id) & coverage.c.audited_by.is_not(None)
        return int(self._connection.execute(select(block_count).where(is_audited)).scalar() or 0)

    def _list_touching_intervals(
        self, scope_id: bytes, first: int, last: int
    ) -> list[CoverageInterval]:
        """Return the intervals that overlap the range or are adjacent to it, in order."""
        parameters = {"scope_id": scope_id, "first": first, "beyond": last + 1}
        rows = self._connection.execute(_TOUCHING, parameters)
        return [span for span in map(decode_coverage_row, rows) if span.last >= first - 1]

    def _delete_interval(self, scope_id: bytes, first: int) -> None:
        is_this_span = (coverage.c.scope == scope_id) & (coverage.c.first_block == first)
        self._connection.execute(delete(coverage).where(is_this_span))


def _select_below_level(scope_id: bytes, level: VerificationLevel, first: int) -> Select[Any]:
    reaches_block = (coverage.c.scope == scope_id) & (coverage.c.last_block >= first)
    return select(coverage).where(reaches_block, coverage.c.level < level.value)


def _encode_coverage_row(scope_id: bytes, span: CoverageInterval) -> Row:
    return (
        scope_id,
        span.first,
        span.last,
        span.level.value,
        span.endpoint,
        span.audited_by,
        span.audited_at,
    )


def decode_coverage_row(row: Any) -> CoverageInterval:  # noqa: ANN401  a row of any driver
    """Decode a row of the table `coverage`."""
    return CoverageInterval(
        first=row.first_block,
        last=row.last_block,
        level=VerificationLevel(row.level),
        endpoint=row.endpoint,
        audited_by=row.audited_by,
        audited_at=row.audited_at,
    )
