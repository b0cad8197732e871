"""Ingests the next window of blocks: raw rows, state, hooks' data and cursor.

One loop serves history and head. The chain is read before the transaction opens; one window, of
about one second of work, is committed at a time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.protocols import ChainReader
from oracle.chain.verification.refused_blocks import RefusalError
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.errors import FatalError, TransientError
from oracle.indexer.block_confirmation import (
    Confirmation,
    confirm_block,
    note_confirmation,
)
from oracle.indexer.block_hooks import first_block, header_depth
from oracle.indexer.commit import WindowCommitted, check_final, commit, newer_final
from oracle.indexer.feeds.head_limit import FeedHeadLimit
from oracle.indexer.folder import Folder
from oracle.indexer.refused_block import store_refusal
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.fork_detection import ForkContext, ForkWatch, OutvotedError
from oracle.indexer.reorgs.reorg import Rewound, rewind_if_forked
from oracle.indexer.reorgs.reorg_watch import check_for_reorg
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Time between two checks of everything else (docs/explanation/daemon.md#short-jobs).
TARGET_SECONDS = 1.0
# Older heads are requested again, even if history is far from them, because publishing and
# confirming depend on them.
_HEADS_SECONDS = 2.0
# More blocks than a chain makes in a day; a faster pace is not limited.
_NO_LIMIT = 1 << 20


@dataclass(slots=True)
class IngestState:
    """State of the loop between windows: heads, pending forks, and the window size.

    `heads` are for readers of the index: a second provider has confirmed their final and safe
    blocks. `claimed_heads` are the heads as an endpoint reported them. `clock` returns seconds.
    """

    clock: Callable[[], float] = time.monotonic
    heads: Heads | None = None
    claimed: Heads | None = None
    # Whether the safe block is confirmed as well, because reports depend on it.
    confirms_safe: bool = False
    # Since when no second provider confirms blocks: none becomes final, and all are read and
    # journaled as at the head. None: blocks are confirmed, or there is only one provider.
    unconfirmed_since: float | None = None
    _safe: BlockRef | None = None
    _shown: Heads | None = None
    most_blocks: int = field(default=_NO_LIMIT)
    fork_watch: ForkWatch = field(default_factory=ForkWatch)
    # Limits how far the chain is read; None: to its head.
    limit: FeedHeadLimit | None = None
    _asked_at: float = 0.0

    def heads_for(self, chain: ChainReader, first: int, near: int) -> Heads:
        """Return the heads; recent ones are reused if `first_block` is far below them.

        Final blocks more than `head_depth` below the newest one are history in any case.
        """
        known = self.claimed
        is_old = self.clock() - self._asked_at > _HEADS_SECONDS
        if known is None or is_old or first > _history(known, near):
            known = chain.heads() if self.limit is None else self.limit.of(chain)
            self.claimed = known
            self._asked_at = self.clock()
        return known

    def forget_heads(self) -> None:
        """Request new heads next time, because their endpoint was found wrong."""
        self.claimed = None

    def show_heads(self, final: BlockRef) -> None:
        """Update `heads` with `final`, a confirmed block, as their highest final block."""
        claimed = self.claimed
        if claimed is None:
            return
        confirmed = min(final, claimed.final, key=lambda block: block.number)
        safe = self._safe if self._safe is not None else confirmed
        is_known = claimed.safe is not None and safe.number <= claimed.safe.number
        shown = replace(claimed, final=confirmed, safe=safe if is_known else None)
        if claimed is not self._shown or shown != self.heads:
            self.heads, self._shown = shown, claimed

    def confirm_safe(self, safe: BlockRef | None) -> None:
        """Set the highest safe block confirmed by a second provider, or None."""
        self._safe = safe

    def confirm(self, result: Confirmation) -> None:
        """Record whether a second provider confirms blocks now."""
        if result is not Confirmation.UNANSWERED:
            self.unconfirmed_since = None
        elif self.unconfirmed_since is None:
            self.unconfirmed_since = self.clock()

    def record_duration(self, blocks: int, seconds: float) -> None:
        """Shrink the next window if this one took too long, else grow it."""
        if seconds > TARGET_SECONDS:
            self.most_blocks = max(1, int(blocks * TARGET_SECONDS / seconds))
        else:
            self.most_blocks = min(_NO_LIMIT, self.most_blocks * 2)


# Result of one tick.
Done = WindowCommitted | Rewound | HaltChanged


def index_next(
    chain: ChainReader, store: Store, folder: Folder, ingest: IngestState
) -> Done | None:
    """Ingest the next window, or rewind if the chain has left the indexed blocks.

    Returns None at the head, if the endpoint lags behind, and while a possible fork is undecided.
    An endpoint that is outvoted about the end of a window loses its place, and the next one
    provides window and heads.

    Raises:
        TransientError: the chain did not respond, or contradicts itself.
        FatalError: another process wrote into the database.
    """
    for _ in chain.endpoint_names()[1:]:
        try:
            return _ingest_once(chain, store, folder, ingest)
        except OutvotedError:
            ingest.forget_heads()
    return _ingest_once(chain, store, folder, ingest)


def _ingest_once(
    chain: ChainReader, store: Store, folder: Folder, ingest: IngestState
) -> Done | None:
    with store.reading() as uow:
        cursor, first = uow.cursor.get(), _first_block(uow)
    started = ingest.clock()
    near, every_from = header_depth(folder.hooks), first_block(folder.hooks)
    heads = ingest.heads_for(chain, first, near)
    ingest.show_heads(_confirmed_final(store))
    fork_context = ForkContext(chain, store, ingest.fork_watch, ingest.clock())
    held = check_for_reorg(fork_context, folder, heads)
    if held is not None:
        return held.done
    if heads.latest.number < first:
        return _at_the_head(fork_context, folder, ingest, heads)
    history = _history(heads, near)
    if every_from is not None:
        history = min(history, every_from - 1)
    if ingest.unconfirmed_since is not None:
        history = first - 1
    # Headers are needed above the final block, where forks happen, and where a hook needs them.
    with_headers = first > history
    blocks = BlockRange(first, heads.latest.number if with_headers else history)
    window = _read_window(
        fork_context,
        heads,
        blocks,
        with_headers=with_headers,
        max_blocks=ingest.most_blocks,
    )
    if cursor is not None and window.first_parent != cursor.hash:
        return rewind_if_forked(fork_context, folder, heads, window)
    ingest.fork_watch.tip.forget()
    heads = _confirmed_heads(fork_context, ingest, heads, window)
    if heads.final.number < window.last.number and not window.headers:
        # Read again like a block at the head: with all headers, and journaled.
        return _ingest_once(chain, store, folder, ingest)
    committed = commit(store, folder, window, heads=heads, cursor=cursor, clock=ingest.clock)
    work_seconds = committed.fold_seconds + committed.commit_seconds
    fetch_seconds = ingest.clock() - started - work_seconds
    ingest.fork_watch.goes_on()
    ingest.show_heads(_confirmed_final(store))
    ingest.record_duration(len(window.range), work_seconds)
    return replace(committed, fetch_seconds=fetch_seconds)


def _read_window(
    fork_context: ForkContext,
    heads: Heads,
    blocks: BlockRange,
    *,
    with_headers: bool,
    max_blocks: int,
) -> BlockWindow:
    """Return the next window, past history if only skipped heights are left of it.

    A block that is refused is stored, and refused at every attempt.

    Raises:
        TransientError: the chain has advanced beyond the known heads.
    """
    chain, newest = fork_context.chain, heads.latest.number
    try:
        window = chain.window(blocks, with_headers=with_headers, most=max_blocks)
        if not with_headers and window.last.number > blocks.last:
            remaining = BlockRange(blocks.first, newest)
            window = chain.window(remaining, with_headers=True, most=max_blocks)
    except RefusalError as error:
        raise store_refusal(fork_context.store, error.refusal) from error
    if window.last.number > newest:
        words = f"block {window.last.number} came while block {newest} was the newest one"
        raise TransientError(words)
    return window


def _confirmed_final(store: Store) -> BlockRef:
    """Return the highest final block in the database: the cursor's, or the genesis block."""
    with store.reading() as uow:
        cursor, identity = uow.cursor.get(), uow.identity.get()
        if cursor is not None and cursor.final_number is not None and cursor.final_hash:
            known = uow.blocks.at(cursor.final_number)
            final = BlockRef(cursor.final_number, cursor.final_hash, cursor.final_hash, 0)
            return final if known is None else known
    if identity is None:
        raise FatalError("the database does not know its chain yet: its identity is not set")
    return BlockRef(0, identity.genesis_hash, identity.genesis_hash, 0)


