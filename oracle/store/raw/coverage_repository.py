"""Ledger of the blocks that were read: disjoint intervals of blocks for each scope.

See docs/explanation/storage.md#coverage.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, update

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Covered, IngestScope, Level, merge_neighbours, subtract_coverage
from oracle.store.bulk import Row, upsert
from oracle.store.tables.integrity_tables import coverage, scope

# Scope id of coverage in older databases, until the first start assigns it to a scope.
NAMELESS = bytes(32)


# Built once because every window runs them: the newest scope, and the spans around a range.
_NEWEST = select(scope.c.id).order_by(scope.c.number.desc()).limit(1)
# Intervals are disjoint, so of those that begin before the range only the last can overlap it.
_BEFORE = (
    select(func.max(coverage.c.first_block))
    .where(coverage.c.scope == bindparam("asked"), coverage.c.first_block < bindparam("first"))
    .scalar_subquery()
)
_TOUCHING = (
    select(coverage)
    .where(
        coverage.c.scope == bindparam("asked"),
        coverage.c.first_block >= func.coalesce(_BEFORE, bindparam("first")),
        coverage.c.first_block <= bindparam("beyond"),
    )
    .order_by(coverage.c.first_block)
)
# End of each interval in a range and start of the next one. Computed by the database, because a
# million rows take a dozen seconds in Python.
_IN_ORDER = (
    select(
        coverage.c.last_block,
        func.lead(coverage.c.first_block).over(order_by=coverage.c.first_block).label("next"),
    )
    .where(
        coverage.c.scope == bindparam("asked"),
        coverage.c.first_block >= func.coalesce(_BEFORE, bindparam("first")),
        coverage.c.first_block <= bindparam("last"),
        # An interval that begins before the range may end before it as well.
        coverage.c.last_block >= bindparam("first"),
    )
    .subquery()
)
# The last interval is followed by the end of the range.
_NEXT = func.coalesce(_IN_ORDER.c.next, bindparam("last") + 1)
_GAPS = (
    select(_IN_ORDER.c.last_block + 1, _NEXT - 1)
    .where(_IN_ORDER.c.last_block + 1 < _NEXT)
    .order_by(_IN_ORDER.c.last_block)
)


class CoverageRepository:
    """Coverage of one scope, given by its id; `get_current_scope` returns the one in use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def set_scope(self, wanted: IngestScope) -> None:
        """Store the scope for which windows are read from now on.

        Coverage of a database from before scopes were stored is assigned to it; any other new
        scope starts without coverage.
        """
        # Runs with every window: no further query if the scope is unchanged.
        known = self._connection.execute(_NEWEST).scalar_one_or_none()
        if known == wanted.id:
            return
        highest = self._connection.execute(select(func.max(scope.c.number))).scalar() or 0
        # A scope that was in use before becomes the newest again.
        upsert(self._connection, scope, [(wanted.id, wanted.to_json(), highest + 1)])
        if known is None:
            self._connection.execute(
                update(coverage).where(coverage.c.scope == NAMELESS).values(scope=wanted.id)
            )

    def current(self) -> IngestScope | None:
        """Return the scope for which windows are read, or None before the first start."""
        newest = select(scope.c.text).order_by(scope.c.number.desc()).limit(1)
        text = self._connection.execute(newest).scalar_one_or_none()
        return None if text is None else IngestScope.from_json(text)

    def scopes(self) -> list[IngestScope]:
        """Return every scope that was ever in use, newest first."""
        texts = select(scope.c.text).order_by(scope.c.number.desc())
        return [IngestScope.from_json(text) for text in self._connection.execute(texts).scalars()]

    def put(self, scope_id: bytes, covered: Covered) -> None:
        """Store an interval, replacing earlier coverage of its blocks.

        Adjacent intervals with equal values are merged.
        """
        old = self._touching(scope_id, covered.first, covered.last)
        new = list(
            merge_neighbours(
                sorted([*subtract_coverage(old, covered), covered], key=attrgetter("first"))
            )
        )
        firsts = {each.first for each in new}
        for each in old:
            if each.first not in firsts:
                self._remove(scope_id, each.first)
        known = set(old)
        upsert(
            self._connection,
            coverage,
            [_row_of(scope_id, each) for each in new if each not in known],
        )

    def spans(
        self, scope_id: bytes, first: int | None = None, last: int | None = None
    ) -> list[Covered]:
        """Return the intervals, clipped to `first` … `last` if given, ascending."""
        if first is None or last is None:
            chosen = select(coverage).where(coverage.c.scope == scope_id)
            rows = self._connection.execute(chosen.order_by(coverage.c.first_block))
            return [covered_of(row) for row in rows]
        touching = self._touching(scope_id, first, last)
        return [
            replace(each, first=max(first, each.first), last=min(last, each.last))
            for each in touching
            if each.first <= last and each.last >= first
        ]

    def gaps(self, scope_id: bytes, first: int, last: int) -> list[BlockRange]:
        """Return the parts of `first` to `last` that no interval covers, ascending."""
        lowest = self.lowest_span(scope_id, first, last)
        if lowest is None:
            return [BlockRange(first, last)] if first <= last else []
        asked = {"asked": scope_id, "first": lowest.first, "last": last}
        gaps = [BlockRange(*gap) for gap in self._connection.execute(_GAPS, asked)]
        return [BlockRange(first, lowest.first - 1), *gaps] if lowest.first > first else gaps

    def lowest_span(self, scope_id: bytes, first: int, last: int) -> Covered | None:
        """Return the first interval within `first` to `last`, clipped, or None."""
        asked = {"asked": scope_id, "first": first, "beyond": last}
        # An interval that begins before the range may end before it as well.
        for each in map(covered_of, self._connection.execute(_TOUCHING.limit(2), asked)):
            if each.last >= first:
                return replace(each, first=max(first, each.first), last=min(last, each.last))
        return None

    def lowest(self, scope_id: bytes, first: int, last: int) -> Level | None:
        """Return the level that every block of the range reached, or None if one is not covered."""
        if self.gaps(scope_id, first, last):
            return None
        return min(each.level for each in self.spans(scope_id, first, last))

    def raise_to(self, scope_id: bytes, blocks: BlockRange, level: Level, endpoint: str) -> None:
        """Raise blocks to a level at which an endpoint confirmed them; higher levels are kept."""
        for each in self.spans(scope_id, blocks.first, blocks.last):
            if each.level < level:
                self.put(scope_id, replace(each, level=level, endpoint=endpoint))

    def note_audit(self, scope_id: bytes, blocks: BlockRange, endpoint: str, at: int) -> None:
        """Record that another endpoint confirmed the blocks; `head_block` is the newest block."""
        spans = self.spans(scope_id, blocks.first, blocks.last)
        for each in spans[:1] + spans[1:][-1:]:
            self.put(scope_id, replace(each, audited_by=endpoint, audited_at=at))
        # The intervals between are complete rows that rarely merge: one statement updates them
        # all.
        between = coverage.c.first_block.between(blocks.first, blocks.last)
        inside = between & (coverage.c.last_block <= blocks.last) & (coverage.c.scope == scope_id)
        self._connection.execute(
            update(coverage).where(inside).values(audited_by=endpoint, audited_at=at)
        )

    def unaudited(self, scope_id: bytes, blocks: BlockRange, most: int) -> Covered | None:
        """Return the lowest blocks of the range that no second endpoint confirmed, or None.

        The result is contiguous, from one endpoint, at most `max_blocks` long, and has the lowest
        of the merged levels.
        """
        chosen = (
            select(coverage)
            .where(
                coverage.c.scope == scope_id,
                coverage.c.audited_by.is_(None),
                coverage.c.last_block >= blocks.first,
                coverage.c.first_block <= blocks.last,
            )
            .order_by(coverage.c.first_block)
            .limit(most)
        )
        found: Covered | None = None
        for each in map(covered_of, self._connection.execute(chosen)):
            if found is None:
                found = replace(each, first=max(blocks.first, each.first))
            elif (each.first, each.endpoint) == (found.last + 1, found.endpoint):
                found = replace(found, last=each.last, level=min(found.level, each.level))
            else:
                break
        if found is None:
            return None
        return replace(found, last=min(blocks.last, found.last, found.first + most - 1))

    def lowest_below(self, scope_id: bytes, level: Level, blocks: BlockRange) -> Covered | None:
        """Return the first interval of the range below this level, clipped, or None."""
        chosen = _below(scope_id, level, blocks.first).order_by(coverage.c.first_block).limit(1)
        row = self._connection.execute(chosen).one_or_none()
        if row is None or row.first_block > blocks.last:
            return None
        each = covered_of(row)
        return replace(each, first=max(blocks.first, each.first), last=min(blocks.last, each.last))

    def blocks_below(self, scope_id: bytes, level: Level, first: int, last: int) -> int:
        """Count the blocks from `first` to `last` that were read below this level."""
        chosen = _below(scope_id, level, first).where(coverage.c.first_block <= last)
        rows = map(covered_of, self._connection.execute(chosen))
        return sum(min(last, each.last) - max(first, each.first) + 1 for each in rows)

    def unaudited_blocks(self, scope_id: bytes, level: Level, last: int) -> int:
        """Count the blocks up to `last` below this level that no second endpoint confirmed."""
        chosen = _below(scope_id, level, 0).where(
            coverage.c.first_block <= last, coverage.c.audited_by.is_(None)
        )
        rows = map(covered_of, self._connection.execute(chosen))
        return sum(min(last, each.last) - each.first + 1 for each in rows)

    def cut_above(self, number: int) -> None:
        """Delete the coverage above block `number`, in every scope."""
        self._connection.execute(delete(coverage).where(coverage.c.first_block > number))
        reaching = update(coverage).where(coverage.c.last_block > number)
        self._connection.execute(reaching.values(last_block=number))

    def blocks_by_level(self, scope_id: bytes) -> dict[Level, int]:
        """Count the covered blocks by the level that they reached."""
        blocks = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        counted = (
            select(coverage.c.level, blocks)
            .where(coverage.c.scope == scope_id)
            .group_by(coverage.c.level)
        )
        return {Level(level): int(sum_) for level, sum_ in self._connection.execute(counted)}

    def audited_blocks(self, scope_id: bytes) -> int:
        """Count the covered blocks that a second endpoint confirmed."""
        blocks = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        audited = (coverage.c.scope == scope_id) & coverage.c.audited_by.is_not(None)
        return int(self._connection.execute(select(blocks).where(audited)).scalar() or 0)

    def _touching(self, scope_id: bytes, first: int, last: int) -> list[Covered]:
        """Return the intervals that overlap the range or are adjacent to it, ascending."""
        asked = {"asked": scope_id, "first": first, "beyond": last + 1}
        rows = self._connection.execute(_TOUCHING, asked)
        return [each for each in map(covered_of, rows) if each.last >= first - 1]

    def _remove(self, scope_id: bytes, first: int) -> None:
        here = (coverage.c.scope == scope_id) & (coverage.c.first_block == first)
        self._connection.execute(delete(coverage).where(here))


def _below(scope_id: bytes, level: Level, first: int) -> Select[Any]:
    here = (coverage.c.scope == scope_id) & (coverage.c.last_block >= first)
    return select(coverage).where(here, coverage.c.level < level.value)


def _row_of(scope_id: bytes, each: Covered) -> Row:
    return (
        scope_id,
        each.first,
        each.last,
        each.level.value,
        each.endpoint,
        each.audited_by,
        each.audited_at,
    )


def covered_of(row: Any) -> Covered:  # noqa: ANN401  a row of any driver
    """Decode a row of `coverage`."""
    return Covered(
        first=row.first_block,
        last=row.last_block,
        level=Level(row.level),
        endpoint=row.endpoint,
        audited_by=row.audited_by,
        audited_at=row.audited_at,
    )
