"""Finds gaps: in what was read, in the headers, and between logs, headers and cursor."""

from dataclasses import dataclass

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Covered, IngestScope, Level
from oracle.indexer.completeness import damaged_spans
from oracle.indexer.provenance import scope_of
from oracle.store.database import UnitOfWork
from oracle.store.raw.raw_checksums import DamagedSpan
from oracle.store.state.cursor_repository import Cursor


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps in `blocks`, from the start block to the cursor; falsy if there are none.

    `spans`: the blocks that were read, and at which level. `unread`: blocks that were not read for
    the configured contracts and events. `broken_headers`: blocks above the final one without a
    header, or whose header does not link to the one before. `conflicting_blocks`: blocks with
    stored logs of another block hash than the header's. `cursor_mismatches`: descriptions of where
    the cursor does not fit. `damaged`: spans whose raw rows are not those that were committed.
    """

    blocks: BlockRange
    spans: tuple[Covered, ...]
    unread: tuple[BlockRange, ...]
    headers: tuple[int, ...]
    homeless: tuple[int, ...]
    cursor: tuple[str, ...]
    damaged: tuple[DamagedSpan, ...] = ()

    def __bool__(self) -> bool:
        broken = self.headers or self.homeless or self.cursor
        return bool(self.unread or broken or self.damaged)

    def blocks_at(self, level: Level) -> int:
        """Return the number of blocks that have reached exactly this level."""
        return sum(len(span.blocks) for span in self.spans if span.level == level)


def gaps(uow: UnitOfWork, reader: LogReader) -> Gaps | None:
    """Find gaps in one snapshot, without requests to the chain; None if nothing is indexed."""
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None or cursor.number < identity.start_block:
        return None
    blocks = BlockRange(identity.start_block, cursor.number)
    scope = scope_of(reader)
    return Gaps(
        blocks=blocks,
        spans=tuple(uow.coverage.spans(scope.id, blocks.first, blocks.last)),
        unread=tuple(unread(uow, scope, blocks)),
        headers=tuple(_broken_headers(uow, cursor, blocks)),
        homeless=tuple(_homeless(uow, blocks)),
        cursor=tuple(_misplaced(uow, cursor)),
        damaged=tuple(damaged_spans(uow, cursor.number)),
    )


def unread(uow: UnitOfWork, scope: IngestScope, blocks: BlockRange) -> list[BlockRange]:
    """Return the blocks that were not read for this scope."""
    return uow.coverage.gaps(scope.id, blocks.first, blocks.last)


def _broken_headers(uow: UnitOfWork, cursor: Cursor, blocks: BlockRange) -> list[int]:
    """Return the blocks above the final one without a linked header."""
    final = cursor.final_number if cursor.final_number is not None else blocks.first - 1
    first = max(final + 1, blocks.first)
    known = {block.number: block for block in uow.blocks.between(final, cursor.number)}
    parent = cursor.final_hash or (known[final].hash if final in known else None)
    broken, missing = [], []
    for number in range(first, cursor.number + 1):
        block = known.get(number)
        if block is None:
            missing.append(number)
            continue
        if block.parent_hash != parent and (missing or parent is not None):
            # Else the chain skipped the missing heights: the next block links to the one before
            # them.
            broken += missing or [number]
        parent, missing = block.hash, []
    return [*broken, *missing]


def _homeless(uow: UnitOfWork, blocks: BlockRange) -> list[int]:
    """Return the blocks with canonical rows of another block hash than the header's."""
    headers = {block.number: block.hash for block in uow.blocks.between(0, blocks.last)}
    found = set()
    if headers:
        for rows in (uow.logs, uow.calls):
            for row in rows.between(min(headers), blocks.last):
                if headers.get(row.block, row.block_hash) != row.block_hash:
                    found.add(row.block)
    return sorted(found)


def _misplaced(uow: UnitOfWork, cursor: Cursor) -> list[str]:
    words = []
    newest = uow.blocks.newest()
    if newest is None or (newest.number, newest.hash) != (cursor.number, cursor.hash):
        there = "none" if newest is None else f"{newest.number} {newest.hash}"
        words.append(
            f"the cursor is at {cursor.number} {cursor.hash}, the newest header is {there}"
        )
    last_log = uow.logs.last_block()
    if last_log is not None and last_log > cursor.number:
        words.append(f"logs up to block {last_log} count, the cursor is at {cursor.number}")
    return words
