"""Checks, before a window is read, whether the indexed blocks are still on the chain.

See docs/explanation/reorgs.md#signs-of-a-fork.
"""

from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.indexer.folder import EventFolder
from oracle.indexer.reorgs.finality_halt import (
    FINALITY_VIOLATION,
    HaltChanged,
    compare_final_block,
    recheck_halt,
)
from oracle.indexer.reorgs.fork_detection import ForkContext, ForkWatch
from oracle.indexer.reorgs.reorg import RewindResult, rewind_if_forked

# Seconds between two comparisons of the final block, by the clock that times polls.
FINAL_CHECK_INTERVAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class IngestPaused:
    """No window may be ingested now; `result` is what was done instead, or None."""

    result: RewindResult | HaltChanged | None


def check_for_reorg(
    fork_context: ForkContext, folder: EventFolder, heads: Heads
) -> IngestPaused | None:
    """Check for a halt or a reorg; return None if a window may be ingested now.

    At the start of a process the newest and the final indexed block are compared with the chain
    before anything is fetched; afterwards only the final block is, at intervals. An active halt is
    checked for proof that it may end.

    Raises:
        TransientError: no endpoint responds, or one was found to contradict the others.
    """
    with fork_context.store.read_transaction() as uow:
        cursor, active_halt = uow.cursor.get(), uow.halts.get_open_halt(FINALITY_VIOLATION)
    if active_halt is not None:
        return IngestPaused(recheck_halt(fork_context, heads.latest.time))
    if cursor is None:
        return None
    fork_watch = fork_context.fork_watch
    if fork_watch.seconds_left(fork_context.now):
        return IngestPaused(None)
    if not _is_due(fork_watch, fork_context.now):
        return None
    return _compare_blocks(fork_context, folder, heads)


def _is_due(fork_watch: ForkWatch, now: float) -> bool:
    compared_at = fork_watch.compared_at
    if fork_watch.tip.is_pending():
        # The block on top of the final one is checked first: the result holds for both.
        return False
    return (
        compared_at is None
        or fork_watch.final.is_pending()
        or now - compared_at >= FINAL_CHECK_INTERVAL_SECONDS
    )


def _compare_blocks(
    fork_context: ForkContext, folder: EventFolder, heads: Heads
) -> IngestPaused | None:
    fork_watch, result = fork_context.fork_watch, compare_final_block(fork_context)
    if result is not None or fork_watch.final.is_pending():
        return IngestPaused(result)
    if fork_watch.compared_at is None:
        rewind_result = rewind_if_forked(fork_context, folder, heads)
        if rewind_result is not None or fork_watch.tip.is_pending():
            return IngestPaused(rewind_result)
    fork_watch.compared_at = fork_context.now
    return None
