"""Finds gaps in the index, and state rows that differ from a new fold of the raw rows.

No request is sent to the chain. The raw rows are folded into a temporary database, so that the
real database is only read. See docs/how-to/check-and-repair.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import build_ingest_scope
from oracle.indexer.rebuild import find_damaged_spans
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.queries.resync_models import (
    BlockRangeEntry,
    CoverageSpan,
    GapsAnswer,
    StateCheckAnswer,
    StateRowEntry,
    build_damaged_blocks,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.projections import ProjectionRow


def find_index_gaps(uow: UnitOfWork, reader: EventReader) -> GapsAnswer | None:
    """Find the gaps of the index without requests to the chain.

    The result is None if the index is empty.
    """
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None or cursor.number < identity.start_block:
        return None
    blocks = BlockRange(identity.start_block, cursor.number)
    scope = build_ingest_scope(reader)
    intervals = uow.coverage.list_intervals(scope.id, blocks.first, blocks.last)
    return GapsAnswer(
        first=blocks.first,
        last=blocks.last,
        levels={
            level.name.lower(): sum(len(span.blocks) for span in intervals if span.level == level)
            for level in VerificationLevel
        },
        coverage=[
            CoverageSpan(
                first=span.first,
                last=span.last,
                level=span.level.name.lower(),
                endpoint=span.endpoint,
                audited_by=span.audited_by,
            )
            for span in intervals
        ],
        unread=[
            BlockRangeEntry(first=unread_range.first, last=unread_range.last)
            for unread_range in uow.coverage.list_gaps(scope.id, blocks.first, blocks.last)
        ],
        headers=_find_blocks_with_broken_links(uow, cursor, blocks),
        mismatched_logs=_find_conflicting_blocks(uow, blocks),
        cursor=_find_cursor_mismatches(uow, cursor),
        damaged=build_damaged_blocks(find_damaged_spans(uow, cursor.number)),
    )


def _find_blocks_with_broken_links(
    uow: UnitOfWork, cursor: Cursor, blocks: BlockRange
) -> list[int]:
    """Return the blocks above the final block with a missing or unlinked header."""
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
    """Return the blocks whose canonical rows and header have different block hashes."""
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
    newest_block = uow.blocks.find_newest()
    if newest_block is None or (newest_block.number, newest_block.hash) != (
        cursor.number,
        cursor.hash,
    ):
        newest_text = (
            "none" if newest_block is None else f"{newest_block.number} {newest_block.hash}"
        )
        mismatches.append(
            f"the cursor is at {cursor.number} {cursor.hash}, but the newest header is "
            f"{newest_text}"
        )
    last_log_block = uow.logs.find_highest_block()
    if last_log_block is not None and last_log_block > cursor.number:
        mismatches.append(
            f"the cursor is at {cursor.number}, but there are canonical logs up to block "
            f"{last_log_block}"
        )
    return mismatches


def compare_state_with_refold(
    uow: UnitOfWork, reader: EventReader, rules: Rules, progress: Callable[[int, int], None]
) -> StateCheckAnswer:
    """Fold all raw rows again, and compare every row of every projection with the result.

    Raises:
        InputError: nothing is indexed yet.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet; there is no state to compare")
    with refold_into_temporary_store(uow, cursor, reader, rules, progress) as (
        refolded_uow,
        log_count,
    ):
        differing_rows = list(iter_differing_rows(uow, refolded_uow))
    return StateCheckAnswer(
        block=cursor.number, logs=log_count, differing=differing_rows, rebuilt=None
    )


@contextmanager
def refold_into_temporary_store(
    uow: UnitOfWork,
    cursor: Cursor,
    reader: EventReader,
    rules: Rules,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[UnitOfWork, int]]:
    """Fold all raw rows up to `cursor` into a temporary database.

    Yields the folded state, and the number of logs.
    """
    final_number = -1 if cursor.final_number is None else cursor.final_number
    with TemporaryDirectory(prefix="qos-oracle-fold-") as directory:
        url = f"sqlite:///{Path(directory) / 'state.sqlite'}"
        with Store.open(url, create=True) as store:
            log_count = 0
            with store.transaction() as writer:
                event_folder = EventFolder(rules, reader)
                indexed_blocks = BlockRange(0, cursor.number)
                for blocks, chunk_log_count, decoded_events in iterate_decoded_chunks(
                    uow, reader, indexed_blocks
                ):
                    writer.dead_letters.append(decoded_events.dead_letters)
                    event_folder.fold_events(writer, decoded_events, final_number=final_number)
                    log_count += chunk_log_count
                    progress(blocks.last, cursor.number)
                writer.undo.prune_journal_to(min(final_number, cursor.number))
            with store.read_transaction() as reader_uow:
                yield reader_uow, log_count


def iter_differing_rows(stored_uow: UnitOfWork, folded_uow: UnitOfWork) -> Iterator[StateRowEntry]:
    """Yield every row that differs between the stored state and the new fold.

    Rows are in order of table and key.
    """
    for table in stored_uow.projections.list_compared_tables():
        tagged_rows = merge(
            ((row, False) for row in stored_uow.projections.iterate_rows(table)),
            ((row, True) for row in folded_uow.projections.iterate_rows(table)),
            key=_build_row_key,
        )
        for _, rows in groupby(tagged_rows, key=_build_row_key):
            row_pair = list(rows)
            row, is_refolded = row_pair[0]
            if len(row_pair) == 1:
                kind = "missing" if is_refolded else "extra"
                yield StateRowEntry(table=table.name, key=row.key_text, kind=kind)
            elif row_pair[0][0].values != row_pair[1][0].values:
                yield StateRowEntry(table=table.name, key=row.key_text, kind="other")


def _build_row_key(tagged_row: tuple[ProjectionRow, bool]) -> tuple[object, ...]:
    return tagged_row[0].key
