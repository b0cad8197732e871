"""Fetches indexed blocks again, inserts raw rows that are missing, and refolds everything.

A log that an endpoint left out is found by a second request, best from another endpoint.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Call, Log
from oracle.indexer.audit.row_diff import check_same_chain, compare, require_indexed
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, claim, rebuild_up_to
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


@dataclass(slots=True)
class BackfillResult:
    """Differences between the chain and the stored rows of some blocks.

    `missing_*` were inserted. `unserved_count` counts stored rows that the chain did not return
    now; they are kept, because endpoints prune logs. `differing_count` counts rows with other
    contents, which are kept as well: only a proof shows which side is right. `rebuilt` is None if
    nothing was missing.
    """

    blocks: BlockRange
    served: int = 0
    missing_logs: list[Log] = field(default_factory=list)
    missing_calls: list[Call] = field(default_factory=list)
    unserved: int = 0
    differing: int = 0
    rebuilt: RebuildResult | None = None

    @property
    def differs(self) -> bool:
        return bool(self.missing_logs or self.missing_calls)


def backfill(
    chain: ChainReader, store: Store, folder: Folder, blocks: BlockRange, manner: RebuildOptions
) -> BackfillResult:
    """Fetch `blocks` again, insert missing rows, and refold if there were any.

    Raises:
        InputError: the range exceeds the indexed blocks.
        TransientError: the chain is reorganising, or does not respond.
        FatalError: a final block differs between the chain and the database.
    """
    with store.reading() as uow:
        cursor = require_indexed("backfill", uow, blocks)
    found = BackfillResult(blocks)
    for window in _windows(chain, blocks):
        with store.reading() as uow:
            _compare(uow, cursor, window, found)
        manner.keep_lease()
        manner.progress(window.range.last, blocks.last)
    if found.differs:
        with folder.following(None), manner.transaction(store) as uow:
            claim(uow, cursor)
            uow.logs.append(found.missing_logs)
            uow.calls.append(found.missing_calls)
            found.rebuilt = rebuild_up_to(uow, folder, cursor.number, manner)
        folder.forget()
    return found


def _windows(chain: ChainReader, blocks: BlockRange) -> Iterator[BlockWindow]:
    first = blocks.first
    while first <= blocks.last:
        window = chain.window(BlockRange(first, blocks.last), with_headers=False)
        yield window
        first = window.range.last + 1


def _compare(uow: UnitOfWork, cursor: Cursor, window: BlockWindow, found: BackfillResult) -> None:
    """Add the differences between the window and the stored rows to the result."""
    check_same_chain(uow, cursor, window)
    difference = compare(uow, window)
    found.served += len(window.logs)
    found.missing_logs += difference.missing_logs
    found.missing_calls += difference.missing_calls
    found.unserved += len(difference.extra)
    found.differing += len(difference.other)
