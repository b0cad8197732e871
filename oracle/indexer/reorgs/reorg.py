"""Rewinds the index to a block that is on the chain: after a fork, or on a user's command.

State, flags of raw rows, headers, coverage, reports, outbox and cursor are rewound in one
transaction (docs/explanation/reorgs.md#one-transaction,
docs/explanation/reorgs.md#common-ancestor). Nothing is deleted that the chain may not serve again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.heads import Heads
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.reports.report import MIN_SCORES
from oracle.errors import InputError, TransientError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions, rebuild_up_to
from oracle.indexer.reorgs.common_ancestor import check_ours
from oracle.indexer.reorgs.finality_halt import HaltChanged, accuse_final
from oracle.indexer.reorgs.fork_detection import (
    NO_BLOCK,
    ForkClaim,
    ForkContext,
    ForkJudgement,
    ForkVerdict,
    judge_fork,
    reject,
)
from oracle.indexer.snapshot_refold import refold_from_snapshot
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.raw.reorg_repository import Reorg
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics

# Headers per request while searching for the common ancestor: as many as fit one batch.
HEADERS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Rewound:
    """Result of a rewind to `ancestor`.

    `abandoned_number` is the block of the cursor before, `depth` how many blocks were undone,
    `endpoints` those that reported the fork; none if a user rewound. `report_count`: reports with
    something to send that were dropped; they are cut again on the new chain. `by_rebuild`: the
    journal did not reach, so everything up to the ancestor was refolded, or only what is above
    `snapshot`, the block whose state was restored.
    """

    ancestor: BlockRef
    abandoned: int
    depth: int
    logs: int
    reports: int
    by_rebuild: bool
    endpoints: tuple[str, ...] = ()
    snapshot: int | None = None


def rewind_if_forked(
    fork_context: ForkContext,
    folder: Folder,
    heads: Heads,
    window: BlockWindow | None = None,
) -> Rewound | HaltChanged | None:
    """Rewind to the common ancestor if the chain has left the indexed blocks.

    Returns None if it has not, or if this is undecided. `heads` are current, and `window` is one
    whose first block has another parent than the newest indexed block. Two endpoints have to deny
    the indexed block, or the only one three times; an endpoint whose head is below it does not
    count. If a final block was orphaned, the halt starts and nothing is rewound.

    Raises:
        TransientError: the other endpoints deny the fork, or the chain contradicts itself; nothing
            was changed.
    """
    with fork_context.store.reading() as uow:
        cursor = uow.cursor.get()
    accused = None if cursor is None else _fork_claim(fork_context, cursor, heads.latest, window)
    if cursor is None or accused is None:
        fork_context.fork_watch.tip.forget()
        return None
    judged = judge_fork(fork_context, accused, fork_context.fork_watch.tip)
    if judged.verdict is ForkVerdict.STAYS and (window is not None or judged.liars):
        raise reject(fork_context, accused, judged)
    if judged.verdict is not ForkVerdict.LEFT:
        return None
    for endpoint in judged.liars:
        why = f"still has block {accused.number} as {accused.ours}"
        fork_context.chain.deprioritise(endpoint, why, judged.newest)
    ancestor, is_shared = _common_ancestor(fork_context, cursor, accused, judged)
    if not is_shared:
        return accuse_final(fork_context, cursor, ancestor, judged)
    return _roll_back(fork_context, folder, heads.latest, cursor, ancestor, tuple(judged.against))


def rewind_to(
    chain: ChainReader,
    store: Store,
    folder: Folder,
    number: int,
    manner: RebuildOptions,
    min_scores: int = MIN_SCORES,
) -> Rewound:
    """Rewind to block `block_number`: by the journal, or else by refolding.

    If the chain skipped that height, the target is the block before it. `min_scores`: as in the
    reports, because it is part of the version of snapshots.

    Raises:
        IncompleteLogsError: the journal does not reach, and raw rows were lost or changed.
        InputError: nothing is indexed, the block is below the start block or not below the cursor,
            or the index up to it may differ from the chain, see `check_indexed_blocks`.
        TransientError: the chain does not respond.
    """
    with store.reading() as uow:
        cursor, lowest = _cursor_above(uow, number)
        reach = uow.undo.reach()
    block = chain.header_up_to(number)
    if block.number < lowest:
        raise InputError(
            f"cannot rewind to before the start block: the chain skipped block {number}; name "
            f"block {number + 1}, or begin anew with an empty database"
        )
    check_ours(chain, store, block)
    by_rebuild = reach is None or reach > number
    with folder.following(None), manner.transaction(store) as uow:
        if not by_rebuild:
            uow.undo.rollback_to(number)
        rewound = _go_back(uow, folder.hooks, cursor, block, by_rebuild=by_rebuild)
        if by_rebuild:
            snapshot = refold_from_snapshot(uow, folder, number, min_scores, manner)
            rewound = replace(rewound, snapshot=snapshot)
            if snapshot is None:
                rebuild_up_to(uow, folder, number, manner)
    folder.forget()
    return rewound


def _cursor_above(uow: UnitOfWork, number: int) -> tuple[Cursor, int]:
    """Return the cursor, and the lowest block to which a rewind is possible."""
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet: there is nothing to rewind")
    lowest = max(0, identity.start_block - 1)
    if not lowest <= number < cursor.number:
        raise InputError(
            f"cannot rewind to block {number}: name one from {lowest} (before the start block) "
            f"to {cursor.number - 1} (below the cursor)"
        )
    return cursor, lowest


def _go_back(
    uow: UnitOfWork,
    hooks: Sequence[BlockHook],
    cursor: Cursor,
    block: BlockRef,
    *,
    by_rebuild: bool,
) -> Rewound:
    """Rewind everything but the projections; raw rows above become non-canonical."""
    number = block.number
    logs = uow.logs.orphan_above(number)
    uow.calls.orphan_above(number)
    uow.blocks.discard_above(number)
    uow.blocks.save([block])
    uow.uncover_above(number)
    uow.snapshots.discard_above(number)
    # Reports are cut again on the new chain, like those of a reporter that never saw the old one.
    reports = uow.reports.drop_from(number)
    # Intents without a nonce are dropped with their report; the time is the chain's.
    stamp = Stamp(cursor.time, uow.lease.current().epoch)
    for hook in hooks:
        hook.rewound(uow, number, stamp)
    uow.outbox.intents.forget_above(number, stamp)
    # Only a user rewinds below the final block, which then becomes the ancestor.
    is_below_final = cursor.final_number is not None and number < cursor.final_number
    uow.cursor.move_to(block, block if is_below_final else None, cursor.epoch)
    depth = cursor.number - number
    return Rewound(block, cursor.number, depth, logs, reports, by_rebuild)


def _roll_back(
    fork_context: ForkContext,
    folder: Folder,
    newest: BlockRef,
    cursor: Cursor,
    ancestor: BlockRef,
    endpoints: tuple[str, ...],
) -> Rewound:
    """Undo the blocks above the ancestor; `endpoints` reported that they left the chain."""
    with folder.following(None), fork_context.store.transaction() as uow:
        uow.undo.rollback_to(ancestor.number)
        rewound = _go_back(uow, folder.hooks, cursor, ancestor, by_rebuild=False)
        rewound = replace(rewound, endpoints=endpoints)
        uow.reorgs.append(
            Reorg(
                ancestor=ancestor.number,
                ancestor_hash=ancestor.hash,
                old_tip=cursor.number,
                old_hash=cursor.hash,
                new_tip=newest.number,
                new_hash=newest.hash,
                time=cursor.time,
                endpoints=rewound.endpoints,
                logs_orphaned=rewound.logs,
            )
        )
    fork_context.fork_watch.goes_on()
    metrics.REORGS.inc()
    metrics.REORG_DEPTH.observe(rewound.depth)
    return rewound


def _fork_claim(
    fork_context: ForkContext,
    cursor: Cursor,
    newest: BlockRef,
    window: BlockWindow | None,
) -> ForkClaim | None:
    """Return the claim against an indexed block, or None if there is none."""
    tip = cursor.number
    if newest.number < tip:
        return _of_shorter_chain(fork_context.store, cursor, newest)
    if window is not None:
        return ForkClaim(tip, cursor.hash, window.first_parent, tip, window.endpoint)
    seen = newest if newest.number == tip else fork_context.chain.header(tip)
    if seen is None or seen.hash == cursor.hash:
        return None
    return ForkClaim(tip, cursor.hash, seen.hash, tip)


def _of_shorter_chain(store: Store, cursor: Cursor, newest: BlockRef) -> ForkClaim | None:
    """Return the claim of a head below the newest indexed block; None if it only lags."""
    with store.reading() as uow:
        ours = uow.blocks.highest_to(newest.number)
    if ours is None or ours.hash == newest.hash or newest.number < (cursor.final_number or 0):
        return None
    held = ours.hash if ours.number == newest.number else NO_BLOCK
    return ForkClaim(newest.number, held, newest.hash, cursor.number)


def _common_ancestor(
    fork_context: ForkContext, cursor: Cursor, accused: ForkClaim, judged: ForkJudgement
) -> tuple[BlockRef, bool]:
    """Return the highest block shared with the chain, searched downwards in batches.

    If no block above the indexed final one is shared, the result is the chain's block at that
    height, with False.

    Raises:
        TransientError: the chain changed during the search.
    """
    top = accused.number
    with fork_context.store.reading() as uow:
        identity = uow.identity.get()
        final = cursor.final_number or 0
        ours = {block.number: block.hash for block in uow.blocks.between(final, top)}
    ours[cursor.number] = cursor.hash
    if cursor.final_hash is not None:
        ours[final] = cursor.final_hash
    # Nothing below the start block can differ.
    start = 0 if identity is None else identity.start_block
    floor = min(max(start - 1, final, 0), top)
    expected = set(judged.against.values())
    lowest: BlockRef | None = None
    for blocks in _downwards(top, floor, final):
        theirs = fork_context.chain.headers(blocks)
        if not theirs:
            continue
        if theirs[-1].hash not in expected:
            raise TransientError("the chain changed while we looked for where it forked")
        for block in reversed(theirs):
            if ours.get(block.number) == block.hash or block.number < start:
                return block, True
        lowest, expected = theirs[0], {theirs[0].parent_hash}
    if lowest is None or floor > final:
        raise TransientError(f"the chain does not give the block at or below {floor} now")
    return lowest, False


def _downwards(top: int, floor: int, final: int) -> Iterator[BlockRange]:
    """Yield block ranges of one request each, from `top_number` down to `lowest_number`.

    One more range follows, not below `final_number`, for chains without a block at the end.
    """
    for highest, lowest in ((top, floor), (floor - 1, max(final, floor - HEADERS_AT_ONCE))):
        for last in range(highest, lowest - 1, -HEADERS_AT_ONCE):
            yield BlockRange(max(lowest, last - HEADERS_AT_ONCE + 1), last)
