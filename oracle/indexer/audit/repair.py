"""Repairs rows that an endpoint had left out, invented or changed, and refolds.

The judgement comes before: what the receipts root proves is always right.
"""

from collections.abc import Collection
from dataclasses import dataclass

from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope, Level
from oracle.errors import TransientError
from oracle.indexer.audit.row_diff import RowDiff
from oracle.indexer.completeness import IncompleteLogsError
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, claim, rebuild_up_to
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


@dataclass(frozen=True, slots=True)
class RepairContext:
    """Objects that audits and repairs of stored rows need."""

    chain: ChainReader
    store: Store
    folder: Folder
    manner: RebuildOptions


def settled(difference: RowDiff, proven: Collection[int], ours: Collection[int]) -> RowDiff:
    """Return the part of a difference that is to be repaired.

    Blocks that the endpoint's side has proven (`served_proven`) are repaired completely. Blocks
    that are proven in the database (`stored_proven`) are not. In all other blocks missing rows are
    inserted, because endpoints lose logs but hardly ever invent them; stored rows stay.
    """

    def comes_in(block: int) -> bool:
        return block in proven or block not in ours

    return RowDiff(
        missing_logs=[log for log in difference.missing_logs if comes_in(log.block)],
        missing_calls=[call for call in difference.missing_calls if comes_in(call.block)],
        extra_logs=[log for log in difference.extra_logs if log.block in proven],
        extra_calls=[call for call in difference.extra_calls if call.block in proven],
        other_logs=[log for log in difference.other_logs if log.block in proven],
        other_calls=[call for call in difference.other_calls if call.block in proven],
    )


def repair_blocks(
    uow: UnitOfWork,
    folder: Folder,
    cursor: Cursor,
    repair: RowDiff,
    manner: RebuildOptions,
    verified: BlockRange | None = None,
) -> RebuildResult:
    """Write the repaired rows and refold up to the cursor, in the caller's transaction.

    `verified`: blocks that are equal to the chain once these rows are written.

    Raises:
        FatalError: another process moved the cursor.
        TransientError: raw rows are missing elsewhere; nothing was changed.
    """
    claim(uow, cursor)
    # Removals first: a removed row may have the same number as an inserted one of another block.
    uow.logs.orphan(repair.extra_logs)
    uow.calls.orphan(repair.extra_calls)
    uow.logs.append(repair.missing_logs)
    uow.calls.append(repair.missing_calls)
    uow.logs.replace(repair.other_logs)
    uow.calls.replace(repair.other_calls)
    try:
        return rebuild_up_to(uow, folder, cursor.number, manner, verified)
    except IncompleteLogsError as error:
        # The daemon continues with its state; an operator has to have those rows read again.
        raise TransientError(str(error)) from error


def proven_in(uow: UnitOfWork, scope: IngestScope, blocks: BlockRange) -> set[int]:
    """Return the blocks that are known to be proven by their receipts."""
    single = uow.verified_blocks.between(blocks.first, blocks.last)
    proven = {number for number, level in single.items() if level >= Level.PROVEN}
    for span in uow.coverage.spans(scope.id, blocks.first, blocks.last):
        if span.level >= Level.PROVEN:
            proven.update(range(span.first, span.last + 1))
    return proven
