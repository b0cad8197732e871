"""Writes a window down in one transaction: raw rows, state, coverage, what hooks add, cursor.

Whatever goes wrong on the way, either all of it is there afterwards or nothing
(docs/explanation/ingest.md#commit).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import Decoded
from oracle.domain.blocks import BlockRef
from oracle.domain.reports.rounds import Rounds
from oracle.errors import FatalError, TransientError
from oracle.indexer.block_hooks import HookNote, HookStops, header_depth
from oracle.indexer.feeds.feed_events import with_feed
from oracle.indexer.folder import BlockSpan, Folder
from oracle.indexer.provenance import note_folded, note_window
from oracle.indexer.refused_block import explained
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.tracing import span


@dataclass(frozen=True, slots=True)
class FetchedWindow:
    """A window that continues our blocks, and what it says; nothing of it is stored yet."""

    window: BlockWindow
    said: Decoded
    heads: Heads
    cursor: Cursor | None

    @property
    def newer_final(self) -> BlockRef | None:
        """The final block, where it is above the one that we know; it never goes down.

        One that lies above the window is somebody's word about a block that we have not read:
        then the window's last block is final, and that is what we hold.
        """
        final, last = self.heads.final, self.window.last
        return _newer(final if final.number <= last.number else last, self.cursor)

    @property
    def final_number(self) -> int:
        """Every block above this one is journaled."""
        known = None if self.cursor is None else self.cursor.final_number
        return max(self.heads.final.number, -1 if known is None else known)


def newer_final(heads: Heads, cursor: Cursor | None) -> BlockRef | None:
    """Return the final block of the heads, where it is above the one that the cursor knows."""
    return _newer(heads.final, cursor)


def _newer(final: BlockRef, cursor: Cursor | None) -> BlockRef | None:
    known = None if cursor is None else cursor.final_number
    return final if known is None or final.number > known else None


@dataclass(slots=True)
class CommitResult:
    """What came of a window; `folded_at` by the pace's clock."""

    notes: list[HookNote] = field(default_factory=list)
    # With what a feed said beside the chain.
    said: Decoded = field(default_factory=lambda: Decoded([], []))
    anomalies: int = 0
    folded_at: float = 0.0


def commit(
    store: Store, folder: Folder, fetched_window: FetchedWindow, clock: Callable[[], float]
) -> CommitResult:
    """Write the window down in one transaction."""
    written, blocks = CommitResult(), fetched_window.window.range
    with folder.following(fetched_window.cursor):
        with store.transaction() as uow:
            if uow.cursor.get() != fetched_window.cursor:
                raise FatalError("another process moved the cursor: only one may write")
            uow.logs.append(fetched_window.window.logs)
            uow.calls.append(fetched_window.window.calls)
            uow.blocks.save(fetched_window.window.headers or [fetched_window.window.last])
            uow.dead_letters.append(fetched_window.said.dead)
            note_window(uow, folder.scope, fetched_window.window)
            explained(uow, blocks)
            if fetched_window.cursor is None:
                note_folded(uow, folder.reader)
            check_final(uow, fetched_window.newer_final)
            with span("fold", first=blocks.first, last=blocks.last):
                _fold(uow, folder, fetched_window, written)
            written.folded_at = clock()
            moved = _move(uow, folder, fetched_window)
        folder.commit_memory(moved)
    return written


def check_final(uow: UnitOfWork, final: BlockRef | None) -> None:
    """Let no block of a fork that we do not follow become final: it could not be undone.

    Raises:
        TransientError: the heads come from an endpoint on another fork than the window.
    """
    identity = uow.identity.get()
    if final is None or identity is None or final.number < identity.start_block:
        return
    ours = uow.blocks.at(final.number)
    if ours is None or ours.hash != final.hash:
        said = "skipped" if ours is None else ours.hash
        raise TransientError(
            f"block {final.number} is final as {final.hash} to one endpoint, "
            f"and {said} to the one that continues our blocks"
        )


def _fold(
    uow: UnitOfWork, folder: Folder, fetched_window: FetchedWindow, written: CommitResult
) -> None:
    """Fold the window, and stop at the blocks that hooks want."""
    stops = _stops(uow, folder, fetched_window)

    def at_stop(uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        for hook in stops.at(block):
            note = hook.at_block(uow, rounds, block)
            if note is not None:
                written.notes.append(note)

    blocks = fetched_window.window.range
    written.said = with_feed(uow, folder.reader, fetched_window.said, blocks)
    span = BlockSpan(blocks.last, written.said, fetched_window.final_number, stops.blocks)
    written.anomalies = folder.fold(uow, span, at_stop)


def _stops(uow: UnitOfWork, folder: Folder, fetched_window: FetchedWindow) -> HookStops:
    """Ask the hooks where to stop; a window without headers is history, and they are told."""
    window, newest, stops = fetched_window.window, fetched_window.heads.latest.number, HookStops()
    headers = window.headers
    before = uow.blocks.at(window.range.first - 1) if headers and folder.hooks else None
    if before is not None:
        headers = [before, *headers]
    for hook in folder.hooks:
        hook.passed_over(uow, headers, window.last, newest)
        stops.add(hook, hook.wanted_stops(headers, newest))
    return stops


def _move(uow: UnitOfWork, folder: Folder, fetched_window: FetchedWindow) -> Cursor | None:
    """Forget what nothing can ask for any more, and move the cursor last."""
    last, final = fetched_window.window.last, fetched_window.final_number
    near = header_depth(folder.hooks)
    uow.undo.prune_to(min(final, last.number))
    uow.blocks.prune_below(min(final, last.number, fetched_window.heads.latest.number - near))
    epoch = 0 if fetched_window.cursor is None else fetched_window.cursor.epoch
    uow.cursor.move_to(last, fetched_window.newer_final, epoch)
    return uow.cursor.get()