def _confirmed_heads(
    fork_context: ForkContext, ingest: IngestState, heads: Heads, window: BlockWindow | None
) -> Heads:
    """Return the heads with the highest final block that a second provider confirms.

    One block is checked: the end of a window of final blocks, or else the final block. `window` is
    None if there is no new block.

    Raises:
        OutvotedError: the endpoint of the block was found wrong.
        TransientError: two providers show two blocks, and neither can be accepted.
    """
    known = _confirmed_final(fork_context.store)
    if window is not None and window.last.number <= heads.final.number:
        block, giver, blocks = window.last, window.endpoint, window.range
    else:
        block, giver = heads.final, heads.endpoint
        blocks = BlockRange(block.number, block.number)
    if block.number <= known.number:
        return heads
    result = confirm_block(fork_context, block, giver, blocks)
    note_confirmation(fork_context, block, result)
    ingest.confirm(result)
    if ingest.confirms_safe:
        ingest.confirm_safe(_safe_block(fork_context, heads, window))
    return replace(heads, final=known) if result is Confirmation.UNANSWERED else heads


def _safe_block(
    fork_context: ForkContext, heads: Heads, window: BlockWindow | None
) -> BlockRef | None:
    """Return the safe block of the heads if it is indexed and another provider shows it."""
    safe = heads.safe
    if safe is None:
        return None
    with fork_context.store.reading() as uow:
        known = [uow.blocks.at(safe.number), *([] if window is None else window.headers)]
    if safe.hash not in {block.hash for block in known if block is not None}:
        return None
    seen = fork_context.chain.second(safe.number, heads.endpoint)
    is_alone = len(set(fork_context.chain.providers().values())) <= 1
    is_confirmed = is_alone if seen is None else seen[1].hash == safe.hash
    return safe if is_confirmed else None


