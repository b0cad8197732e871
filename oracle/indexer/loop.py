"""Ingests the next window of blocks with its rows, state, hook data and cursor.

The same loop is used in history and at the head. The chain is read before the transaction is
opened. Each tick commits one window, which takes about a second.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.source import ChainSource
from oracle.chain.verification.refused_blocks import BlockRefusedError
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.errors import FatalError, TransientError
from oracle.indexer.block_confirmation import (
    Confirmation,
    confirm_block,
    record_confirmation,
    store_block_refusal,
)
from oracle.indexer.block_hooks import find_first_block_needing_headers, get_max_header_depth
from oracle.indexer.commit import (
    CommittedWindow,
    check_final_block,
    commit_window,
    select_newer_final_block,
)
from oracle.indexer.feed_events import FeedHeadLimit
from oracle.indexer.folder import EventFolder
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.fork_detection import (
    MIN_PROVIDERS,
    ForkContext,
    ForkWatch,
    OutvotedError,
    count_providers,
)
from oracle.indexer.reorgs.reorg import RewindResult, check_for_reorg, rewind_if_forked
from oracle.rpc.rpc_errors import RpcError
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Target duration of a window, in seconds. After a window, other jobs run
# (docs/explanation/daemon.md#short-jobs).
TARGET_WINDOW_SECONDS = 1.0
# Maximum age of the heads, in seconds. Older heads are requested again, even far below the head,
# because other jobs such as publishing and confirming depend on them.
_MAX_HEADS_AGE_SECONDS = 2.0
# More blocks than any chain produces in a day; effectively no limit.
_UNLIMITED_BLOCKS = 1 << 20


@dataclass(slots=True)
class IngestState:
    """The state of the loop between windows, such as heads and the size of windows.

    Other jobs use `heads`, whose final and safe blocks were confirmed by a second provider.
    `claimed_heads` are the heads as one endpoint reported them. `clock` returns seconds.
    """

    clock: Callable[[], float] = time.monotonic
    heads: Heads | None = None
    claimed_heads: Heads | None = None
    # True if the safe block must be confirmed as well, because reports are based on it.
    confirms_safe: bool = False
    # The time since which no second provider has confirmed blocks, or None. Until a provider
    # confirms them, no block becomes final, and all blocks are read with headers and undo data,
    # like those at the head.
    unconfirmed_since: float | None = None
    # The highest final block, if a second provider's head is too low to confirm the claimed one;
    # else None.
    max_final_number: int | None = None
    _confirmed_safe: BlockRef | None = None
    _last_claimed_heads: Heads | None = None
    max_blocks: int = field(default=_UNLIMITED_BLOCKS)
    fork_watch: ForkWatch = field(default_factory=ForkWatch)
    # The feed's limit on how far the chain is read, or None to read up to the head.
    head_limit: FeedHeadLimit | None = None
    _heads_fetched_at: float = 0.0

    def get_heads(self, chain: ChainSource, first_block: int, head_depth: int) -> Heads:
        """Return the heads of the chain.

        Recent heads are reused while `first_block` is in history. History consists of the final
        blocks that are at least `head_depth` blocks below the newest block.
        """
        chain.restore_read_number(first_block - 1)
        heads = self.claimed_heads
        is_old = self.clock() - self._heads_fetched_at > _MAX_HEADS_AGE_SECONDS
        if heads is None or is_old or first_block > _compute_history_end(heads, head_depth):
            heads = (
                chain.fetch_heads()
                if self.head_limit is None
                else self.head_limit.get_heads(chain)
            )
            self.claimed_heads = heads
            self._heads_fetched_at = self.clock()
        return heads

    def discard_heads(self) -> None:
        """Discard the heads of a wrong endpoint, so that new heads are requested."""
        self.claimed_heads = None

    def update_heads(self, final_block: BlockRef) -> None:
        """Update the heads after `final_block` was confirmed.

        Their final block is at most this block.
        """
        claimed_heads = self.claimed_heads
        if claimed_heads is None:
            return
        confirmed_block = min(final_block, claimed_heads.final, key=lambda block: block.number)
        safe_block = self._confirmed_safe if self._confirmed_safe is not None else confirmed_block
        is_safe_block_claimed = (
            claimed_heads.safe is not None and safe_block.number <= claimed_heads.safe.number
        )
        new_heads = replace(
            claimed_heads,
            final=confirmed_block,
            safe=safe_block if is_safe_block_claimed else None,
        )
        if claimed_heads is not self._last_claimed_heads or new_heads != self.heads:
            self.heads, self._last_claimed_heads = new_heads, claimed_heads

    def set_confirmed_safe_block(self, safe_block: BlockRef | None) -> None:
        """Set the highest safe block that a second provider has confirmed, if any."""
        self._confirmed_safe = safe_block

    def update_confirmation(self, result: Confirmation) -> None:
        """Record whether a second provider confirms blocks at the moment."""
        if result is not Confirmation.UNANSWERED:
            self.unconfirmed_since = None
        elif self.unconfirmed_since is None:
            self.unconfirmed_since = self.clock()

    def adapt_window_size(self, block_count: int, seconds: float) -> None:
        """Make the next window smaller if this one took too long, or else larger."""
        if seconds > TARGET_WINDOW_SECONDS:
            self.max_blocks = max(1, int(block_count * TARGET_WINDOW_SECONDS / seconds))
        else:
            self.max_blocks = min(_UNLIMITED_BLOCKS, self.max_blocks * 2)


# Result of one tick.
IngestResult = CommittedWindow | RewindResult | HaltChanged


def ingest_next_window(
    chain: ChainSource, store: Store, folder: EventFolder, ingest: IngestState
) -> IngestResult | None:
    """Ingest the next window, or rewind if indexed blocks have left the chain.

    Returns None at the head, if the endpoint lags behind, and while a possible fork is undecided.
    If an endpoint is outvoted about the last block of a window or about its head, the window and
    the heads are requested from the next endpoint.

    Raises:
        TransientError: the chain did not respond, or contradicts itself.
        FatalError: another process wrote into the database.
    """
    for _ in chain.list_endpoint_names()[1:]:
        try:
            return _ingest_or_rewind_once(chain, store, folder, ingest)
        except OutvotedError:
            ingest.discard_heads()
    return _ingest_or_rewind_once(chain, store, folder, ingest)


def _ingest_or_rewind_once(
    chain: ChainSource, store: Store, folder: EventFolder, ingest: IngestState
) -> IngestResult | None:
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        next_block = _get_next_block_number(uow)
    started_at = ingest.clock()
    head_depth = get_max_header_depth(folder.hooks)
    first_header_block = find_first_block_needing_headers(folder.hooks)
    heads = ingest.get_heads(chain, next_block, head_depth)
    ingest.update_heads(_load_confirmed_final_block(store))
    fork_context = ForkContext(chain, store, ingest.fork_watch, ingest.clock())
    is_paused, pause_result = check_for_reorg(fork_context, folder, heads)
    if is_paused:
        return pause_result
    if heads.latest.number < next_block:
        return _handle_no_new_block(fork_context, folder, ingest, heads)
    history_end = _compute_history_end(heads, head_depth)
    if first_header_block is not None:
        history_end = min(history_end, first_header_block - 1)
    if ingest.max_final_number is not None:
        history_end = min(history_end, ingest.max_final_number)
    if ingest.unconfirmed_since is not None:
        history_end = next_block - 1
    # Headers are needed above the final block, where forks can happen, and where a hook needs
    # them.
    needs_headers = next_block > history_end
    blocks = BlockRange(next_block, heads.latest.number if needs_headers else history_end)
    window = _read_window(
        fork_context,
        heads,
        blocks,
        with_headers=needs_headers,
        max_blocks=ingest.max_blocks,
    )
    if cursor is not None and window.first_parent != cursor.hash:
        return rewind_if_forked(fork_context, folder, heads, window)
    ingest.fork_watch.tip.reset()
    heads = _confirm_heads(fork_context, ingest, heads, window)
    if heads.final.number < window.last.number and not window.headers:
        # These blocks turned out not to be final, so they are read again as at the head, with all
        # headers and undo data.
        return _ingest_or_rewind_once(chain, store, folder, ingest)
    committed_window = commit_window(
        store, folder, window, heads=heads, cursor=cursor, clock=ingest.clock
    )
    work_seconds = committed_window.fold_seconds + committed_window.commit_seconds
    fetch_seconds = ingest.clock() - started_at - work_seconds
    ingest.fork_watch.clear_dispute()
    ingest.update_heads(_load_confirmed_final_block(store))
    ingest.adapt_window_size(len(window.range), work_seconds)
    return replace(committed_window, fetch_seconds=fetch_seconds)


def _read_window(
    fork_context: ForkContext,
    heads: Heads,
    blocks: BlockRange,
    *,
    with_headers: bool,
    max_blocks: int,
) -> BlockWindow:
    """Read the next window of blocks.

    It extends beyond the final blocks if they end with skipped heights. If a block is refused, the
    refusal is stored, so that every later attempt fails in the same way.

    Raises:
        OutvotedError: a block up to the newest one could not be read or is refused, and the newest
            block of another endpoint is lower.
        TransientError: a block could not be read, or the chain has advanced beyond the known
            heads.
    """
    chain, newest_number = fork_context.chain, heads.latest.number
    try:
        window = chain.fetch_window(blocks, with_headers=with_headers, max_blocks=max_blocks)
        if not with_headers and window.last.number > blocks.last:
            remaining_range = BlockRange(blocks.first, newest_number)
            window = chain.fetch_window(remaining_range, with_headers=True, max_blocks=max_blocks)
    except BlockRefusedError as error:
        stored_error = store_block_refusal(fork_context.store, error.refusal)
        # The block may be invented if another endpoint has not reached it.
        is_refuted = heads.endpoint in error.contradicting_endpoints
        if chain.reject_unreadable_head(heads, error.refusal.number, is_refuted=is_refuted):
            raise OutvotedError(str(error)) from error
        raise stored_error from error
    except RpcError as error:
        if chain.reject_unreadable_head(heads, newest_number):
            raise OutvotedError(str(error)) from error
        raise
    if window.last.number > newest_number:
        raise TransientError(
            f"the chain returned block {window.last.number}, but the newest known block is "
            f"{newest_number}"
        )
    return window


def _load_confirmed_final_block(store: Store) -> BlockRef:
    """Return the cursor's final block, or the genesis block if it has none."""
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        identity = uow.identity.get()
        if cursor is not None and cursor.final_number is not None and cursor.final_hash:
            stored_block = uow.blocks.find_canonical(cursor.final_number)
            final_block = BlockRef(cursor.final_number, cursor.final_hash, cursor.final_hash, 0)
            return final_block if stored_block is None else stored_block
    if identity is None:
        raise FatalError("the database is not bound to a chain yet (it has no identity)")
    return BlockRef(0, identity.genesis_hash, identity.genesis_hash, 0)


