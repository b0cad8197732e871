"""Commits a window's rows, state, coverage, hook data and cursor in one transaction.

After a failure, either the whole window is stored or none of it. See
docs/explanation/ingest.md#commit.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.reports.contract_state import ContractState
from oracle.errors import FatalError, TransientError
from oracle.indexer.block_confirmation import clear_block_refusal
from oracle.indexer.block_hooks import HookNote, HookStops, get_max_header_depth
from oracle.indexer.feed_events import merge_feed_events
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import record_fold_version, record_window
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.tracing import start_span

_BEFORE_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class CommittedWindow:
    """A window that was committed.

    `event_counts` are the numbers of events by type, as named in
    docs/reference/events-and-jsonl.md#vocabulary. `notes` are what the hooks wrote.
    `newest_number` is the height of the chain's newest known block, and `cursor` the last folded
    block. `fetch_seconds` includes decoding.
    """

    blocks: BlockRange
    cursor: BlockRef
    newest_number: int
    final_number: int
    log_count: int
    event_counts: Mapping[str, int]
    notes: tuple[HookNote, ...]
    fold_seconds: float
    commit_seconds: float
    fetch_seconds: float = 0.0


def commit_window(
    store: Store,
    folder: EventFolder,
    window: BlockWindow,
    *,
    heads: Heads,
    cursor: Cursor | None,
    clock: Callable[[], float],
) -> CommittedWindow:
    """Decode, fold and store the window after the block at `cursor`, in one transaction.

    Raises:
        FatalError: the cursor has moved, because another process writes into the database.
        TransientError: the final block of the heads is not on the indexed chain.
    """
    decoded_events = window.decoded or folder.reader.decode_rows(window.logs, window.calls)
    started_at = clock()
    blocks, last_block = window.range, window.last
    final_block_number = get_highest_final_block_number(heads, cursor)
    with start_span("commit", first=blocks.first, last=blocks.last, last_hash=last_block.hash):
        with folder.keep_cached_rows_if_current(cursor):
            with store.transaction() as uow:
                if uow.cursor.get() != cursor:
                    raise FatalError(
                        "another process moved the cursor; only one process may write"
                    )
                _store_window(uow, folder, window, decoded_events)
                if cursor is None:
                    record_fold_version(uow, folder.reader)
                check_final_block(uow, select_final_block_to_store(window, heads, cursor))
                with start_span("fold", first=blocks.first, last=blocks.last):
                    hook_stops = _collect_hook_stops(uow, folder, window, heads.latest.number)
                    decoded_events = merge_feed_events(uow, folder.reader, decoded_events, blocks)
                    hook_notes = _fold_window(
                        uow, folder, decoded_events, final_block_number, hook_stops
                    )
                folded_at = clock()
                new_cursor = _move_cursor(uow, folder, window, heads, cursor)
            folder.set_cached_rows_cursor(new_cursor)
            for hook in folder.hooks:
                hook.on_committed(store, last_block, heads.latest.number)
        committed_at = clock()
    return CommittedWindow(
        blocks=blocks,
        cursor=last_block,
        newest_number=heads.latest.number,
        final_number=final_block_number,
        log_count=len(window.logs),
        event_counts=_count_events(decoded_events),
        notes=hook_notes,
        fold_seconds=folded_at - started_at,
        commit_seconds=committed_at - folded_at,
    )


def select_newer_final_block(final_block: BlockRef, cursor: Cursor | None) -> BlockRef | None:
    """Return `final_block` if it is above the cursor's final block, or None if it is not.

    The final block of the cursor must never go back.
    """
    final_number = None if cursor is None else cursor.final_number
    return final_block if final_number is None or final_block.number > final_number else None


def select_final_block_to_store(
    window: BlockWindow, heads: Heads, cursor: Cursor | None
) -> BlockRef | None:
    """Return the newer final block to store with a window, or None if there is none.

    If the final block of the heads is above the window, it was not read yet. The last block of the
    window is then stored as final instead.
    """
    is_in_window = heads.final.number <= window.last.number
    return select_newer_final_block(heads.final if is_in_window else window.last, cursor)


def get_highest_final_block_number(heads: Heads, cursor: Cursor | None) -> int:
    """Return the higher of the final block numbers of `heads` and `cursor`."""
    known_final = None if cursor is None else cursor.final_number
    return max(heads.final.number, -1 if known_final is None else known_final)


def check_final_block(uow: UnitOfWork, final_block: BlockRef | None) -> None:
    """Check that a final block is on the indexed chain.

    Final blocks cannot be undone.

    Raises:
        TransientError: the endpoint of the heads is on another fork than the window's endpoint.
    """
    identity = uow.identity.get()
    if final_block is None or identity is None or final_block.number < identity.start_block:
        return
    stored_block = uow.blocks.find_canonical(final_block.number)
    if stored_block is None or stored_block.hash != final_block.hash:
        stored_hash = "none (skipped)" if stored_block is None else stored_block.hash
        raise TransientError(
            f"block {final_block.number} is final with hash {final_block.hash}, but is indexed "
            f"with hash {stored_hash}; the endpoints are on different forks"
        )


def _store_window(
    uow: UnitOfWork, folder: EventFolder, window: BlockWindow, decoded_events: DecodedEvents
) -> None:
    """Store the raw rows, headers, dead letters and coverage of a window."""
    uow.logs.append(window.logs)
    uow.calls.append(window.calls)
    uow.blocks.save(window.headers or [window.last])
    uow.dead_letters.append(decoded_events.dead_letters)
    record_window(uow, folder.scope, window)
    clear_block_refusal(uow, window.range)


def _fold_window(
    uow: UnitOfWork,
    folder: EventFolder,
    decoded_events: DecodedEvents,
    final_block_number: int,
    hook_stops: HookStops,
) -> tuple[HookNote, ...]:
    """Fold events, call the hooks at their blocks, and return the notes of the hooks."""
    hook_notes: list[HookNote] = []

    def run_hooks(uow: UnitOfWork, contract_state: ContractState, block: BlockRef) -> None:
        for hook in hook_stops.get_hooks_at_block(block):
            hook_note = hook.on_block(uow, contract_state, block, final_block_number)
            if hook_note is not None:
                hook_notes.append(hook_note)

    folder.fold_events(
        uow,
        decoded_events,
        final_number=final_block_number,
        stops=hook_stops.blocks,
        on_stop=run_hooks,
    )
    return tuple(hook_notes)


def _collect_hook_stops(
    uow: UnitOfWork, folder: EventFolder, window: BlockWindow, newest_block: int
) -> HookStops:
    """Call each hook's `on_window`, and return the blocks at which to call the hooks."""
    headers = window.headers
    hook_stops = HookStops()
    previous_block = (
        uow.blocks.find_canonical(window.range.first - 1) if headers and folder.hooks else None
    )
    if previous_block is not None:
        headers = [previous_block, *headers]
    for hook in folder.hooks:
        hook.on_window(uow, headers, window.last, newest_block)
        hook_stops.add(hook, hook.select_stop_blocks(headers, newest_block))
    return hook_stops


def _move_cursor(
    uow: UnitOfWork, folder: EventFolder, window: BlockWindow, heads: Heads, cursor: Cursor | None
) -> Cursor | None:
    """Prune the undo journal and the headers, then move the cursor and return it."""
    last = window.last
    last_unjournaled_block = min(get_highest_final_block_number(heads, cursor), last.number)
    uow.undo.prune_journal_to(last_unjournaled_block)
    first_header_block = heads.latest.number - get_max_header_depth(folder.hooks)
    uow.blocks.prune_below(min(last_unjournaled_block, first_header_block))
    lease_epoch = 0 if cursor is None else cursor.epoch
    uow.cursor.move_to(last, select_final_block_to_store(window, heads, cursor), lease_epoch)
    return uow.cursor.get()


def _count_events(decoded_events: DecodedEvents) -> Mapping[str, int]:
    """Count the events by type.

    Types are named as in the JSON lines.
    """
    event_type_counts = Counter(
        map(type, [*decoded_events.events, *decoded_events.contract_events])
    )
    return {
        _BEFORE_CAPITAL.sub("_", event_type.__name__).lower(): event_type_counts[event_type]
        for event_type in event_type_counts
    }