def _first_block(uow: UnitOfWork) -> int:
    """Return the number of the block to index next."""
    cursor = uow.cursor.get()
    if cursor is not None:
        return cursor.number + 1
    identity = uow.identity.get()
    if identity is None:
        raise FatalError("the database does not know its chain yet: its identity is not set")
    return identity.start_block


def _at_the_head(
    fork_context: ForkContext, folder: Folder, ingest: IngestState, heads: Heads
) -> Rewound | HaltChanged | None:
    """Handle a tick without a new block: a fork, a shorter chain, a newer final block."""
    store = fork_context.store
    with store.reading() as uow:
        cursor = uow.cursor.get()
        first = _first_block(uow)
    if cursor is None:
        raise TransientError(
            f"the start block {first} is not there yet, the newest block is "
            f"{heads.latest.number}: it is waited for (chain.start_block)"
        )
    _check_height(heads.latest, cursor)
    if heads.latest.hash != cursor.hash:
        return rewind_if_forked(fork_context, folder, heads)
    fork_context.fork_watch.tip.forget()
    final = newer_final(_confirmed_heads(fork_context, ingest, heads, None).final, cursor)
    if final is not None:
        with folder.following(cursor):
            with store.transaction() as uow:
                check_final(uow, final)
                uow.undo.prune_to(min(final.number, cursor.number))
                uow.cursor.move_to(heads.latest, final, cursor.epoch)
                moved = uow.cursor.get()
            folder.commit_memory(moved)
        ingest.show_heads(final)
    return None


def _check_height(newest: BlockRef, cursor: Cursor) -> None:
    """Check that the endpoint's head is not below the indexed final block.

    An endpoint that lags behind that far cannot be compared.

    Raises:
        TransientError: the newest block is below both the cursor and its final block.
    """
    final = cursor.final_number
    if final is not None and newest.number < min(final, cursor.number):
        raise TransientError(
            f"the newest block shown is block {newest.number}, and block {final} is final here: "
            "the endpoints are far behind, which passes by itself, or the chain was begun anew, "
            "which needs a new database"
        )


def _history(heads: Heads, near: int) -> int:
    """Return the block up to which neither forks nor the hooks of the head matter."""
    return min(heads.final.number, heads.latest.number - near)
