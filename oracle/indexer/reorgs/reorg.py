"""Rewinds the index to a block on the chain, after a fork or by a user's command.

State, flags of raw rows, headers, coverage, reports, outbox and cursor are rewound in one
transaction (docs/explanation/reorgs.md#one-transaction,
docs/explanation/reorgs.md#common-ancestor). Raw rows of removed blocks are kept, because no
endpoint may return them again. Before a window is read, the indexed blocks are compared with the
chain (docs/explanation/reorgs.md#signs-of-a-fork).

Most block hashes are pruned: below the final block, only the hashes of blocks with logs or calls
are stored. If an indexed block is on the chain, all indexed blocks below it are on the chain as
well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.errors import InputError, TransientError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import FIRST_CUT_KEY
from oracle.indexer.rebuild import RebuildOptions, rebuild_state_up_to
from oracle.indexer.reorgs.finality_halt import (
    FINALITY_VIOLATION,
    HaltChanged,
    compare_final_block,
    judge_final_block,
    recheck_finality_halt,
)
from oracle.indexer.reorgs.fork_detection import (
    NO_BLOCK,
    ForkClaim,
    ForkContext,
    ForkJudgement,
    ForkVerdict,
    ForkWatch,
    judge_fork,
    reject_fork_claim,
)
from oracle.indexer.rules_binding import rewind_rules_replacement_block
from oracle.indexer.snapshots import refold_from_snapshot
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.raw.block_repository import Reorg
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics

# Headers per request in the search for the common ancestor; they fit into one batch.
HEADERS_PER_REQUEST = 100
# Interval, in seconds, at which the final block is compared with the endpoints.
FINAL_CHECK_INTERVAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The result of a rewind to the block `ancestor`.

    `abandoned_number` is the height of the cursor before the rewind, and `depth` the number of
    blocks that were undone. `endpoints` reported the fork; the tuple is empty if a user rewound.
    `report_count` is the number of deleted reports that had changes to send; the new chain gets
    new reports. `by_rebuild` is whether the undo journal did not reach back far enough, so that
    blocks up to the ancestor were refolded: all blocks, or only those above `snapshot`, whose
    state was restored.
    """

    ancestor: BlockRef
    abandoned_number: int
    depth: int
    log_count: int
    report_count: int
    by_rebuild: bool
    endpoints: tuple[str, ...] = ()
    snapshot: int | None = None


def rewind_if_forked(
    fork_context: ForkContext,
    folder: EventFolder,
    heads: Heads,
    window: BlockWindow | None = None,
) -> RewindResult | HaltChanged | None:
    """Rewind to the common ancestor if indexed blocks have left the chain.

    Returns None if there is no fork, or if this is undecided. `heads` must be current. The parent
    of the first block of `window` is not the newest indexed block. Two endpoints have to confirm
    that the indexed block has left the chain; a single endpoint has to report this three times. An
    endpoint whose head is below the block does not count. If a final block was orphaned, the halt
    starts and nothing is rewound.

    Raises:
        TransientError: the other endpoints do not confirm the fork, or an endpoint contradicts
            itself. In both cases nothing was changed.
    """
    with fork_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    claim = (
        None if cursor is None else _build_fork_claim(fork_context, cursor, heads.latest, window)
    )
    if cursor is None or claim is None:
        fork_context.fork_watch.tip.reset()
        return None
    judgement = judge_fork(fork_context, claim, fork_context.fork_watch.tip)
    if judgement.verdict is ForkVerdict.CANONICAL and (
        window is not None or judgement.outvoted_endpoints
    ):
        raise reject_fork_claim(fork_context, claim, judgement)
    if judgement.verdict is not ForkVerdict.ORPHANED:
        return None
    for endpoint in judgement.outvoted_endpoints:
        reason = f"still shows block {claim.number} as {claim.indexed_hash}, which was orphaned"
        fork_context.chain.deprioritise(endpoint, reason, judgement.newest_number)
    ancestor, is_shared = _find_common_ancestor(fork_context, cursor, claim, judgement)
    if not is_shared:
        return judge_final_block(fork_context, cursor, ancestor, judgement)
    return _undo_blocks(
        fork_context, folder, heads.latest, cursor, ancestor, tuple(judgement.hash_by_denier)
    )