def _confirm_heads(
    fork_context: ForkContext, ingest: IngestState, heads: Heads, window: BlockWindow | None
) -> Heads:
    """Return the heads, with the highest final block that a second provider confirms.

    Only one block is checked: the last block of the window if this block is final, or else the
    final block of the heads. If this block is not deep enough below the second provider's head,
    the highest block that is deep enough becomes final. `window` is None if there is no new block.

    Raises:
        OutvotedError: the endpoint that returned the block was found wrong.
        TransientError: two providers return different blocks, and neither can be accepted.
    """
    confirmed_final_block = _load_confirmed_final_block(fork_context.store)
    if window is not None and window.last.number <= heads.final.number:
        block, source_endpoint, blocks = window.last, window.endpoint, window.range
    else:
        block, source_endpoint = heads.final, heads.endpoint
        blocks = BlockRange(block.number, block.number)
    if block.number <= confirmed_final_block.number:
        return heads
    confirmation, second_head = confirm_block(fork_context, block, source_endpoint, blocks)
    record_confirmation(fork_context, block, confirmation)
    ingest.update_confirmation(confirmation)
    if ingest.confirms_safe:
        ingest.set_confirmed_safe_block(_confirm_safe_block(fork_context, heads, window))
    if confirmation is Confirmation.UNANSWERED:
        return replace(heads, final=confirmed_final_block)
    if second_head is None or fork_context.chain.is_deep_enough(block, second_head):
        ingest.max_final_number = None
        return heads
    headers = [] if window is None else window.headers
    final_block = _find_highest_final_block(
        fork_context, headers, BlockRange(confirmed_final_block.number, block.number), second_head
    )
    ingest.max_final_number = (final_block or confirmed_final_block).number
    return replace(heads, final=final_block or confirmed_final_block)


