"""Commits a window in one transaction: raw rows, state, coverage, hooks' data, cursor.

After any failure either all of it is stored or nothing (docs/explanation/ingest.md#commit).
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import Decoded
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.reports.rounds import Rounds
from oracle.errors import FatalError, TransientError
from oracle.indexer.block_hooks import HookNote, HookStops, header_depth
from oracle.indexer.feeds.feed_events import with_feed
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import note_folded, note_window
from oracle.indexer.refused_block import explained
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.tracing import span

_BEFORE_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class WindowCommitted:
    """One committed window.

    `event_counts` by type of event, as in docs/reference/events-and-jsonl.md#vocabulary;
    `anomaly_count` of them broke a rule; `notes` are those of hooks. `newest_number` is the
    chain's newest known block, `cursor` the last folded one. The durations are those of folding,
    of committing, and, before both, of fetching and decoding.
    """

    blocks: BlockRange
    cursor: BlockRef
    newest: int
    final: int
    logs: int
    events: Mapping[str, int]
    anomalies: int
    notes: tuple[HookNote, ...]
    fold_seconds: float
    commit_seconds: float
    fetch_seconds: float = 0.0


def commit(
    store: Store,
    folder: Folder,
    window: BlockWindow,
    *,
    heads: Heads,
    cursor: Cursor | None,
    clock: Callable[[], float],
) -> WindowCommitted:
    """Decode and fold a window that continues the block at `cursor`, in one transaction.

    Raises:
        FatalError: the cursor has moved: another process writes into the database.
        TransientError: the final block of the heads is not on the indexed chain.
    """
    decoded = window.decoded or folder.reader.read(window.logs, window.calls)
    began = clock()
    blocks, last = window.range, window.last
    final = final_number(heads, cursor)
    with span("commit", first=blocks.first, last=blocks.last, last_hash=last.hash):
        with folder.following(cursor):
            with store.transaction() as uow:
                if uow.cursor.get() != cursor:
                    raise FatalError("another process moved the cursor: only one may write")
                _store_window(uow, folder, window, decoded)
                if cursor is None:
                    note_folded(uow, folder.reader)
                check_final(uow, final_in_window(window, heads, cursor))
                with span("fold", first=blocks.first, last=blocks.last):
                    stops = _stops(uow, folder, window, heads.latest.number)
                    decoded = with_feed(uow, folder.reader, decoded, blocks)
                    notes, anomalies = _fold(uow, folder, decoded, final, stops)
                folded = clock()
                moved = _move_cursor(uow, folder, window, heads, cursor)
            folder.commit_memory(moved)
        committed = clock()
    return WindowCommitted(
        blocks=blocks,
        cursor=last,
        newest=heads.latest.number,
        final=final,
        logs=len(window.logs),
        events=_count_events(decoded),
        anomalies=anomalies,
        notes=notes,
        fold_seconds=folded - began,
        commit_seconds=committed - folded,
    )


def newer_final(final: BlockRef, cursor: Cursor | None) -> BlockRef | None:
    """Return the final block if it is above the cursor's, else None: it never goes back."""
    known = None if cursor is None else cursor.final_number
    return final if known is None or final.number > known else None


def final_in_window(window: BlockWindow, heads: Heads, cursor: Cursor | None) -> BlockRef | None:
    """Return the final block to store with a window, if it is above the cursor's.

    A final block above the window is one endpoint's claim about a block that was not read: then
    the window's last block, which was, is the final one.
    """
    is_in_window = heads.final.number <= window.last.number
    return newer_final(heads.final if is_in_window else window.last, cursor)


def final_number(heads: Heads, cursor: Cursor | None) -> int:
    """Return the highest final block of heads and cursor; blocks above it are journaled."""
    known = None if cursor is None else cursor.final_number
    return max(heads.final.number, -1 if known is None else known)


def check_final(uow: UnitOfWork, final: BlockRef | None) -> None:
    """Check that a final block is on the indexed chain; a wrong one could not be undone.

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


def _store_window(uow: UnitOfWork, folder: Folder, window: BlockWindow, decoded: Decoded) -> None:
    """Store the raw rows, headers, dead letters and coverage of a window."""
    uow.logs.append(window.logs)
    uow.calls.append(window.calls)
    uow.blocks.save(window.headers or [window.last])
    uow.dead_letters.append(decoded.dead)
    note_window(uow, folder.scope, window)
    explained(uow, window.range)


def _fold(
    uow: UnitOfWork, folder: Folder, decoded: Decoded, final: int, stops: HookStops
) -> tuple[tuple[HookNote, ...], int]:
    """Fold events and run hooks at their stops; return the hooks' notes and the anomalies."""
    notes: list[HookNote] = []

    def at_stop(uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        for hook in stops.at(block):
            note = hook.at_block(uow, rounds, block)
            if note is not None:
                notes.append(note)

    anomalies = folder.fold(uow, decoded, final=final, stops=stops.blocks, at_stop=at_stop)
    return tuple(notes), anomalies


def _stops(uow: UnitOfWork, folder: Folder, window: BlockWindow, newest: int) -> HookStops:
    """Prepare the hooks for the window and return their stops; history has no headers."""
    headers, stops = window.headers, HookStops()
    before = uow.blocks.at(window.range.first - 1) if headers and folder.hooks else None
    if before is not None:
        headers = [before, *headers]
    for hook in folder.hooks:
        hook.passed_over(uow, headers, window.last, newest)
        stops.add(hook, hook.wanted_stops(headers, newest))
    return stops


def _move_cursor(
    uow: UnitOfWork, folder: Folder, window: BlockWindow, heads: Heads, cursor: Cursor | None
) -> Cursor | None:
    """Prune journal and headers, move the cursor last, and return the new cursor."""
    last = window.last
    journaled_above = min(final_number(heads, cursor), last.number)
    uow.undo.prune_to(journaled_above)
    near_head = heads.latest.number - header_depth(folder.hooks)
    uow.blocks.prune_below(min(journaled_above, near_head))
    epoch = 0 if cursor is None else cursor.epoch
    uow.cursor.move_to(last, final_in_window(window, heads, cursor), epoch)
    return uow.cursor.get()


def _count_events(decoded: Decoded) -> Mapping[str, int]:
    """Return the number of events of each type, by the names of the JSON lines."""
    kinds = Counter(map(type, [*decoded.events, *decoded.contract_events]))
    return {_BEFORE_CAPITAL.sub("_", kind.__name__).lower(): kinds[kind] for kind in kinds}