def rewind_to_block(
    chain: ChainSource,
    store: Store,
    folder: EventFolder,
    block_number: int,
    rebuild_options: RebuildOptions,
) -> RewindResult:
    """Rewind to a block with the undo journal, or by refolding.

    The index is refolded if the journal does not reach back far enough. If the chain has no block
    at this height, the target is the block before it.

    Raises:
        IncompleteLogsError: the journal does not reach back far enough, and raw rows were lost or
            changed.
        InputError: nothing is indexed, the block is below the start block or not below the cursor,
            or the index up to it may differ from the chain, see `check_index_matches_chain`.
        TransientError: the chain does not respond.
    """
    with store.read_transaction() as uow:
        cursor, lowest_number = _require_cursor_above(uow, block_number)
        journal_start = uow.undo.find_lowest_reachable_block()
    block = chain.fetch_header_at_or_below(block_number)
    if block.number < lowest_number:
        raise InputError(
            "cannot rewind to a block before the start block: the chain skipped block "
            f"{block_number}; choose block {block_number + 1}, or start with an empty database"
        )
    check_index_matches_chain(chain, store, block)
    needs_rebuild = journal_start is None or journal_start > block_number
    with folder.keep_cached_rows_if_current(None), rebuild_options.transaction(store) as uow:
        if not needs_rebuild:
            uow.undo.rollback_to(block_number)
        rewind_result = _rewind_tables(uow, folder.hooks, cursor, block, by_rebuild=needs_rebuild)
        if needs_rebuild:
            snapshot = refold_from_snapshot(uow, folder, block_number, rebuild_options)
            rewind_result = replace(rewind_result, snapshot=snapshot)
            if snapshot is None:
                rebuild_state_up_to(uow, folder, block_number, rebuild_options)
    folder.discard_cached_rows()
    return rewind_result


def _require_cursor_above(uow: UnitOfWork, block_number: int) -> tuple[Cursor, int]:
    """Return the cursor, and the lowest block to which it can be rewound.

    The cursor must be above `block_number`.
    """
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet; there is nothing to rewind")
    lowest_number = max(0, identity.start_block - 1)
    if cursor.number == lowest_number:
        raise InputError(
            f"cannot rewind to block {block_number}; the index is at block {cursor.number}, the "
            "lowest block to which it can be rewound"
        )
    if not lowest_number <= block_number < cursor.number:
        raise InputError(
            f"cannot rewind to block {block_number}; the index is at block {cursor.number}; "
            f"choose a block from {lowest_number} to {cursor.number - 1}"
        )
    return cursor, lowest_number


def _rewind_tables(
    uow: UnitOfWork,
    hooks: Sequence[BlockHook],
    cursor: Cursor,
    block: BlockRef,
    *,
    by_rebuild: bool,
) -> RewindResult:
    """Rewind all tables except the projections.

    Raw rows above `block` become non-canonical.
    """
    block_number = block.number
    log_count = uow.logs.orphan_above(block_number)
    uow.calls.orphan_above(block_number)
    uow.blocks.orphan_above(block_number)
    uow.blocks.save([block])
    uow.discard_verification_above(block_number)
    uow.snapshots.delete_above(block_number)
    rewind_rules_replacement_block(uow, block_number)
    # Delete the reports and build them again on the new chain. They then equal the reports of a
    # reporter that never saw the old chain.
    report_count = uow.reports.delete_from_block(block_number)
    uow.leaf_pieces.delete_after_last_report()
    # Intents without a nonce are dropped along with their report. The stamp contains block time.
    stamp = Stamp(cursor.time, uow.lease.get_state().epoch)
    for hook in hooks:
        hook.on_rewind(uow, block_number, stamp)
    uow.outbox.intents.expire_intents_above(block_number, stamp)
    # Only a command can rewind below the final block. The ancestor then becomes the final block.
    is_below_final = cursor.final_number is not None and block_number < cursor.final_number
    if is_below_final:
        # Accepted reports are kept, but their leaves may come from blocks that are no longer on
        # the chain.
        uow.bookmarks.delete(FIRST_CUT_KEY)
    uow.cursor.move_to(block, block if is_below_final else None, cursor.epoch)
    rewind_depth = cursor.number - block_number
    return RewindResult(block, cursor.number, rewind_depth, log_count, report_count, by_rebuild)


