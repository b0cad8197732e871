"""Repairs rows that an endpoint had left out, invented or changed, and refolds.

The caller decides before which side is right; data proven by the receipts root always is.
"""

from collections.abc import Collection
from dataclasses import dataclass

from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.errors import TransientError
from oracle.indexer.audit.row_diff import RowDiff
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import (
    IncompleteLogsError,
    RebuildOptions,
    RebuildResult,
    rebuild_up_to,
    rewrite_cursor,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


@dataclass(frozen=True, slots=True)
class RepairContext:
    """Objects that audits and repairs of stored rows need."""

    chain: ChainReader
    store: Store
    folder: EventFolder
    rebuild_options: RebuildOptions


def select_repairs(
    difference: RowDiff, served_proven: Collection[int], stored_proven: Collection[int]
) -> RowDiff:
    """Return the part of a difference that is to be repaired.

    Blocks whose served rows are proven (`served_proven`) are repaired completely. Blocks whose
    stored rows are proven (`stored_proven`) are left as they are. In all other blocks missing rows
    are inserted, because endpoints lose logs but hardly ever invent them; stored rows stay.
    """

    def should_insert(block_number: int) -> bool:
        return block_number in served_proven or block_number not in stored_proven

    return RowDiff(
        missing_logs=[log for log in difference.missing_logs if should_insert(log.block)],
        missing_calls=[call for call in difference.missing_calls if should_insert(call.block)],
        extra_logs=[log for log in difference.extra_logs if log.block in served_proven],
        extra_calls=[call for call in difference.extra_calls if call.block in served_proven],
        changed_logs=[log for log in difference.changed_logs if log.block in served_proven],
        changed_calls=[call for call in difference.changed_calls if call.block in served_proven],
    )


def repair_blocks(
    uow: UnitOfWork,
    folder: EventFolder,
    cursor: Cursor,
    row_diff: RowDiff,
    rebuild_options: RebuildOptions,
    verified: BlockRange | None = None,
) -> RebuildResult:
    """Write the repaired rows and refold up to the cursor, in the caller's transaction.

    `verified`: blocks that are equal to the chain once these rows are written.

    Raises:
        FatalError: the header of the cursor's block is missing.
        TransientError: raw rows are missing elsewhere; nothing was changed.
    """
    rewrite_cursor(uow, cursor)
    # Removals first: a removed row may have the same number as an inserted one of another block.
    uow.logs.orphan(row_diff.extra_logs)
    uow.calls.orphan(row_diff.extra_calls)
    uow.logs.append(row_diff.missing_logs)
    uow.calls.append(row_diff.missing_calls)
    uow.logs.replace(row_diff.changed_logs)
    uow.calls.replace(row_diff.changed_calls)
    try:
        return rebuild_up_to(uow, folder, cursor.number, rebuild_options, verified)
    except IncompleteLogsError as error:
        # The daemon continues with its state; an operator has to start a reread of those rows.
        raise TransientError(str(error)) from error


def find_proven_blocks(uow: UnitOfWork, scope: IngestScope, blocks: BlockRange) -> set[int]:
    """Return the blocks that are known to be proven by their receipts."""
    level_by_block = uow.verified_blocks.get_level_by_number(blocks.first, blocks.last)
    proven = {
        number for number, level in level_by_block.items() if level >= VerificationLevel.PROVEN
    }
    for span in uow.coverage.list_spans(scope.id, blocks.first, blocks.last):
        if span.level >= VerificationLevel.PROVEN:
            proven.update(range(span.first, span.last + 1))
    return proven
