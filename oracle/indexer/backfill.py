"""Fetches indexed blocks again, inserts missing raw rows, and refolds everything.

This finds logs that an endpoint had left out, because the second request goes to another endpoint
if possible.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Call, Log
from oracle.indexer.audit.row_diff import (
    check_window_on_same_chain,
    compare_window_with_database,
    require_indexed_blocks,
)
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import (
    RebuildOptions,
    RebuildResult,
    rebuild_state_up_to,
    renew_cursor_epoch,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


@dataclass(slots=True)
class BackfillResult:
    """The differences between the chain and the stored rows of some blocks.

    The rows in `missing_*` were inserted. `unserved_count` is the number of stored rows that the
    endpoint did not return again; they are kept, because endpoints prune logs. `differing_count`
    is the number of rows with other contents; the stored ones are kept, because only a proof can
    show which side is right. `rebuilt` is None if no row was missing.
    """

    blocks: BlockRange
    served_count: int = 0
    missing_logs: list[Log] = field(default_factory=list)
    missing_calls: list[Call] = field(default_factory=list)
    unserved_count: int = 0
    differing_count: int = 0
    rebuilt: RebuildResult | None = None

    @property
    def has_missing_rows(self) -> bool:
        return bool(self.missing_logs or self.missing_calls)


def backfill_block_range(
    chain: ChainSource,
    store: Store,
    folder: EventFolder,
    blocks: BlockRange,
    rebuild_options: RebuildOptions,
) -> BackfillResult:
    """Fetch `blocks` again, insert missing rows, and refold if there were any.

    Raises:
        InputError: the range exceeds the indexed blocks.
        TransientError: the chain is reorganising, or does not respond.
        FatalError: a final block differs between the chain and the database.
    """
    with store.read_transaction() as uow:
        cursor = require_indexed_blocks("backfill", uow, blocks)
    result = BackfillResult(blocks)
    for window in _read_windows(chain, blocks):
        with store.read_transaction() as uow:
            _compare_window(uow, cursor, window, result)
        rebuild_options.renew_lease()
        rebuild_options.progress(window.range.last, blocks.last)
    if result.has_missing_rows:
        with folder.keep_cached_rows_if_current(None), rebuild_options.transaction(store) as uow:
            renew_cursor_epoch(uow, cursor)
            uow.logs.append(result.missing_logs)
            uow.calls.append(result.missing_calls)
            result.rebuilt = rebuild_state_up_to(uow, folder, cursor.number, rebuild_options)
        folder.discard_cached_rows()
    return result


def _read_windows(chain: ChainSource, blocks: BlockRange) -> Iterator[BlockWindow]:
    first_block = blocks.first
    while first_block <= blocks.last:
        window = chain.fetch_window(BlockRange(first_block, blocks.last), with_headers=False)
        yield window
        first_block = window.range.last + 1


def _compare_window(
    uow: UnitOfWork, cursor: Cursor, window: BlockWindow, result: BackfillResult
) -> None:
    """Add the differences between a window and the stored rows to the result."""
    check_window_on_same_chain(uow, cursor, window)
    row_diff = compare_window_with_database(uow, window)
    result.served_count += len(window.logs)
    result.missing_logs += row_diff.missing_logs
    result.missing_calls += row_diff.missing_calls
    result.unserved_count += len(row_diff.extra_rows)
    result.differing_count += len(row_diff.changed_rows)