def _undo_blocks(
    fork_context: ForkContext,
    folder: EventFolder,
    newest_block: BlockRef,
    cursor: Cursor,
    ancestor: BlockRef,
    endpoints: tuple[str, ...],
) -> RewindResult:
    """Undo the blocks above the common ancestor.

    `endpoints` reported that these blocks have left the chain.
    """
    with folder.keep_cached_rows_if_current(None), fork_context.store.transaction() as uow:
        uow.undo.rollback_to(ancestor.number)
        rewind_result = _rewind_tables(uow, folder.hooks, cursor, ancestor, by_rebuild=False)
        rewind_result = replace(rewind_result, endpoints=endpoints)
        uow.reorgs.append(
            Reorg(
                ancestor=ancestor.number,
                ancestor_hash=ancestor.hash,
                old_tip=cursor.number,
                old_hash=cursor.hash,
                new_tip=newest_block.number,
                new_hash=newest_block.hash,
                time=cursor.time,
                endpoints=rewind_result.endpoints,
                logs_orphaned=rewind_result.log_count,
            )
        )
    fork_context.fork_watch.clear_dispute()
    metrics.REORGS.inc()
    metrics.REORG_DEPTH.observe(rewind_result.depth)
    return rewind_result


def _build_fork_claim(
    fork_context: ForkContext,
    cursor: Cursor,
    newest_block: BlockRef,
    window: BlockWindow | None,
) -> ForkClaim | None:
    """Build the claim that an indexed block has left the chain.

    Return None without evidence.
    """
    tip_number = cursor.number
    if newest_block.number < tip_number:
        return _build_shorter_chain_claim(fork_context.store, cursor, newest_block)
    if window is not None:
        return ForkClaim(tip_number, cursor.hash, window.first_parent, tip_number, window.endpoint)
    chain_block = (
        newest_block
        if newest_block.number == tip_number
        else fork_context.chain.fetch_header(tip_number)
    )
    if chain_block is None or chain_block.hash == cursor.hash:
        return None
    return ForkClaim(tip_number, cursor.hash, chain_block.hash, tip_number)


def _build_shorter_chain_claim(
    store: Store, cursor: Cursor, newest_block: BlockRef
) -> ForkClaim | None:
    """Build the claim that the chain became shorter.

    Return None if the endpoint only lags behind.
    """
    with store.read_transaction() as uow:
        indexed_block = uow.blocks.find_highest_up_to(newest_block.number)
    if (
        indexed_block is None
        or indexed_block.hash == newest_block.hash
        or newest_block.number < (cursor.final_number or 0)
    ):
        return None
    indexed_hash = indexed_block.hash if indexed_block.number == newest_block.number else NO_BLOCK
    return ForkClaim(newest_block.number, indexed_hash, newest_block.hash, cursor.number)


