"""Finds blocks that were not read, unlinked headers, and contradictions between stored rows."""

from dataclasses import dataclass

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, IngestScope, VerificationLevel
from oracle.indexer.provenance import build_ingest_scope
from oracle.indexer.rebuild import find_damaged_spans
from oracle.store.database import UnitOfWork
from oracle.store.raw.raw_checksums import DamagedSpan
from oracle.store.state.cursor_repository import Cursor


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps in `blocks`, which are all blocks from the start block to the cursor; falsy if none.

    `spans` are the blocks that were read, each with its level. `unread` are blocks that were not
    read for the configured contracts and events. `broken_headers` are blocks above the final block
    that have no stored header, or whose header does not link to the previous block.
    `conflicting_blocks` are blocks whose stored logs have another block hash than the header.
    `cursor_mismatches` describe contradictions between the cursor and the headers or logs.
    `damaged` are spans whose raw rows have changed since they were committed.
    """

    blocks: BlockRange
    spans: tuple[CoverageInterval, ...]
    unread: tuple[BlockRange, ...]
    broken_headers: tuple[int, ...]
    conflicting_blocks: tuple[int, ...]
    cursor_mismatches: tuple[str, ...]
    damaged: tuple[DamagedSpan, ...] = ()

    def __bool__(self) -> bool:
        inconsistencies = self.broken_headers or self.conflicting_blocks or self.cursor_mismatches
        return bool(self.unread or inconsistencies or self.damaged)

    def count_blocks_at_level(self, level: VerificationLevel) -> int:
        """Return the number of blocks that have reached exactly this level."""
        return sum(len(span.blocks) for span in self.spans if span.level == level)


def find_index_gaps(uow: UnitOfWork, reader: EventReader) -> Gaps | None:
    """Find the index's gaps without requests to the chain; return None for an empty index."""
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None or cursor.number < identity.start_block:
        return None
    blocks = BlockRange(identity.start_block, cursor.number)
    scope = build_ingest_scope(reader)
    return Gaps(
        blocks=blocks,
        spans=tuple(uow.coverage.list_intervals(scope.id, blocks.first, blocks.last)),
        unread=tuple(find_unread_blocks(uow, scope, blocks)),
        broken_headers=tuple(_find_blocks_with_broken_links(uow, cursor, blocks)),
        conflicting_blocks=tuple(_find_conflicting_blocks(uow, blocks)),
        cursor_mismatches=tuple(_find_cursor_mismatches(uow, cursor)),
        damaged=tuple(find_damaged_spans(uow, cursor.number)),
    )


def find_unread_blocks(
    uow: UnitOfWork, scope: IngestScope, blocks: BlockRange
) -> list[BlockRange]:
    """Return the blocks that were not read for this scope."""
    return uow.coverage.list_gaps(scope.id, blocks.first, blocks.last)


def _find_blocks_with_broken_links(
    uow: UnitOfWork, cursor: Cursor, blocks: BlockRange
) -> list[int]:
    """Return the blocks above the final block whose header is missing or not linked."""
    final_number = cursor.final_number if cursor.final_number is not None else blocks.first - 1
    first_number = max(final_number + 1, blocks.first)
    block_by_number = {
        block.number: block for block in uow.blocks.list_canonical(final_number, cursor.number)
    }
    parent_hash = cursor.final_hash or (
        block_by_number[final_number].hash if final_number in block_by_number else None
    )
    blocks_with_broken_links, missing_blocks = [], []
    for number in range(first_number, cursor.number + 1):
        block = block_by_number.get(number)
        if block is None:
            missing_blocks.append(number)
            continue
        if block.parent_hash != parent_hash and (missing_blocks or parent_hash is not None):
            # The chain skipped the missing heights only if this block links to the block before
            # them, which it does not.
            blocks_with_broken_links += missing_blocks or [number]
        parent_hash, missing_blocks = block.hash, []
    return [*blocks_with_broken_links, *missing_blocks]


def _find_conflicting_blocks(uow: UnitOfWork, blocks: BlockRange) -> list[int]:
    """Return the blocks whose canonical rows have another block hash than the header."""
    hash_by_number = {
        block.number: block.hash for block in uow.blocks.list_canonical(0, blocks.last)
    }
    conflicting_blocks = set()
    if hash_by_number:
        for repository in (uow.logs, uow.calls):
            for row in repository.iterate_between(min(hash_by_number), blocks.last):
                if hash_by_number.get(row.block, row.block_hash) != row.block_hash:
                    conflicting_blocks.add(row.block)
    return sorted(conflicting_blocks)


def _find_cursor_mismatches(uow: UnitOfWork, cursor: Cursor) -> list[str]:
    mismatches = []
    newest = uow.blocks.find_newest()
    if newest is None or (newest.number, newest.hash) != (cursor.number, cursor.hash):
        newest_text = "none" if newest is None else f"{newest.number} {newest.hash}"
        mismatches.append(
            f"the cursor is at {cursor.number} {cursor.hash}, but the newest header is "
            f"{newest_text}"
        )
    last_log = uow.logs.find_highest_block()
    if last_log is not None and last_log > cursor.number:
        mismatches.append(
            f"the cursor is at {cursor.number}, but there are canonical logs up to block "
            f"{last_log}"
        )
    return mismatches