def _find_highest_final_block(
    fork_context: ForkContext,
    headers: Sequence[BlockRef],
    blocks: BlockRange,
    second_head: BlockRef,
) -> BlockRef | None:
    """Return the highest block that is final according to the second provider, if any.

    It must be deep enough below this provider's head. Candidates are the blocks after the first
    one of `blocks` that are indexed or in `headers`. No request is needed, because they are
    ancestors of a block that the second provider has.
    """
    with fork_context.store.read_transaction() as uow:
        known_blocks = [*uow.blocks.list_canonical(blocks.first, blocks.last), *headers]
    deep_blocks = [
        block
        for block in known_blocks
        if blocks.first < block.number <= blocks.last
        and fork_context.chain.is_deep_enough(block, second_head)
    ]
    return max(deep_blocks, key=lambda block: block.number, default=None)


def _confirm_safe_block(
    fork_context: ForkContext, heads: Heads, window: BlockWindow | None
) -> BlockRef | None:
    """Return the safe block if it is indexed and confirmed by another provider, else None."""
    safe_block = heads.safe
    if safe_block is None:
        return None
    with fork_context.store.read_transaction() as uow:
        known_blocks = [
            uow.blocks.find_canonical(safe_block.number),
            *([] if window is None else window.headers),
        ]
    if safe_block.hash not in {block.hash for block in known_blocks if block is not None}:
        return None
    second_witness = fork_context.chain.fetch_second_witness(safe_block.number, heads.endpoint)
    has_single_provider = count_providers(fork_context.chain) < MIN_PROVIDERS
    is_confirmed = (
        has_single_provider
        if second_witness is None
        else second_witness.block is not None and second_witness.block.hash == safe_block.hash
    )
    return safe_block if is_confirmed else None