def _find_common_ancestor(
    fork_context: ForkContext, cursor: Cursor, claim: ForkClaim, judgement: ForkJudgement
) -> tuple[BlockRef, bool]:
    """Find the highest indexed block that is on the chain.

    The second value is whether one was found. If no block from the indexed final block upwards is
    on the chain, return the chain's block at the final height and False.

    Raises:
        TransientError: the chain changed during the search.
    """
    top_number = claim.number
    with fork_context.store.read_transaction() as uow:
        identity = uow.identity.get()
        final_number = cursor.final_number or 0
        hash_by_number = {
            block.number: block.hash
            for block in uow.blocks.list_canonical(final_number, top_number)
        }
    hash_by_number[cursor.number] = cursor.hash
    if cursor.final_hash is not None:
        hash_by_number[final_number] = cursor.final_hash
    # Blocks below the start block are not indexed, so there is nothing to compare.
    start_block = 0 if identity is None else identity.start_block
    lowest_number = min(max(start_block - 1, final_number, 0), top_number)
    expected_hashes = set(judgement.hash_by_denier.values())
    lowest_header: BlockRef | None = None
    for blocks in _iterate_ranges_downwards(top_number, lowest_number, final_number):
        headers = fork_context.chain.fetch_headers(blocks)
        if not headers:
            continue
        if headers[-1].hash not in expected_hashes:
            raise TransientError("the chain changed during the search for the common ancestor")
        for block in reversed(headers):
            if hash_by_number.get(block.number) == block.hash or block.number < start_block:
                return block, True
        lowest_header = headers[0]
        expected_hashes = {headers[0].parent_hash}
    if lowest_header is None or lowest_number > final_number:
        raise TransientError(f"the chain returned no block at or below {lowest_number}")
    return lowest_header, False


def _iterate_ranges_downwards(
    top_number: int, lowest_number: int, final_number: int
) -> Iterator[BlockRange]:
    """Yield block ranges for one request each, from the highest to the lowest.

    If the chain has no block at `lowest_number`, one more range follows, not below `final_number`.
    """
    for range_end, range_start in (
        (top_number, lowest_number),
        (lowest_number - 1, max(final_number, lowest_number - HEADERS_PER_REQUEST)),
    ):
        for last_number in range(range_end, range_start - 1, -HEADERS_PER_REQUEST):
            yield BlockRange(max(range_start, last_number - HEADERS_PER_REQUEST + 1), last_number)


def check_for_reorg(
    fork_context: ForkContext, folder: EventFolder, heads: Heads
) -> tuple[bool, RewindResult | HaltChanged | None]:
    """Check for a halt or a reorg, and return whether the next window has to wait.

    The second value is the rewind or the change of a halt that was made, or None. At the start of
    a process, the newest and the final indexed block are compared with the chain before anything
    is fetched. Later, only the final block is compared, at intervals. While a halt is active, the
    endpoints are checked for evidence that it may end.

    Raises:
        TransientError: no endpoint responds, or an endpoint contradicts the others.
    """
    with fork_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        active_halt = uow.halts.find_open_halt(FINALITY_VIOLATION)
    if active_halt is not None:
        return True, recheck_finality_halt(fork_context, heads.latest.time)
    if cursor is None:
        return False, None
    fork_watch = fork_context.fork_watch
    if fork_watch.get_seconds_until_poll(fork_context.now):
        return True, None
    if not _is_final_block_check_due(fork_watch, fork_context.now):
        return False, None
    return _compare_blocks(fork_context, folder, heads)


def _is_final_block_check_due(fork_watch: ForkWatch, now: float) -> bool:
    compared_at = fork_watch.compared_at
    if fork_watch.tip.is_pending():
        # The newest block is already in doubt. It is checked first, because the result may concern
        # the final block as well.
        return False
    return (
        compared_at is None
        or fork_watch.final.is_pending()
        or now - compared_at >= FINAL_CHECK_INTERVAL_SECONDS
    )


def _compare_blocks(
    fork_context: ForkContext, folder: EventFolder, heads: Heads
) -> tuple[bool, RewindResult | HaltChanged | None]:
    fork_watch = fork_context.fork_watch
    final_block_comparison = compare_final_block(fork_context)
    if final_block_comparison is not None or fork_watch.final.is_pending():
        return True, final_block_comparison
    if fork_watch.compared_at is None:
        rewind_result = rewind_if_forked(fork_context, folder, heads)
        if rewind_result is not None or fork_watch.tip.is_pending():
            return True, rewind_result
    fork_watch.compared_at = fork_context.now
    return False, None


