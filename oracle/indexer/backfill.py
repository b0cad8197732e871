"""Fetches blocks again and puts in the raw rows that are missing; then everything is folded anew.

An endpoint that left a log out once is found by asking again, best another one.
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
    """What the chain says about blocks that we had, and we did not.

    `missing_*` were put in. `unserved` counts rows that we have and the chain did not give now;
    they stay: an endpoint that prunes forgets logs. `differing` counts those that it gave in other
    words, which stay too: who is right, a proof must say. `rebuilt` None: nothing was missing.
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
    """Fetch `blocks` again, put in what is missing, and fold anew if anything was.

    Raises:
        InputError: the range leaves what is indexed.
        TransientError: the chain is just changing, or does not answer.
        FatalError: a final block is another one on the chain than here.
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
    """Note what the window has and we have not, and the other way round."""
    check_same_chain(uow, cursor, window)
    difference = compare(uow, window)
    found.served += len(window.logs)
    found.missing_logs += difference.missing_logs
    found.missing_calls += difference.missing_calls
    found.unserved += len(difference.extra)
    found.differing += len(difference.other)