def _get_next_block_number(uow: UnitOfWork) -> int:
    cursor = uow.cursor.get()
    if cursor is not None:
        return cursor.number + 1
    identity = uow.identity.get()
    if identity is None:
        raise FatalError("the database is not bound to a chain yet (it has no identity)")
    return identity.start_block


def _handle_no_new_block(
    fork_context: ForkContext, folder: EventFolder, ingest: IngestState, heads: Heads
) -> RewindResult | HaltChanged | None:
    """Handle a tick without a new block.

    The index is rewound after a fork, or a newer final block is stored.
    """
    store = fork_context.store
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        first_block_number = _get_next_block_number(uow)
    if cursor is None:
        raise TransientError(
            f"chain.start_block: block {first_block_number} does not exist yet; the newest block "
            f"is {heads.latest.number}; the daemon waits for the start block"
        )
    _check_endpoint_height(heads.latest, cursor)
    if heads.latest.hash != cursor.hash:
        return rewind_if_forked(fork_context, folder, heads)
    fork_context.fork_watch.tip.reset()
    final_block = select_newer_final_block(
        _confirm_heads(fork_context, ingest, heads, None).final, cursor
    )
    if final_block is not None:
        with folder.keep_cached_rows_if_current(cursor):
            with store.transaction() as uow:
                check_final_block(uow, final_block)
                uow.undo.prune_journal_to(min(final_block.number, cursor.number))
                uow.cursor.move_to(heads.latest, final_block, cursor.epoch)
                new_cursor = uow.cursor.get()
            folder.set_cached_rows_cursor(new_cursor)
        ingest.update_heads(final_block)
    return None


def _check_endpoint_height(newest_block: BlockRef, cursor: Cursor) -> None:
    """Check that the endpoint's head has reached the indexed final block.

    The chain cannot be compared with an endpoint that lags so far behind.

    Raises:
        TransientError: the newest block is below both the cursor and its final block.
    """
    final_number = cursor.final_number
    if final_number is not None and newest_block.number < min(final_number, cursor.number):
        raise TransientError(
            f"the newest block of the endpoints is block {newest_block.number}, but block "
            f"{final_number} is final in the database; either the endpoints are far behind and "
            "will catch up, or the chain was restarted and needs a new database"
        )


def _compute_history_end(heads: Heads, head_depth: int) -> int:
    """Compute the height of the last final block whose header no hook needs."""
    return min(heads.final.number, heads.latest.number - head_depth)
