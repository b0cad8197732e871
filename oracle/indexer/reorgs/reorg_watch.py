"""Looks, before a window is asked for, whether our blocks are still the chain's.

See docs/explanation/reorgs.md#signs-of-a-fork.
"""

from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.indexer.folder import Folder
from oracle.indexer.reorgs.finality_halt import (
    FINALITY_VIOLATION,
    HaltChanged,
    compare_final,
    recheck_halt,
)
from oracle.indexer.reorgs.fork_detection import ForkContext, ForkWatch
from oracle.indexer.reorgs.reorg import Rewound, rewind_if_forked

# Between two looks at the final block, in seconds of the clock that polls are counted by.
COMPARE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class IngestPaused:
    """No window is to be taken in now; `done`: what was done instead, None: nothing was."""

    done: Rewound | HaltChanged | None


def check_for_reorg(
    fork_context: ForkContext, folder: Folder, heads: Heads
) -> IngestPaused | None:
    """Return why no window may be taken in now; None: one may.

    At the start of a process the newest and the final block are compared before anything is
    fetched; the final one now and then from there on. An active halt is looked at for proof.

    Raises:
        TransientError: no endpoint answers, or one was found to contradict the others.
    """
    with fork_context.store.reading() as uow:
        cursor, closed = uow.cursor.get(), uow.halts.closed(FINALITY_VIOLATION)
    if closed is not None:
        return IngestPaused(recheck_halt(fork_context, heads.latest.time))
    if cursor is None:
        return None
    fork_watch = fork_context.fork_watch
    if fork_watch.seconds_left(fork_context.now):
        return IngestPaused(None)
    if not _is_due(fork_watch, fork_context.now):
        return None
    return _compared(fork_context, folder, heads)


def _is_due(fork_watch: ForkWatch, now: float) -> bool:
    at = fork_watch.compared_at
    if fork_watch.tip.is_open():
        # What is on top of the final block comes first: it says it of both.
        return False
    return at is None or fork_watch.final.is_open() or now - at >= COMPARE_SECONDS


def _compared(fork_context: ForkContext, folder: Folder, heads: Heads) -> IngestPaused | None:
    fork_watch, done = fork_context.fork_watch, compare_final(fork_context)
    if done is not None or fork_watch.final.is_open():
        return IngestPaused(done)
    if fork_watch.compared_at is None:
        found = rewind_if_forked(fork_context, folder, heads)
        if found is not None or fork_watch.tip.is_open():
            return IngestPaused(found)
    fork_watch.compared_at = fork_context.now
    return None
