"""Reads blocks again whose verification level is below what settings and chain allow.

A chain's headers are trusted only after samples: earlier blocks, or those read by an older
program, rest on an endpoint's claim. The coverage lists those blocks, the lowest come first, and
nothing is reported from any of them before. See docs/explanation/verification.md#calibration.
"""

from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.chain.verification.refused_blocks import RefusalError
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Covered, Level
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.audit.repair import RepairContext
from oracle.indexer.audit.reverify import ReverifyRequest, verify
from oracle.indexer.audit.row_diff import RowDiff, check_or_blame, compare
from oracle.indexer.block_confirmation import confirm_block
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import note_proven
from oracle.indexer.rebuild import RebuildOptions, RebuildResult
from oracle.indexer.refused_block import explained, store_refusal
from oracle.indexer.reorgs.fork_detection import ForkContext
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry.indexer_metrics import BELOW_LEVEL


@dataclass(frozen=True, slots=True)
class Reread:
    """Blocks that were read again; `row_count` rows differed, `blocks_left` remain.

    `repaired` is None if no row had to be repaired.
    """

    blocks: BlockRange
    level: Level
    endpoint: str
    rows: int = 0
    left: int = 0
    repaired: RebuildResult | None = None


@dataclass(slots=True)
class Rereader:
    """State between ticks; the coverage itself lists the blocks to read again.

    `next_block` is where the search starts: blocks whose level did not rise are left to the next
    process. The search restarts if another level can be reached than before.
    """

    ahead: int = 0
    level: Level | None = None

    def due(self, chain: ChainReader, uow: UnitOfWork, folder: Folder) -> Covered | None:
        """Return the lowest blocks to read again, or None."""
        level, cursor = chain.level_of_history(), uow.cursor.get()
        if level != self.level:
            self.level, self.ahead = level, 0
        if level < Level.BLOOMED or cursor is None or cursor.final_number is None:
            return None
        final = min(cursor.final_number, cursor.number)
        if self.ahead > final:
            return None
        span = uow.coverage.lowest_below(folder.scope.id, level, BlockRange(self.ahead, final))
        # Everything below has the highest possible level and need not be searched again.
        self.ahead = max(self.ahead, final + 1 if span is None else span.first)
        return span

    def count(self, uow: UnitOfWork, folder: Folder) -> int:
        """Return the number of blocks to read again."""
        cursor = uow.cursor.get()
        final = None if cursor is None else cursor.final_number
        if self.level is None or self.level < Level.BLOOMED or final is None:
            return 0
        return uow.coverage.blocks_below(folder.scope.id, self.level, self.ahead, final)


def reread_next(
    chain: ChainReader, store: Store, folder: Folder, rereader: Rereader, manner: RebuildOptions
) -> Reread | None:
    """Read the next blocks again that are below the level, or return None if there are none.

    Rows that an endpoint had left out, invented or changed are repaired, and that endpoint is
    deprioritised.

    Raises:
        TransientError: no endpoint returns a complete and consistent response, or a block is
            refused.
    """
    task = RepairContext(chain, store, folder, manner)
    # Calibrate before the very first window too, so that its level does not depend on chance.
    chain.calibrate()
    with store.reading() as uow:
        due = rereader.due(chain, uow, folder)
        BELOW_LEVEL.set(rereader.count(uow, folder))
    if due is None:
        return None
    window = _window(task, due.blocks)
    with store.reading() as uow:
        check_or_blame(chain, uow, _cursor(uow), window)
        difference = compare(uow, window)
    repaired = _put_right(task, difference) if difference else None
    with manner.transaction(store) as uow:
        is_same = not compare(uow, window)
        if is_same:
            explained(uow, window.range)
            uow.coverage.raise_to(folder.scope.id, window.range, window.level, window.endpoint)
            note_proven(uow, window)
        if not is_same or window.level < chain.level_of_history():
            rereader.ahead = window.range.last + 1
        left = rereader.count(uow, folder)
    BELOW_LEVEL.set(left)
    return Reread(window.range, window.level, window.endpoint, difference.rows, left, repaired)


def _window(task: RepairContext, blocks: BlockRange) -> BlockWindow:
    try:
        window = task.chain.window(blocks, with_headers=False)
    except RefusalError as error:
        raise store_refusal(task.store, error.refusal) from error
    fork_context = ForkContext(task.chain, task.store)
    confirm_block(fork_context, window.last, window.endpoint, window.range)
    return window


def _put_right(task: RepairContext, difference: RowDiff) -> RebuildResult | None:
    """Verify the differing blocks with proofs and repair their rows; None if none changed."""
    blocks = BlockRange(difference.blocks[0], difference.blocks[-1])
    with task.store.reading() as uow:
        spans = uow.coverage.spans(task.folder.scope.id, blocks.first, blocks.last)
    asked = ReverifyRequest(blocks, Level.PROVEN, repair=True)
    try:
        done = verify(task.chain, task.store, task.folder, asked, task.manner)
    except InputError:
        raise
    except FatalError as error:
        # One endpoint's claim about a final block is not fatal; finality_halt compares all of
        # them.
        raise TransientError(str(error)) from error
    if done.repaired is not None:
        words = f"was wrong about {done.difference.rows} rows of blocks {blocks.first} to"
        for giver in sorted({span.endpoint for span in spans} - set(done.endpoints)):
            task.chain.blame(giver, f"{words} {blocks.last}")
    return done.repaired


def _cursor(uow: UnitOfWork) -> Cursor:
    cursor = uow.cursor.get()
    if cursor is None:
        raise TransientError("nothing is indexed any more")
    return cursor