def check_index_matches_chain(chain: ChainSource, store: Store, block: BlockRef) -> None:
    """Check that the indexed blocks below `block` are on the chain.

    The block itself is on the chain.

    Raises:
        InputError: the index differs or may differ from the chain; the message contains the
            highest block that is known to be on the chain.
        TransientError: the chain does not respond.
    """
    with store.read_transaction() as uow:
        identity = uow.identity.get()
        block_above = _find_block_at_or_above(uow, block.number)
    # Blocks below the start block are not indexed, and block 0 is compared at startup.
    start_block = 0 if identity is None else identity.start_block
    lowest_number = max(0, start_block - 1)
    if block_above is None or block.number <= lowest_number:
        return
    stored_number, stored_hash = block_above
    chain_hash = (
        block.hash if stored_number == block.number else _fetch_block_hash(chain, stored_number)
    )
    if chain_hash == stored_hash:
        return
    shared_number = _find_highest_shared_block(chain, store, lowest_number, block.number)
    raise InputError(
        f"block {stored_number} is {chain_hash or 'missing'} on the chain but {stored_hash} in "
        f"the database; rewind to block {shared_number}, the newest block that is known to be the "
        "same in both"
    )


def _find_highest_shared_block(
    chain: ChainSource, store: Store, lowest_number: int, number: int
) -> int:
    """Find the highest indexed block below `number` that is known to be on the chain.

    If there is no such block, return `lowest_number`.
    """
    shared_number, low_number, high_number = lowest_number, lowest_number, number
    while high_number - low_number > 1:
        middle_number = (low_number + high_number) // 2
        with store.read_transaction() as uow:
            stored_block = _find_block_at_or_below(uow, middle_number)
        stored_number, stored_hash = stored_block or (shared_number, None)
        if stored_number <= shared_number:
            low_number = middle_number
        elif _fetch_block_hash(chain, stored_number) == stored_hash:
            shared_number, low_number = stored_number, middle_number
        else:
            high_number = stored_number
    return shared_number


def _fetch_block_hash(chain: ChainSource, number: int) -> Hash | None:
    header = chain.fetch_header(number)
    return None if header is None else header.hash


def _find_block_at_or_above(uow: UnitOfWork, number: int) -> tuple[int, Hash] | None:
    """Return number and hash of the lowest indexed block from `number` on.

    Blocks without a known hash are skipped.
    """
    cursor = uow.cursor.get()
    header = uow.blocks.find_lowest_from(number)
    candidate_blocks = [] if header is None else [(header.number, header.hash)]
    if cursor is not None:
        candidate_blocks.append((cursor.number, cursor.hash))
        if cursor.final_number is not None and cursor.final_hash is not None:
            # During a backfill, the final block may be above the cursor.
            candidate_blocks.append((cursor.final_number, cursor.final_hash))
    log_and_call_blocks = (
        uow.logs.find_lowest_block_from(number),
        uow.calls.find_lowest_block_from(number),
    )
    candidate_blocks += [row for row in log_and_call_blocks if row is not None]
    return min(
        ((height, block_hash) for height, block_hash in candidate_blocks if height >= number),
        default=None,
    )


def _find_block_at_or_below(uow: UnitOfWork, number: int) -> tuple[int, Hash] | None:
    """Return number and hash of the highest indexed block up to `number`.

    Blocks without a known hash are skipped.
    """
    header = uow.blocks.find_highest_up_to(number)
    candidate_blocks = [] if header is None else [(header.number, header.hash)]
    log_and_call_blocks = (
        uow.logs.find_highest_block_up_to(number),
        uow.calls.find_highest_block_up_to(number),
    )
    candidate_blocks += [row for row in log_and_call_blocks if row is not None]
    return max(candidate_blocks, default=None)
